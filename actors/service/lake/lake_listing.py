"""Which tables a lake has, by its path alone: from the logs of the Delta tables in it.

A lake table names in its properties the journal that feeds it and the source's table. A Delta table without these isn't
Tidemark's, and stays unread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from actors.lake.filesystem import lake_filesystem
from actors.lake.transaction_log.delta_log import LOG, LoggedVersion, read_version
from actors.runtime.filesystem import list_folder
from pipeline.errors import Definite
from pipeline.lake.live_view import STOPPED_EMPTY
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table that a lake has: its changelog, and its mirror if there is one."""

    table: TableId
    changelog: LoggedVersion
    mirror: LoggedVersion | None


@dataclass(frozen=True, slots=True)
class LakeListing:
    """The tables of a lake, in the order of their folders. `refused`: why the others in it are left out."""

    tables: tuple[ListedTable, ...]
    refused: tuple[str, ...]


def list_lake(root: str) -> LakeListing:
    """Returns what a lake has. A table without rows yet is left out. Raises OSError if the lake can't be read."""
    tables, refused = list[ListedTable](), list[str]()
    for folder in _table_folders(root):
        try:
            if (found := _listed(root, folder)) is not None:
                tables.append(found)
        except Definite as error:
            refused.append(str(error))
    return LakeListing(tuple(tables), tuple(refused))


def find_lake(root: str) -> LakeListing:
    """Returns what a lake has. Raises Definite if the path isn't a lake's, or OSError if it can't be read."""
    filesystem, folder = lake_filesystem(root)
    kind = filesystem.get_file_info(folder).type
    if kind is fs.FileType.NotFound:
        raise Definite(f"there is nothing at {root}: give the path of a lake, which lake.path names")
    if kind is not fs.FileType.Directory:
        raise Definite(f"{root} is a file, and a lake is a folder: {_GIVE}")
    if (known := read_own(root)) is not None:
        raise Definite(f"{root} is a lake table{_of(known)}: {_whole(root, known)}")
    listing = list_lake(root)
    if listing.tables or listing.refused:
        return listing
    for inside in (root, *(f"{root.rstrip('/')}/{name}" for name in _folders(root))):
        if (known := read_own(f"{inside.rstrip('/')}/{Tier.CHANGELOG}")) is not None:
            raise Definite(f"{root} is a folder in a lake: {_whole(f'{inside}/{Tier.CHANGELOG}', known)}")
    raise Definite(f"{root} has no table of Tidemark's: {_GIVE}, or wait until the service has delivered")


_GIVE: Final = "give the path that lake.path names"


def read_own(path: str, at: int | None = None) -> LoggedVersion | None:
    """Returns the lake table at a path in its newest version, or `at` this one; None if no Delta table is there.

    Raises Definite if Tidemark hasn't written it, or if its log is damaged, and OSError if it can't be read.
    """
    try:
        found = read_version(path, at)
    except (ValueError, KeyError, TypeError) as error:
        raise Definite(
            f"the Delta log of {path} can't be read ({error}): see which file in its {LOG} is damaged"
        ) from error
    if found is not None and Property.JOURNAL not in found.properties:
        raise Definite(
            f"{path} is a Delta table that Tidemark hasn't written, since it lacks the table property "
            f"{Property.JOURNAL}: read it as it is"
        )
    return found


def _listed(root: str, folder: str) -> ListedTable | None:
    path = f"{folder}/{Tier.CHANGELOG}"
    changelog = read_own(path)
    if changelog is None:
        return None
    if (schema := changelog.schema) is None:
        if changelog.stopped:
            raise Definite(STOPPED_EMPTY.format(what=f"the table of {path}", reason=changelog.stopped))
        return None
    if path != (place := location(root, schema.table, Tier.CHANGELOG)):
        raise Definite(f"{path} is the changelog of {schema.table}, whose place is {place}: move it there")
    return ListedTable(schema.table, changelog, read_own(location(root, schema.table, Tier.MIRROR)))


def _table_folders(root: str) -> Iterator[str]:
    for database in _folders(root):
        for name in _folders(f"{root.rstrip('/')}/{database}"):
            yield f"{root.rstrip('/')}/{database}/{name}"


def _folders(path: str) -> list[str]:
    filesystem, folder = lake_filesystem(path)
    found = list_folder(filesystem, folder)
    return sorted(info.base_name for info in found if info.type is fs.FileType.Directory)


def _of(known: LoggedVersion) -> str:
    return "" if known.schema is None else f" of {known.schema.table}"


def _whole(path: str, known: LoggedVersion) -> str:
    """Returns what to give instead of a lake table's path."""
    for tier in Tier:
        inside = "" if known.schema is None else location("", known.schema.table, tier)
        if inside and path.endswith(inside):
            return f"give the lake's path, {path.removesuffix(inside)}"
    return _GIVE
