"""Reads the files of a mirror without Spark, and looks up rows in them.

A file has to be read as Spark reads it (`pipeline.lake.files.read_values`). The rows are numbered from the file's
beginning, those included that a deletion vector hides.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyroaring import BitMap64

from actors.lake.filesystem import lake_filesystem
from pipeline.errors import Definite
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.files.read_values import check_calendar, spark_values, stored_name
from pipeline.lake.mirrors.changed_keys import ChangedKeys
from pipeline.lake.mirrors.deletion_vector import AROUND_BYTES, entry_places
from pipeline.types.buffers import Flags, Longs

# So many rows are looked up at once, or fewer if their keys have so many bytes. Each time the changed keys are hashed
# again.
_ROWS_AT_ONCE: Final = 1 << 19
_BYTES_AT_ONCE: Final = 16 << 20

# So many rows are read at once. A file doesn't say how many bytes its texts take in memory: if they repeat, it has each
# of them once. A text of a key has at most some kilobytes.
_ROWS_READ: Final = 1 << 12

# The same for rows with all of their columns. A value that has no length of its own takes so many bytes at most.
_WHOLE_ROWS_AT_ONCE: Final = 1 << 16
_WIDEST: Final = 16

# A file, as its action in Delta's log has it, and the places of those of its rows that aren't there.
ListedFile = tuple[Mapping[str, Any], BitMap64]

# A column that is read from a file: its name and parts there, and its type in the table.
FileColumn = tuple[Stored, pa.DataType]


class MirrorFiles:
    """The files of the lake table at a path, or others in a folder. A file is given by the action of Delta's log that
    adds it, or would.

    All methods raise OSError if the filesystem does.
    """

    def __init__(self, root: str) -> None:
        self._filesystem, self._folder = lake_filesystem(root)

    def changed_rows(self, file: Mapping[str, Any], keys: ChangedKeys) -> BitMap64:
        """Returns the places in a file of the rows whose keys have changed.

        Raises Definite if the file has no column for a part of the key.
        """
        found = BitMap64()
        ranges = keys.ranges(json.loads(file.get("stats") or "{}"))
        if ranges is None:
            return found
        with self._opened(file) as parquet:
            names = _columns(file["path"], parquet.schema_arrow.names, keys.names)
            before = 0
            for rows in _gathered(parquet.iter_batches(_ROWS_READ, columns=names, use_threads=False)):
                places = before + keys.rows([rows.column(name) for name in names], ranges)
                found |= BitMap64(places.astype(np.uint64))
                before += rows.num_rows
        return found

    def batches(
        self, file: Mapping[str, Any], columns: Sequence[FileColumn]
    ) -> Iterator[tuple[int, list[pa.Array]]]:
        """Yields the rows of a file in pieces: the place of the first one, and the columns. Those that the file lacks
        are null.

        Raises ReadBySparkOnly if the file has something that isn't read here.
        """
        with self._opened(file) as parquet:
            footer = parquet.metadata
            check_calendar(footer.metadata)
            there = parquet.schema_arrow.names
            names = [stored_name(there, column.name) for column, _ in columns]
            before = 0
            for group, size in enumerate(self._sizes(file, footer)):
                for rows in parquet.iter_batches(
                    size,
                    row_groups=[group],
                    columns=[name for name in names if name is not None],
                    use_threads=False,
                ):
                    yield (
                        before,
                        [
                            pa.nulls(len(rows), kind)
                            if name is None
                            else spark_values(rows.column(name), kind, column.parts)
                            for name, (column, kind) in zip(names, columns, strict=True)
                        ],
                    )
                    before += len(rows)

    def _sizes(self, file: Mapping[str, Any], footer: pq.FileMetaData) -> list[int]:
        """Returns how many rows of each group of a file are read at once."""
        names = _coded_texts(footer)
        with self._opened(file, names) if names else nullcontext() as coded:
            return [
                _rows_read(footer.row_group(group), _longest(coded, group, names))
                for group in range(footer.num_row_groups)
            ]

    def count_rows(self, file: Mapping[str, Any]) -> int:
        """Returns the number of a file's rows, by its statistics if they have it."""
        said = json.loads(file.get("stats") or "{}").get("numRecords")
        if said is None:
            with self._opened(file) as parquet:
                said = parquet.metadata.num_rows
        return int(said)

    def hidden_rows(self, path: str, offset: int, size: int) -> BitMap64 | None:
        """Returns the places that a deletion vector hides; None if it is damaged, or has a form that isn't read here.

        Delta reads no damaged vector either. `path`: the file of vectors. `offset`: where the vector's entry begins.
        `size`: of the vector itself, in bytes.
        """
        filesystem, inside = self._located(path)
        with filesystem.open_input_file(inside) as source:
            return entry_places(source.read_at(size + AROUND_BYTES, offset))

    @contextmanager
    def _opened(self, file: Mapping[str, Any], coded: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """`coded`: the columns to be read as numbers in a dictionary."""
        filesystem, path = self._located(file["path"])
        with (
            filesystem.open_input_file(path) as source,
            pq.ParquetFile(source, coerce_int96_timestamp_unit="us", read_dictionary=coded) as parquet,
        ):
            yield parquet

    def _located(self, path: str) -> tuple[fs.FileSystem, str]:
        """`path`: as in Delta's log, where it's encoded, and may be an absolute one."""
        if urlsplit(path).scheme:
            return lake_filesystem(path if path.startswith("file:") else unquote(path))
        plain = unquote(path)
        return self._filesystem, plain if plain.startswith("/") else f"{self._folder}/{plain}"


def not_hidden(first: int, count: int, hidden: Longs) -> Flags | None:
    """Returns which of so many rows from a place on aren't among the hidden places; None if all aren't."""
    begin, end = np.searchsorted(hidden, (first, first + count))
    if begin == end:
        return None
    shown = np.ones(count, np.bool_)
    shown[hidden[begin:end] - first] = False
    return shown


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yields the rows in the pieces in which they are looked up."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS_AT_ONCE or size >= _BYTES_AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _chunks(group: pq.RowGroupMetaData) -> list[pq.ColumnChunkMetaData]:
    return [group.column(place) for place in range(group.num_columns)]


def _coded_texts(footer: pq.FileMetaData) -> list[str]:
    """Returns the columns of texts or bytes of which a file has dictionaries."""
    chunks = chain.from_iterable(_chunks(footer.row_group(group)) for group in range(footer.num_row_groups))
    return sorted({each.path_in_schema for each in chunks if _is_text(each) and each.has_dictionary_page})


def _is_text(chunk: pq.ColumnChunkMetaData) -> bool:
    """Returns whether it has values of any length."""
    return bool(chunk.physical_type == "BYTE_ARRAY")


def _longest(coded: pq.ParquetFile, group: int, names: Sequence[str]) -> int:
    """Returns how many bytes the longest texts take that the dictionaries of a group have, one of each column."""
    first = next(coded.iter_batches(1, row_groups=[group], columns=names), None) if names else None
    return 0 if first is None else sum(map(_longest_of, first.columns))


def _longest_of(column: pa.Array) -> int:
    """Returns how many bytes the longest text of a column takes, or one of each part of a struct."""
    if pa.types.is_struct(column.type):
        return sum(_longest_of(column.field(part)) for part in range(column.type.num_fields))
    if not pa.types.is_dictionary(column.type):  # its name only begins like one of the others, before a dot
        return 0
    return pc.max(pc.binary_length(column.dictionary)).as_py() or 0


def _rows_read(group: pq.RowGroupMetaData, longest: int) -> int:
    """Returns how many rows of a group are read at once with all of their columns. `longest`: as `_longest` has it."""
    size = sum(
        each.total_uncompressed_size if _is_text(each) else _WIDEST * each.num_values
        for each in _chunks(group)
    )
    fit: int = _BYTES_AT_ONCE // (longest + size // max(group.num_rows, 1) + 1)
    return max(1, min(_WHOLE_ROWS_AT_ONCE, fit))


def _columns(path: str, there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the names of the wanted columns as a file has them."""
    names = [stored_name(there, name) for name in wanted]
    if None in names:
        lacking = ", ".join(name for name, found in zip(wanted, names, strict=True) if found is None)
        raise Definite(f"{path} has no column {lacking}, which is a part of the key: recapture the table")
    return [name for name in names if name is not None]
