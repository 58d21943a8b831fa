"""The live view for whoever has a Spark session: as a frame, and as a view in a catalog that's kept current.

A view is text. The text is right until the mirror begins a new generation, its columns change, or its changes begin
to lack columns. Before such a change the view is *held*: bound to the two versions that are there, which stay readable.
Afterwards it *follows* again. So in between, and through a crash, it shows an older state and never a wrong one.
"""

import json
import re
from dataclasses import dataclass
from functools import partial
from threading import Lock

import structlog
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from actors.lake.delta_table import LakeTable, TableVersion
from actors.lake.delta_tables import delta_tables
from actors.lake.spark_connect import is_lost
from actors.runtime.redaction import safe_message
from pipeline.errors import Definite, Transient
from pipeline.lake.live_view import MirrorPosition, Versions, check_complete, live_view_sql
from pipeline.lake.tables import Tier, literal, location, quoted
from pipeline.schema.table_schema import TableId, TableSchema

log = structlog.get_logger()


def live_view(session: SparkSession, root: str, table: TableId) -> DataFrame:
    """A table's rows as of the last segment that's delivered of it; the frame goes on reading these two versions.

    Raises Definite where the lake has no mirror of it: no snapshot of the table has begun, or none is kept.
    """
    found = _found(session, root, table)
    if found is None:
        mirrored = delta_tables(session)(location(root, table, Tier.MIRROR)).snapshot()
        if mirrored is not None:
            check_complete(mirrored, table)
        raise Definite(f"{root} has no mirror of {table}: snapshot the table first")
    return session.sql(live_view_sql(root, found.schema, found.reached, found.at))


# The names that every catalog takes.
_PLAIN = re.compile(r"[A-Za-z0-9_]+")


# What a view says of itself: the table that it shows, as JSON.
_TABLE = "tidemark.table"


class CatalogViews:
    """The live views of a lake's tables as `<catalog>.<database>.<table>`, in a catalog of this session's.

    Tables whose names aren't of ASCII's letters, digits and `_` have none. A catalog doesn't tell names apart by case:
    of two tables that differ by that alone, the one that has a view keeps it. Nor has a table one that the catalog
    refuses. `refused` has why.
    """

    def __init__(self, session: SparkSession, root: str, catalog: str) -> None:
        self._session = session
        self._root = root
        self._catalog = catalog
        self._making = Lock()
        self.refused: dict[TableId, str] = {}

    def hold(self, table: TableId) -> None:
        """Bind the view of a table, if it has one, to what's there. Raises Transient where that can't be done."""
        found = self._found(table)
        if found is None or self._shown_table(table) != table:
            return
        if why := self._make(table, live_view_sql(self._root, found.schema, found.reached, found.at)):
            raise Transient(f"the view of {table} can't be held in the catalog {self._catalog}: {why}")

    def follow(self, table: TableId) -> None:
        """Have the view of a table, if it can have one, read what's newest. Raises Definite without a catalog."""
        if (found := self._found(table)) is None:
            return
        if why := self._make(table, live_view_sql(self._root, found.schema, found.reached)):
            if self.refused.get(table) != why:
                log.warning("the table has no view in the catalog", table=str(table), reason=why)
            self.refused[table] = why
        else:
            self.refused.pop(table, None)

    def _found(self, table: TableId) -> "_Found | None":
        plain = _PLAIN.fullmatch(table.database) and _PLAIN.fullmatch(table.name)
        return _found(self._session, self._root, table) if plain else None

    def _make(self, table: TableId, text: str) -> str:
        """Make a table's view; why that can't be, empty where it's done."""
        properties = (
            f"TBLPROPERTIES ({literal(_TABLE)} = {literal(json.dumps([table.database, table.name]))})"
        )
        with self._making:
            try:
                self._session.sql(f"CREATE SCHEMA IF NOT EXISTS {self._name(table.database)}")
                if (other := self._shown_table(table)) not in (None, table):
                    return (
                        f"{other} has a view of that name, since catalogs ignore the case of names: rename "
                        f"one of the tables, or drop that view if {other} is gone"
                    )
                name = self._name(table.database, table.name)
                self._session.sql(f"CREATE OR REPLACE VIEW {name} {properties} AS {text}")
            except PySparkException as error:
                if is_lost(error):
                    raise
                self._look(error)
                return safe_message(error)
        return ""

    def _shown_table(self, table: TableId) -> TableId | None:
        """The table that the view of this one's name shows; None where there's none, or it doesn't say."""
        name = self._name(table.database, table.name)
        if not self._session.catalog.tableExists(name):
            return None
        for row in self._session.sql(f"SHOW TBLPROPERTIES {name}").collect():
            if row[0] == _TABLE:
                return TableId(*json.loads(row[1]))
        return table

    def _look(self, error: PySparkException) -> None:
        """Raise Definite where it's the catalog that fails, and not one table's view."""
        try:
            self._session.sql(f"SHOW SCHEMAS IN {quoted(self._catalog)}").collect()
        except PySparkException:
            raise Definite(
                f"no view can be kept in the catalog {self._catalog} ({safe_message(error)}): see to the catalog, "
                "or remove lake.catalog"
            ) from error

    def _name(self, *names: str) -> str:
        return ".".join(map(quoted, (self._catalog, *names)))


@dataclass(frozen=True, slots=True)
class _Found:
    """What the lake has of a table at two versions that belong together."""

    schema: TableSchema
    reached: MirrorPosition
    at: Versions


def _found(session: SparkSession, root: str, table: TableId) -> _Found | None:
    """A table's live view as of now, None where there's no mirror that was ever complete."""
    at = partial(location, root, table)
    tables = delta_tables(session)
    mirrors, changelogs = tables(at(Tier.MIRROR)), tables(at(Tier.CHANGELOG))
    mirrored = _whole_version(mirrors, mirrors.snapshot())
    while True:
        # The mirror first: the changelog, which gets everything before it, can't be behind it then.
        changelog = changelogs.snapshot()
        if mirrored is None or changelog is None or mirrored.first:
            return None
        reached = MirrorPosition.told(mirrored, changelog)
        # One that has another generation, or waits for it, said so before its changelog got anything of that.
        now = _whole_version(mirrors, mirrors.snapshot())
        if now is not None and _state(MirrorPosition.told(now, changelog)) == _state(reached):
            break
        mirrored = now
    while not reached.frozen and (changelog.since > mirrored.since or changelog.altering):
        changelog = changelogs.snapshot_at(changelog.version - 1)
    assert mirrored.schema is not None
    return _Found(mirrored.schema, reached, Versions(mirrored.version, changelog.version))


def _state(reached: MirrorPosition) -> tuple[int, bool]:
    return reached.generation, reached.frozen


def _whole_version(table: LakeTable, found: TableVersion | None) -> TableVersion | None:
    """The last version up to this one whose columns are those of its schema."""
    while found is not None and found.altering:
        found = table.snapshot_at(found.version - 1)
    return found
