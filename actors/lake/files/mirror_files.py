"""Looks up rows in the files of a mirror, without Spark.

A file has to be read as Spark reads it. A column that was renamed in case alone keeps its old name in older files. The
rows are numbered from the file's beginning, those included that a deletion vector hides.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actors.lake.filesystem import lake_filesystem
from pipeline.errors import Definite
from pipeline.lake.mirrors.changed_keys import ChangedKeys
from pipeline.schema.spelling import fold_name

# So many rows are looked up at once. Each time the changed keys are hashed again.
_ROWS_AT_ONCE: Final = 1 << 19


def changed_rows(root: str, file: Mapping[str, Any], keys: ChangedKeys) -> NDArray[np.int64]:
    """Returns the places in a file, in order, of the rows whose keys have changed.

    `root`: the table's path. `file`: the action of Delta's log that adds the file. Raises OSError if the filesystem
    does, and Definite if the file has no column for a part of the key.
    """
    found: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    if not keys.may_be_in(json.loads(file.get("stats") or "{}")):
        return found[0]
    with _opened(root, file) as parquet:
        names = _columns(file["path"], parquet.schema_arrow.names, keys.names)
        before = 0
        for batch in parquet.iter_batches(_ROWS_AT_ONCE, columns=names, use_threads=False):
            found.append(before + keys.rows([batch.column(name) for name in names]))
            before += batch.num_rows
    return np.concatenate(found)


def count_rows(root: str, file: Mapping[str, Any]) -> str:
    """Returns the least that Delta needs of a file's statistics, in JSON, if its writer left them out.

    Raises as `changed_rows`.
    """
    with _opened(root, file) as parquet:
        return json.dumps({"numRecords": parquet.metadata.num_rows})


@contextmanager
def _opened(root: str, file: Mapping[str, Any]) -> Iterator[pq.ParquetFile]:
    filesystem, path = lake_filesystem(_path_of(root, file["path"]))
    with filesystem.open_input_file(path) as source, pq.ParquetFile(source) as parquet:
        yield parquet


def _path_of(root: str, path: str) -> str:
    """Returns a file's path; `path`: as in Delta's log, where it's encoded, and may be an absolute one."""
    plain = unquote(path)
    return plain if urlsplit(path).scheme or plain.startswith("/") else f"{root}/{plain}"


def _columns(path: str, there: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Returns the names of the wanted columns as a file has them."""
    folded = {fold_name(name): name for name in there}
    exact = {name: name for name in there}
    names = [exact.get(name) or folded.get(fold_name(name)) for name in wanted]
    if None in names:
        lacking = ", ".join(name for name, found in zip(wanted, names, strict=True) if found is None)
        raise Definite(f"{path} has no column {lacking}, which is a part of the key: recapture the table")
    return [name for name in names if name is not None]
