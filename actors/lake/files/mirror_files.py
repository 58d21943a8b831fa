"""Looks up rows in the files of a mirror, without Spark.

A file has to be read as Spark reads it. A column that was renamed in case alone keeps its old name in older files. The
rows are numbered from the file's beginning, those included that a deletion vector hides.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyroaring import BitMap64

from actors.lake.filesystem import lake_filesystem
from pipeline.errors import Definite
from pipeline.lake.mirrors.changed_keys import ChangedKeys
from pipeline.lake.mirrors.deletion_vector import SIZE_BYTES, vector_places
from pipeline.schema.spelling import fold_name

# So many rows are looked up at once, or fewer if their keys have so many bytes. Each time the changed keys are hashed
# again.
_ROWS_AT_ONCE: Final = 1 << 19
_BYTES_AT_ONCE: Final = 16 << 20

# So many rows are read at once. A file doesn't say how many bytes its texts take in memory: if they repeat, it has each
# of them once. A text of a key has at most some kilobytes.
_ROWS_READ: Final = 1 << 12


class MirrorFiles:
    """The files of the lake table at a path. A file is given by the action of Delta's log that adds it.

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

    def count_rows(self, file: Mapping[str, Any]) -> int:
        """Returns the number of a file's rows, by its statistics if they have it."""
        said = json.loads(file.get("stats") or "{}").get("numRecords")
        if said is None:
            with self._opened(file) as parquet:
                said = parquet.metadata.num_rows
        return int(said)

    def hidden_rows(self, path: str, offset: int, size: int) -> BitMap64 | None:
        """Returns the places that a deletion vector hides; None if it has a form that isn't read here.

        `path`: the file of vectors. `offset`: where the vector's entry begins. `size`: of the vector itself, in bytes.
        """
        filesystem, inside = self._located(path)
        with filesystem.open_input_file(inside) as source:
            return vector_places(source.read_at(size, offset + SIZE_BYTES))

    @contextmanager
    def _opened(self, file: Mapping[str, Any]) -> Iterator[pq.ParquetFile]:
        filesystem, path = self._located(file["path"])
        with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as parquet:
            yield parquet

    def _located(self, path: str) -> tuple[fs.FileSystem, str]:
        """`path`: as in Delta's log, where it's encoded, and may be an absolute one."""
        if urlsplit(path).scheme:
            return lake_filesystem(path if path.startswith("file:") else unquote(path))
        plain = unquote(path)
        return self._filesystem, plain if plain.startswith("/") else f"{self._folder}/{plain}"


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


def _columns(path: str, there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the names of the wanted columns as a file has them."""
    folded = {fold_name(name): name for name in there}
    exact = {name: name for name in there}
    names = [exact.get(name) or folded.get(fold_name(name)) for name in wanted]
    if None in names:
        lacking = ", ".join(name for name, found in zip(wanted, names, strict=True) if found is None)
        raise Definite(f"{path} has no column {lacking}, which is a part of the key: recapture the table")
    return [name for name in names if name is not None]
