"""Gathers the changes that count from the many files of a changelog into one.

Each batch brings a file, so a changelog has hundreds of small ones before they are compacted. Spark takes some tens of
milliseconds of a processor for each of them, in each query that reads it. This process reads one in about a
millisecond.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from actors.lake.files.mirror_files import FileColumn, ListedFile, MirrorFiles, not_hidden
from actors.lake.filesystem import lake_filesystem
from pipeline.journal.change_rows import META
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.mirrors.counted_changes import COUNTED_BY, CountedChanges
from pipeline.lake.tables import Tier, columns, ddl
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableSchema
from pipeline.types.buffers import Flags

# The keys of the changes may take so many bytes of memory. A part of a key takes so many beside its value, with what is
# needed to look it up.
MOST_CHANGED_BYTES: Final = 64 << 20
_LOOKUP_BYTES: Final = 64

# So many files are read at once.
_READERS: Final = 2

# A file of so many bytes at most is read as a whole.
_SMALL_BYTES: Final = 1 << 20

_COUNTED_BY: Final = [META.get_field_index(name) for name in COUNTED_BY]


def gather_changes(
    changelog: str,
    files: Sequence[ListedFile],
    stored: Mapping[str, Stored],
    schema: TableSchema,
    counted: CountedChanges,
    out: str,
    check: Callable[[], object],
) -> list[pa.Array]:
    """Writes those changes in these files of a changelog that count to the file `out`.

    Returns their keys, as a column for each part. `changelog`: its path. `stored`: its columns. `schema`: the table's,
    whose columns are taken. `check` is called for each file, and may raise to break it off.

    Raises ReadBySparkOnly if a file has something that isn't read here, or if the keys don't fit into memory. Raises
    OSError if the filesystem does.
    """
    there = {fold_name(name): column for name, column in stored.items()}
    written = pa.schema([*META, *schema.arrow])
    read: list[FileColumn] = [(there[fold_name(field.name)], field.type) for field in written]
    _, scn, segment = (there[name].name for name in COUNTED_BY)
    key, keys, size = [len(META) + place for place in schema.key], list[list[pa.Array]](), 0
    filesystem, path = lake_filesystem(out)
    reader = MirrorFiles(changelog)

    def counted_rows(file: ListedFile) -> Iterator[pa.RecordBatch]:
        action, hidden = file
        gone = np.asarray(hidden.to_array(), np.int64)
        for first, values in reader.batches(action, read):
            yield _counted_rows(values, written, counted, not_hidden(first, len(values[0]), gone))

    opened = [
        file for file in files if counted.may_be_in(json.loads(file[0].get("stats") or "{}"), scn, segment)
    ]
    # Spark reads no dictionary in LZ4 where it filters by the column ("all input must be consumed").
    with pq.ParquetWriter(
        path,
        written,
        filesystem=filesystem,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
    ) as writer:
        for rows in chain.from_iterable(_read_ahead(counted_rows, opened, check)):
            if rows.num_rows:
                writer.write_batch(rows)
                keys.append([rows.column(place) for place in key])
                size += sum(_LOOKUP_BYTES * len(part) + part.nbytes for part in keys[-1])
            if size > MOST_CHANGED_BYTES:
                raise ReadBySparkOnly("the keys that have changed don't fit into memory")
    return [
        pa.chunked_array([each[part] for each in keys], written.field(place).type).combine_chunks()
        for part, place in enumerate(key)
    ]


def read_gathered(session: SparkSession, file: str, schema: TableSchema, name: str) -> None:
    """Gives the changes in a gathered file a name in a session."""
    read = session.read.schema(ddl(columns(schema, Tier.CHANGELOG)))
    read.parquet(file).createOrReplaceTempView(name)


def _read_ahead(
    read: Callable[[ListedFile], Iterator[pa.RecordBatch]],
    files: Sequence[ListedFile],
    check: Callable[[], object],
) -> Iterator[Iterable[pa.RecordBatch]]:
    """Yields what is read of each file. Small ones are read ahead, because a store takes a while to answer."""
    readers, ahead = ThreadPoolExecutor(_READERS, "gathered-changes"), deque[Future[list[pa.RecordBatch]]]()
    try:
        for file in files:
            check()
            if file[0]["size"] > _SMALL_BYTES:
                yield read(file)
            else:
                ahead.append(readers.submit(lambda file: list(read(file)), file))
            if len(ahead) > _READERS:
                yield ahead.popleft().result()
        yield from (each.result() for each in ahead)
    finally:
        readers.shutdown(cancel_futures=True)


def _counted_rows(
    values: Sequence[pa.Array], written: pa.Schema, counted: CountedChanges, shown: Flags | None
) -> pa.RecordBatch:
    rows = pa.RecordBatch.from_arrays(list(values), schema=written)
    counts = counted.rows(*(values[place] for place in _COUNTED_BY))
    return rows.filter(counts if shown is None else pc.and_(counts, pa.array(shown)))
