"""The filesystem of a lake's path, for code that reads or writes its files without Spark.

Both Spark and pyarrow must reach it. It is either a disk or a store that shows an object when it is complete. So HDFS,
which shows files while they are written, isn't supported, nor a store that only one of the two reaches.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

from pyarrow import fs

from actors.runtime.filesystem import filesystem_at, list_folder
from pipeline.config.s3_environment import s3_endpoint
from pipeline.errors import Definite
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

# How Spark's URIs begin, and how pyarrow's: Hadoop has a name of its own for what all others call s3.
_SCHEMES: Final = {"file": "file", "s3a": "s3", "s3": "s3", "gs": "gs", "abfss": "abfss"}

# Filesystems whose listings have each folder with something in it. Google's has only those with an object of their own.
_LIST_FOLDERS: Final = frozenset({"local", "s3"})

# To make one takes longer than to place a file.
_DISK: Final = fs.LocalFileSystem()


def lake_filesystem(path: str) -> tuple[fs.FileSystem, str]:
    """The filesystem that a path of the lake is on, and the path there; `path`: a local one, or a URI as Spark has it.

    Raises Definite for any other URI, and OSError where the place doesn't answer.
    """
    if "://" not in path and not path.startswith("file:"):
        return _DISK, path if path.startswith("/") else str(Path(path).absolute())
    scheme, _, rest = path.partition(":")
    if scheme not in _SCHEMES:
        raise Definite(
            f"lake.path: {path} can't be reached, since {scheme} isn't one of {', '.join(_SCHEMES)}; give a local "
            "path, or a URI that both Spark and pyarrow know, as s3a://bucket/folder"
        )
    try:
        if _SCHEMES[scheme] == "s3":
            place = urlsplit(rest)
            return _bucket(place.netloc, s3_endpoint(os.environ)), f"{place.netloc}{place.path}".rstrip("/")
        return filesystem_at(f"{_SCHEMES[scheme]}:{rest}")
    except ValueError as error:
        raise Definite(f"lake.path: {path} can't be reached ({error}): correct it") from error


@lru_cache(maxsize=8)
def _bucket(name: str, endpoint: str | None) -> fs.FileSystem:
    """A client of S3, whose connections all who use a bucket share. It asks AWS in which region the bucket is."""
    # A file of one part takes one request instead of three.
    options = {"allow_delayed_open": "true"}
    if endpoint is not None:
        options["endpoint_override"] = endpoint
    filesystem, _ = filesystem_at(f"s3://{name}?{urlencode(options)}")
    return filesystem


@contextmanager
def passing_folder(path: str) -> Iterator[str]:
    """An empty folder below a path until the block ends. What a kill has left of an earlier one goes."""
    lake, folders = lake_filesystem(path)
    name = uuid4().hex
    remove_folder(lake, folders)
    lake.create_dir(f"{folders}/{name}", recursive=True)
    try:
        yield f"{path}/{name}"
    finally:
        remove_folder(lake, folders)


def remove_folder(filesystem: fs.FileSystem, folder: str) -> None:
    """Removes a folder with all that's in it, if there is one."""
    if filesystem.get_file_info(folder).type is fs.FileType.Directory:
        filesystem.delete_dir(folder)


def absent_tables(root: str, tables: Iterable[TableId]) -> frozenset[TableId]:
    """Returns those of the tables that have no folder in the lake at this path, so that it has nothing of them.

    It lists one folder for each database. If that fails, or may leave out folders, none of the database's tables is
    among them: whoever looks for one of these finds out.
    """
    of_database: dict[str, dict[str, TableId]] = {}
    for table in tables:
        database, name, _ = location(root, table, Tier.CHANGELOG).rsplit("/", 2)
        of_database.setdefault(database, {})[name] = table
    absent: set[TableId] = set()
    for database, names in of_database.items():
        with suppress(OSError):
            filesystem, folder = lake_filesystem(database)
            if filesystem.type_name in _LIST_FOLDERS:
                there = {info.base_name for info in list_folder(filesystem, folder)}
                absent.update(table for name, table in names.items() if name not in there)
    return frozenset(absent)
