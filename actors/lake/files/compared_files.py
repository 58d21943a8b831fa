"""Divides the rows of both sides of a comparison by whether their keys have changed, without Spark.

Most keys haven't. Of their rows each side has only the sums of the hashes in the end (`RowSums`). The other rows come
into a file for each side, for Spark to compare them.

The threads that read have the low priority of Spark's tasks, and give up the GIL nearly all the time. They read a file
in pieces, so memory is bounded however large it is.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from threading import Event, Lock
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from actors.lake.files.mirror_files import FileColumn, ListedFile, MirrorFiles, not_hidden
from actors.lake.filesystem import lake_filesystem
from actors.lake.threads.thread_priorities import lower_own_priority
from pipeline.journal.change_rows import META
from pipeline.lake.files.parquet_files import Stored, numbered
from pipeline.lake.verification.row_sums import RowHasher, RowSums

# So many files are read at once.
_READERS: Final = 2

# So often (s) it's checked whether the readers may continue.
_LOOK_EVERY_S: Final = 0.5

# So many bytes of rows wait to be written.
_WAITING_BYTES: Final = 4 << 20

_CHUNK, _SCN = META.field("__chunk"), META.field("__scn")


@dataclass(frozen=True, slots=True)
class Side:
    """A side of a comparison: files in a folder, and the table's columns as they have them.

    `run`: of verified rows, which no vector hides, only those of this verification count. They keep their SCN. `out`:
    the file for rows whose keys have changed.
    """

    folder: str
    files: Sequence[ListedFile]
    columns: Sequence[FileColumn]
    out: str
    run: str | None = None

    @property
    def described(self) -> list[pa.Field]:
        """Returns what the rows have before the table's columns."""
        return [] if self.run is None else [_CHUNK, _SCN]


def plain_columns(fields: Sequence[pa.Field]) -> list[FileColumn]:
    """Returns columns that have the same names in files."""
    return [(_plain(field), field.type) for field in fields]


def divide_rows(
    hasher: RowHasher, table: pa.Schema, sides: Sequence[Side], check: Callable[[], object]
) -> list[RowSums]:
    """Returns the sums of each side's rows whose keys haven't changed, and writes the others with a table's columns,
    by their places (`numbered`).

    `check` is called now and then, and may raise to break it off. Raises ReadBySparkOnly if a file has something that
    isn't read here, and OSError if the filesystem does.
    """
    with ExitStack() as opened:
        outs = [opened.enter_context(_RowsOut(side, table)) for side in sides]
        readers, ends = ThreadPoolExecutor(_READERS, "compared-rows", initializer=lower_own_priority), Event()
        try:
            work = [
                [readers.submit(_divide, hasher, side, out, ends, *file) for file in side.files]
                for side, out in zip(sides, outs, strict=True)
            ]
            _wait_for(list(chain(*work)), check)
            return [sum((file.result() for file in files), RowSums()) for files in work]
        finally:
            ends.set()
            readers.shutdown(cancel_futures=True)


def _wait_for(files: Sequence[Future[RowSums]], check: Callable[[], object]) -> None:
    """Returns when all files are read. Raises as soon as one fails, or as `check` does."""
    while (waited := wait(files, _LOOK_EVERY_S, FIRST_EXCEPTION)).not_done:
        for file in waited.done:
            file.result()
        check()


class _RowsOut:
    """The file of rows whose keys have changed. They come from several threads."""

    def __init__(self, side: Side, table: pa.Schema) -> None:
        self._schema = numbered(pa.schema([*side.described[1:], *table]))
        filesystem, path = lake_filesystem(side.out)
        self._writer = pq.ParquetWriter(
            path,
            self._schema,
            filesystem=filesystem,
            compression="lz4",
            use_dictionary=False,
            write_statistics=False,
        )
        self._lock = Lock()
        self._waiting: list[pa.RecordBatch] = []
        self._size = 0  # bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self._write()
        self._writer.close()

    def put(self, columns: Sequence[pa.Array]) -> None:
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        size = rows.nbytes
        with self._lock:
            self._waiting.append(rows)
            self._size += size
            if self._size > _WAITING_BYTES:
                self._write()

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting.clear()
        self._size = 0


def _divide(
    hasher: RowHasher, side: Side, out: _RowsOut, ends: Event, file: Mapping[str, Any], hidden: BitMap64
) -> RowSums:
    found = RowSums()
    gone, described = np.asarray(hidden.to_array(), np.int64), side.described
    columns = [*plain_columns(described), *side.columns]
    for first, values in MirrorFiles(side.folder).batches(file, columns):
        if ends.is_set():
            break
        if not len(values[0]):
            continue
        if side.run is None:
            shown = not_hidden(first, len(values[0]), gone)
        else:
            shown = np.asarray(pc.equal(values[0], side.run).fill_null(False))
        sums, places = hasher.sum(values[len(described) :], shown)
        found += sums
        if len(places):
            out.put([column.take(pa.array(places)) for column in values[1 if described else 0 :]])
    return found


def _plain(field: pa.Field) -> Stored:
    parts = tuple(map(_plain, field.type)) if pa.types.is_struct(field.type) else ()
    return Stored(field.name, "", parts=parts)
