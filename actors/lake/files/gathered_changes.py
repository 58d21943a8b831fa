"""Gathers the changes that count from the many files of a changelog into one.

Each batch brings a file, so a changelog has hundreds of small ones before they are compacted. Spark takes some tens of
milliseconds of a processor for each of them, in each query that reads it. This process reads one in about a
millisecond.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from actors.lake.files.mirror_files import FileColumn, ListedFile, MirrorFiles, not_hidden
from actors.lake.filesystem import lake_filesystem
from actors.lake.spark.spark_session import read_parquet
from pipeline.journal.change_rows import META
from pipeline.lake.files.parquet_files import Stored, numbered, stored_arrow
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.mirrors.counted_changes import COUNTED_BY, CountedChanges
from pipeline.lake.tables.columns import LakeColumn, ddl
from pipeline.lake.tables.spark_sql import spark_type
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableSchema
from pipeline.types.buffers import Flags

# The keys of the changes may take so many bytes of memory. A part of a key takes so many beside its value, with what is
# needed to look it up.
MOST_CHANGED_BYTES: Final = 64 << 20
_LOOKUP_BYTES: Final = 64

# Changes of more bytes are left to Spark, which reads only the columns that it needs.
MOST_GATHERED_BYTES: Final = 256 << 20

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

    Raises ReadBySparkOnly if a file has something that isn't read here, or if the changes are too many. Raises OSError
    if the filesystem does.
    """
    there = {fold_name(name): column for name, column in stored.items()}
    columns = gathered_columns(schema, stored)
    read: list[FileColumn] = [(there[fold_name(field.name)], field.type) for field in columns]
    written, reader = numbered(columns), MirrorFiles(changelog)
    _, scn, segment = (there[name].name for name in COUNTED_BY)
    keys = _GatheredKeys([len(META) + place for place in schema.key])
    filesystem, path = lake_filesystem(out)
    # Spark reads no dictionary in LZ4 where it filters by the column ("all input must be consumed").
    with pq.ParquetWriter(
        path,
        written,
        filesystem=filesystem,
        compression="lz4",
        use_dictionary=False,
        write_statistics=False,
    ) as writer:
        for file, hidden in files:
            check()
            if not counted.may_be_in(json.loads(file.get("stats") or "{}"), scn, segment):
                continue
            gone = np.asarray(hidden.to_array(), np.int64)
            for first, values in reader.batches(file, read):
                rows = _counted_rows(values, written, counted, not_hidden(first, len(values[0]), gone))
                if not rows.num_rows:
                    continue
                writer.write_batch(rows)
                keys.take(rows)
    return keys.columns(written)


class _GatheredKeys:
    """The keys of the changes so far. `places`: where the parts of the key are in the rows."""

    def __init__(self, places: Sequence[int]) -> None:
        self._places = places
        self._keys: list[list[pa.Array]] = []
        self._key_bytes = 0
        self._row_bytes = 0

    def take(self, rows: pa.RecordBatch) -> None:
        """Takes the keys of further changes. Raises ReadBySparkOnly if the changes are too many by now."""
        keys = [rows.column(place) for place in self._places]
        self._keys.append(keys)
        self._row_bytes += rows.nbytes
        self._key_bytes += sum(_LOOKUP_BYTES * len(part) + part.nbytes for part in keys)
        if self._key_bytes > MOST_CHANGED_BYTES or self._row_bytes > MOST_GATHERED_BYTES:
            raise ReadBySparkOnly("the keys that have changed, or their rows, are too many")

    def columns(self, schema: pa.Schema) -> list[pa.Array]:
        """Returns a column for each part. `schema`: that of the rows."""
        return [
            pa.chunked_array([keys[part] for keys in self._keys], schema.field(place).type).combine_chunks()
            for part, place in enumerate(self._places)
        ]


def gathered_columns(schema: TableSchema, stored: Mapping[str, Stored]) -> pa.Schema:
    """Returns the columns of the file of gathered changes; `stored`: those of the changelog.

    A column that has become narrower at the source keeps its type there, which holds earlier values. Those of the key
    have the table's.
    """
    types = {fold_name(name): column.type.casefold() for name, column in stored.items()}
    key = schema.key_names

    def as_stored(field: pa.Field) -> pa.Field:
        held = types[fold_name(field.name)]
        if field.name in key or pa.types.is_struct(field.type) or spark_type(field.type).casefold() == held:
            return field
        return field.with_type(stored_arrow(held))

    return pa.schema([*META, *map(as_stored, schema.arrow)])


def read_numbered(session: SparkSession, file: str, columns: pa.Schema, name: str) -> None:
    """Gives a file's rows a name in a session. The file has these columns by their places (`numbered`)."""
    described = ddl(LakeColumn(field.name, spark_type(field.type)) for field in numbered(columns))
    rows = read_parquet(session, described, file)
    rows.toDF(*columns.names).createOrReplaceTempView(name)


def _counted_rows(
    values: Sequence[pa.Array], written: pa.Schema, counted: CountedChanges, shown: Flags | None
) -> pa.RecordBatch:
    rows = pa.RecordBatch.from_arrays(list(values), schema=written)
    counts = counted.rows(*(values[place] for place in _COUNTED_BY))
    return rows.filter(counts if shown is None else pc.and_(counts, pa.array(shown)))
