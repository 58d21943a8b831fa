"""The live view in a Spark session: as a frame, and as a view in a catalog that is kept current.

A view is text. The text is right until the mirror begins a new generation, its columns change, or its changes begin to
lack columns. Before such a change the view is *held*: bound to the two present versions, which stay readable.
Afterwards it *follows* again. So in between, and through a crash, it shows an older state and never a wrong one.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock

import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from actors.lake.delta.changelog import last_together
from actors.lake.delta.lake_table import LakeTable, TableVersion
from actors.lake.delta.table_opener import delta_tables
from actors.lake.read_your_writes import Written
from actors.lake.spark.spark_connect import is_lost
from actors.runtime.redaction import safe_message
from pipeline.errors import Definite, Transient
from pipeline.lake.live_view import (
    LACKS_CHANGES,
    NO_KEY,
    STOPPED_EMPTY,
    MirrorPosition,
    Versions,
    check_complete,
    live_view_sql,
)
from pipeline.lake.reading.sql_dialects import is_catalog_name
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.spark_sql import literal, quoted
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId, TableSchema

log = structlog.get_logger()


def live_view(
    session: SparkSession, root: str, table: TableId, at: Written | Versions | None = None
) -> DataFrame:
    """Returns a table's rows as of its last delivered segment. The frame always reads these two versions.

    `at`: the versions to read (`GET /bootstrap`), or what the rows have to have. That is waited for, and the frame
    reads the versions that have it. Raises Definite if the lake has no complete mirror of the table: no snapshot of it
    has begun, the table was stopped before, or the lake keeps none. So it does if the versions have changes that the
    live view lacks there. Raises as `Written.versions` does.
    """
    versions = at.versions(table) if isinstance(at, Written) else at
    found = find_view(session, root, table) if versions is None else _found_at(session, root, table, versions)
    if found is None:
        raise Definite(_why_none(session, root, table))
    return session.sql(live_view_sql(root, found.schema, found.reached, found.at))


def _why_none(session: SparkSession, root: str, table: TableId) -> str:
    """Returns why a table has no live view. Raises Definite if its first snapshot isn't complete."""
    mirrored, changelog = (
        delta_tables(session)(location(root, table, tier)).snapshot()
        for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    if changelog is not None and changelog.stopped:
        if changelog.schema is None:
            return STOPPED_EMPTY.format(what=table, reason=changelog.stopped)
        return f"{table} was stopped before its mirror was complete: {changelog.stopped}"
    if mirrored is not None:
        check_complete(mirrored, table)
    return f"{root} has no mirror of {table}: snapshot the table first"


# A view's property with the table that it shows, as JSON.
_TABLE = "tidemark.table"

# The catalog that each session of Spark's has.
_SESSION_CATALOG = "spark_catalog"


class CatalogUndefined(Definite):
    """Spark has no catalog of the name that the views are to be in."""


class CatalogViews:
    """The live views of a lake's tables as `<catalog>.<database>.<table>`, in a catalog of this session.

    A table has none if its name has other characters than ASCII's letters, digits and `_`. A catalog ignores the case
    of names: of two tables that differ only in that, the one that has a view keeps it. A table also has none if the
    catalog refuses it, or if it has no primary key: its view goes when it loses that. `refused` has the reasons.

    While the catalog doesn't answer, a view stays as it is. Only what would make its text wrong has to wait.
    """

    def __init__(self, session: SparkSession, root: str, catalog: str) -> None:
        self._session = session
        self._root = root
        self._catalog = catalog
        self._making = Lock()
        self._made = False
        self.refused: dict[TableId, str] = {}

    def hold(self, table: TableId) -> None:
        """Binds the view of a table, if it has one, to the present versions. Raises Transient if it can't, and as
        `follow` does."""
        found = self._found(table)
        if found is None or not found.schema.key:
            return
        text = live_view_sql(self._root, found.schema, found.reached, found.at)
        if why := self._attempt(partial(self._replace, table, text)):
            raise Transient(f"the view of {table} can't be held: {why}")

    def follow(self, table: TableId) -> None:
        """Makes the view of a table, if it can have one, read the newest versions.

        While the mirror lacks columns that the changelog has, the view is held instead. Raises CatalogUndefined.
        """
        if (found := self._found(table)) is None:
            return
        if not found.schema.key:
            why = self._attempt(partial(self._drop, table))
        else:
            at = None if found.newest else found.at
            text = live_view_sql(self._root, found.schema, found.reached, at)
            why = self._attempt(partial(self._make, table, text))
        if why:
            if self.refused.get(table) != why:
                log.warning("the table has no view in the catalog", table=str(table), reason=why)
            self.refused[table] = why
        else:
            self.refused.pop(table, None)

    def _found(self, table: TableId) -> "FoundView | None":
        return find_view(self._session, self._root, table) if is_catalog_name(table) else None

    def _attempt(self, change: Callable[[], str]) -> str:
        """Changes a view. Returns why its table has none that follows, or an empty text."""
        with self._making:
            try:
                return change()
            except (PySparkException, Py4JJavaError) as error:
                if is_lost(error):
                    raise
                self._check_defined(error)
                return (
                    f"the catalog {self._catalog} doesn't take it ({safe_message(error)}); a view that there is stays "
                    "as it is until the sink tries again"
                )

    def _make(self, table: TableId, text: str) -> str:
        """Makes a table's view. Returns why it can't, or an empty text."""
        properties = (
            f"TBLPROPERTIES ({literal(_TABLE)} = {literal(json.dumps([table.database, table.name]))})"
        )
        self._session.sql(f"CREATE SCHEMA IF NOT EXISTS {self._name(table.database)}")
        if (other := self._shown_table(table)) not in (None, table):
            return (
                f"{other} has a view of that name, since catalogs ignore the case of names; rename "
                f"one of the tables, or drop that view if {other} is gone"
            )
        name = self._name(table.database, table.name)
        self._session.sql(f"CREATE OR REPLACE VIEW {name} {properties} AS {text}")
        self._made = True
        return ""

    def _replace(self, table: TableId, text: str) -> str:
        """Makes a table's view if there is one. Returns as `_make` does."""
        return self._make(table, text) if self._shown_table(table) == table else ""

    def _drop(self, table: TableId) -> str:
        """Removes the view that a table had when it had a primary key. Returns why it has none."""
        if self._shown_table(table) == table:
            self._session.sql(f"DROP VIEW {self._name(table.database, table.name)}")
        return f"it {NO_KEY}"

    def _shown_table(self, table: TableId) -> TableId | None:
        """Returns the table that the view of this name shows; None if there is no view, or it doesn't say."""
        name = self._name(table.database, table.name)
        if not self._session.catalog.tableExists(name):
            return None
        for row in self._session.sql(f"SHOW TBLPROPERTIES {name}").collect():
            if row[0] == _TABLE:
                return TableId(*json.loads(row[1]))
        return table

    def _check_defined(self, error: Exception) -> None:
        """Raises CatalogUndefined if it isn't this view or the catalog that fails, but Spark's settings."""
        setting = f"spark.sql.catalog.{self._catalog}"
        known = self._made or self._catalog.lower() == _SESSION_CATALOG
        if not known and self._session.conf.get(setting, None) is None:
            raise CatalogUndefined(
                f"no view can be kept in the catalog {self._catalog} ({safe_message(error)}): define it by {setting} "
                "in spark.conf, or remove lake.catalog"
            ) from error

    def _name(self, *names: str) -> str:
        return ".".join(map(quoted, (self._catalog, *names)))


@dataclass(frozen=True, slots=True)
class FoundView:
    """What the lake has of a table, at two versions that belong together.

    `newest`: whether these are the newest ones. If not, the changelog has columns that the mirror doesn't have yet.
    `whole`: whether they have all changes that the newest ones have.
    """

    schema: TableSchema
    reached: MirrorPosition
    at: Versions
    newest: bool
    whole: bool


def find_view(session: SparkSession, root: str, table: TableId) -> FoundView | None:
    """Returns a table's live view as of now; None if no mirror was ever complete."""
    at = partial(location, root, table)
    tables = delta_tables(session)
    mirrors, changelogs = tables(at(Tier.MIRROR)), tables(at(Tier.CHANGELOG))
    mirrored = _whole_version(mirrors, mirrors.snapshot())
    while True:
        # The mirror comes first. The changelog gets everything before the mirror does, so it can't lag behind it then.
        changelog = changelogs.snapshot()
        if mirrored is None or changelog is None or mirrored.first:
            return None
        if mirrored.outlived(changelog) and not mirrored.frozen:
            return None  # until its next generation is there
        reached = MirrorPosition.from_reports(mirrored, changelog)
        # A mirror sets its generation, or that it waits for one, before its changelog gets any change of it.
        now = _whole_version(mirrors, mirrors.snapshot())
        if now is not None and _state(MirrorPosition.from_reports(now, changelog)) == _state(reached):
            break
        mirrored = now
    return _together(mirrored, changelogs, changelog)


def _found_at(session: SparkSession, root: str, table: TableId, versions: Versions) -> FoundView | None:
    """Returns a table's live view at these versions; None if there's no mirror.

    Raises Definite if the changelog has changes that can't be read with this mirror.
    """
    mirrors, changelogs = (
        delta_tables(session)(location(root, table, tier)) for tier in (Tier.MIRROR, Tier.CHANGELOG)
    )
    if versions.mirror is None:
        return None
    mirrored = _whole_version(mirrors, mirrors.snapshot_at(versions.mirror))
    assert mirrored is not None
    found = _together(mirrored, changelogs, changelogs.snapshot_at(versions.changelog))
    if not found.whole:
        raise Definite(LACKS_CHANGES.format(table=table))
    return found


def _together(mirrored: TableVersion, changelogs: LakeTable, changelog: TableVersion) -> FoundView:
    """Returns the live view of a mirror, and of the last version of the changelog that may be read with it."""
    reached = MirrorPosition.from_reports(mirrored, changelog)
    read = last_together(mirrored, changelogs, changelog)
    assert mirrored.schema is not None
    at = Versions(mirrored.version, read.version)
    whole = read.mark("changes") == changelog.mark("changes")
    return FoundView(mirrored.schema, reached, at, read.version == changelog.version, whole)


def _state(reached: MirrorPosition) -> tuple[int, bool]:
    return reached.generation, reached.frozen


def _whole_version(table: LakeTable, found: TableVersion | None) -> TableVersion | None:
    """Returns the last version, up to this one, whose columns are those of its schema."""
    while found is not None and found.altering:
        found = table.snapshot_at(found.version - 1)
    return found
