"""The live view for whoever has a Spark session: as a frame, and as a view in a catalog that's kept current.

A view is text, and the text is right until the table's mirror begins anew, its columns change, or its changes begin to
lack columns. Before such a change the view is *held*: bound to the two versions that are there, which stay readable.
Afterwards it *follows* again. So in between, and through a crash, it shows an older state and never a wrong one.
"""

import re
from dataclasses import dataclass
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from actors.delta import LakeTable, Snapshot
from actors.delta_tables import delta_tables
from actors.spark_connect import is_lost
from actors.telling import told
from pipeline.errors import Definite
from pipeline.lake_tables import Tier, location, quoted
from pipeline.live_view import Reached, Versions, live_view_sql, readable
from pipeline.schema import TableId, TableSchema


def live_view(session: SparkSession, root: str, table: TableId) -> DataFrame:
    """A table's rows as of the last segment that's delivered of it; the frame goes on reading these two versions.

    Raises Definite where the lake has no mirror of it: no snapshot of the table has begun, or none is kept.
    """
    found = _found(session, root, table)
    if found is None:
        mirrored = delta_tables(session)(location(root, table, Tier.MIRROR)).snapshot()
        if mirrored is not None:
            readable(mirrored, table)
        raise Definite(f"{root} has no mirror of {table}: snapshot the table first")
    return session.sql(live_view_sql(root, found.schema, found.reached, found.at))


# The names that every catalog takes.
_PLAIN = re.compile(r"[A-Za-z0-9_]+")


class CatalogViews:
    """The live views of a lake's tables as `<catalog>.<database>.<table>`, in a catalog of this session's.

    Tables whose names aren't of ASCII's letters, digits and `_` have none.
    """

    def __init__(self, session: SparkSession, root: str, catalog: str) -> None:
        self._session = session
        self._root = root
        self._catalog = catalog

    def hold(self, table: TableId) -> None:
        """Bind the view of a table, if it can have one, to what's there."""
        if (found := self._found(table)) is not None:
            self._make(table, live_view_sql(self._root, found.schema, found.reached, found.at))

    def follow(self, table: TableId) -> None:
        """Have the view of a table, if it can have one, read what's newest. Raises Definite where it can't be made."""
        if (found := self._found(table)) is not None:
            self._make(table, live_view_sql(self._root, found.schema, found.reached))

    def _found(self, table: TableId) -> "_Found | None":
        plain = _PLAIN.fullmatch(table.database) and _PLAIN.fullmatch(table.name)
        return _found(self._session, self._root, table) if plain else None

    def _make(self, table: TableId, text: str) -> None:
        database = f"{quoted(self._catalog)}.{quoted(table.database)}"
        try:
            self._session.sql(f"CREATE SCHEMA IF NOT EXISTS {database}")
            self._session.sql(f"CREATE OR REPLACE VIEW {database}.{quoted(table.name)} AS {text}")
        except PySparkException as error:
            if is_lost(error):
                raise
            raise Definite(
                f"the view of {table} can't be kept in the catalog {self._catalog} ({told(error)}): see to "
                "the catalog, or remove lake.catalog"
            ) from error


@dataclass(frozen=True, slots=True)
class _Found:
    """What the lake has of a table at two versions that belong together."""

    schema: TableSchema
    reached: Reached
    at: Versions


def _found(session: SparkSession, root: str, table: TableId) -> _Found | None:
    """A table's live view as of now, None where there's no mirror that was ever complete."""
    at = partial(location, root, table)
    tables = delta_tables(session)
    mirrors, changelogs = tables(at(Tier.MIRROR)), tables(at(Tier.CHANGELOG))
    mirrored = _altered(mirrors, mirrors.snapshot())
    while True:
        # The mirror first: the changelog, which gets everything before it, can't be behind it then.
        changelog = changelogs.snapshot()
        if mirrored is None or changelog is None or mirrored.first:
            return None
        reached = Reached.told(mirrored, changelog)
        # One that has another generation, or waits for it, said so before its changelog got anything of that.
        now = _altered(mirrors, mirrors.snapshot())
        if now is not None and _state(Reached.told(now, changelog)) == _state(reached):
            break
        mirrored = now
    while not reached.frozen and (changelog.since > mirrored.since or changelog.altering):
        changelog = changelogs.snapshot_at(changelog.version - 1)
    assert mirrored.schema is not None
    return _Found(mirrored.schema, reached, Versions(mirrored.version, changelog.version))


def _state(reached: Reached) -> tuple[int, bool]:
    return reached.generation, reached.frozen


def _altered(table: LakeTable, found: Snapshot | None) -> Snapshot | None:
    """The last version up to this one whose columns are those of its schema."""
    while found is not None and found.altering:
        found = table.snapshot_at(found.version - 1)
    return found
