"""The lake's tables, written by the sink and read by whoever wants the truth.

Each commit that brings something carries how far it goes as a Delta transaction of an application that's named after
the journal, so that the same segments are never taken twice (`actors.delta`), and as JSON in the commit's
`userMetadata`, where a reader of the table's history finds the position:

    <journal>/changes      the changelog has the changes of all segments through this one
    <journal>/rows         the mirror has the first snapshot's rows of all segments through this one
    <journal>/merged       the mirror has merged the changes of all segments through this one
    <journal>/after        every table of the lake has everything through this one (`pipeline.delivery`)
    <journal>/generation   the mirror began empty behind this SCN

A changelog takes on a new schema before its mirror, and both before they say so in their properties: whoever reads
the mirror's first finds columns that are in both. A mirror that begins anew tells its new generation, columns and
schema in the one commit that empties it, and its changelog gets changes behind that SCN only afterwards.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from threading import Lock

from pyspark.sql import DataFrame, SparkSession

from actors.delta import DeltaTable, Snapshot
from actors.journal_store import JournalReader
from actors.lake_files import LakeFiles
from actors.spark_session import PARTITIONS
from pipeline import lake_tables, schema
from pipeline.delivery import Accepted, Batch, Delivered, Piece, accepted
from pipeline.errors import Definite
from pipeline.lake_tables import LakeColumn, Property, Tier, columns, location
from pipeline.live_view import Reached, Versions, live_view_sql
from pipeline.merge import merge_sql, pending_sql
from pipeline.schema import TableId, TableSchema


class Lake:
    """All tables under `root` that are fed from one journal."""

    def __init__(self, session: SparkSession, root: str, journal: JournalReader) -> None:
        self._session = session
        self._root = root
        self._journal = journal.identity.id
        self._files = LakeFiles(journal)
        # A mirror's columns don't change under a MERGE, which would fail, and nor does its generation.
        self._mirrors_changing = Lock()

    def find(self, table: TableId) -> Delivered:
        """What the lake has of a table. Raises Definite where it's fed from another journal."""
        changelog = self._own(table, Tier.CHANGELOG)
        if changelog is None:
            return Delivered()
        mirrored = self._own(table, Tier.MIRROR)
        tables = [changelog] if mirrored is None else [changelog, mirrored]
        # Whichever says so first, the columns are in both by then.
        newest = max(tables, key=_since)
        told = newest.properties.get(Property.SCHEMA)
        done = {**(mirrored.applications if mirrored else {}), **changelog.applications}
        after = [at.applications.get(self._mark("after"), 0) for at in tables]
        reached = self._reached(mirrored)
        changes = done.get(self._mark("changes"), 0)
        return Delivered(
            schema=None if told is None else schema.from_json(json.loads(told)),
            since=_since(newest),
            columns={name.lower(): column.type for name, column in changelog.columns.items()},
            changes=changes,
            rows=done.get(self._mark("rows"), 0),
            generation=None if mirrored is None else reached.generation,
            merged=reached.merged,
            pending=self._pending(table, reached) if changes > reached.merged else 0,
            after=max(after),
            stopped=changelog.properties.get(Property.STOPPED),
        )

    def deliver(self, table: TableId, present: Delivered, batch: Batch) -> Delivered:
        """Bring a table to the end of a batch; what the lake has of it then. It blocks for the time of two commits.

        Where the table can't take on a new schema, it's brought up to there and stopped, with the reason.
        """
        todo = accepted(present, table, batch)
        if todo.schema is not None:
            present = self._prepare(table, present, todo, todo.schema)
            self._append(table, Tier.CHANGELOG, "changes", todo.pieces.changes, todo, batch)
            self._append(table, Tier.MIRROR, "rows", todo.pieces.rows, todo, batch)
        elif todo.reason:
            self._create(table, lake_tables.META_COLUMNS)
        if todo.reason:
            stopped = {Property.STOPPED: todo.reason}
            self._session.sql(
                lake_tables.set_properties_sql(location(self._root, table, Tier.CHANGELOG), stopped)
            )
            return replace(present, stopped=todo.reason)
        return replace(present, changes=batch.through, rows=batch.through, after=batch.after)

    def merge(self, table: TableSchema, reached: Reached, through: int, position: str) -> None:
        """Merge changes into a table's mirror, from where it is to a segment. It blocks for seconds.

        Nothing is merged where the mirror has begun anew since.
        """
        self._session.sparkContext.setLocalProperty("spark.scheduler.pool", "merge")
        session = self._once("merged", through, merged=through, position=position)
        with self._mirrors_changing:
            if (
                self._reached(self._table(table.table, Tier.MIRROR).snapshot()).generation
                == reached.generation
            ):
                session.sql(merge_sql(self._root, table, reached, through))

    def _prepare(self, table: TableId, present: Delivered, todo: Accepted, wanted: TableSchema) -> Delivered:
        """Make the tables that aren't there, add the columns that aren't in them, and begin the mirror anew."""
        changed = present.schema is None or present.schema.version != wanted.version
        if present.schema is None:
            self._create(table, columns(todo.versions[0], Tier.CHANGELOG))
        for version in todo.versions:
            if any(column.name.lower() not in present.columns for column in version.columns):
                self._add_columns(table, Tier.CHANGELOG, columns(version, Tier.CHANGELOG))
        told = {Property.SCHEMA: json.dumps(schema.to_json(wanted)), Property.SINCE: str(todo.since)}
        if todo.generation is not None:
            with self._mirrors_changing:
                if present.generation is None or present.generation < todo.generation:
                    self._begin(table, todo.generation, wanted, told)
                elif changed:
                    self._add_columns(table, Tier.MIRROR, columns(wanted, Tier.MIRROR))
                    self._tell(table, Tier.MIRROR, told)
        if changed:
            self._tell(table, Tier.CHANGELOG, told)
        return replace(
            present, schema=wanted, since=todo.since, columns=todo.columns, generation=todo.generation
        )

    def _create(self, table: TableId, of: tuple[LakeColumn, ...]) -> None:
        path = location(self._root, table, Tier.CHANGELOG)
        self._session.sql(lake_tables.create_sql(path, of, {Property.JOURNAL: self._journal}))

    def _begin(
        self, table: TableId, generation: int, wanted: TableSchema, told: Mapping[Property, str]
    ) -> None:
        path = location(self._root, table, Tier.MIRROR)
        session = self._once("generation", generation, generation=generation)
        session.sql(
            lake_tables.begin_sql(
                path, columns(wanted, Tier.MIRROR), {Property.JOURNAL: self._journal, **told}
            )
        )

    def _tell(self, table: TableId, tier: Tier, told: Mapping[Property, str]) -> None:
        self._session.sql(lake_tables.set_properties_sql(location(self._root, table, tier), told))

    def _once(self, mark: str, version: int, **told: object) -> SparkSession:
        """A session whose statement Delta makes only if the table's mark hasn't got so far."""
        session = self._session.newSession()
        conf = self._session.conf
        for name, value in {
            **{name: conf.get(name) for name in PARTITIONS},
            "spark.databricks.delta.write.txnAppId": self._mark(mark),
            "spark.databricks.delta.write.txnVersion": str(version),
            "spark.databricks.delta.commitInfo.userMetadata": self._metadata(**told),
        }.items():
            session.conf.set(name, str(value))
        return session

    def _add_columns(self, table: TableId, tier: Tier, wanted: tuple[LakeColumn, ...]) -> None:
        delta = self._table(table, tier)
        snapshot = delta.snapshot()
        there = {name.lower() for name in snapshot.columns} if snapshot else set()
        before: str | None = None
        for column in wanted:
            if column.name.lower() not in there:
                self._session.sql(lake_tables.add_column_sql(delta.path, column, before))
            before = column.name

    def _append(
        self, table: TableId, tier: Tier, mark: str, pieces: tuple[Piece, ...], todo: Accepted, batch: Batch
    ) -> None:
        if not pieces:
            return
        delta = self._table(table, tier)
        committed = delta.append(
            partial(self._files.place, delta.path, tier, pieces),
            self._mark(mark),
            todo.through,
            {self._mark("after"): batch.after},
            self._metadata(
                segment=todo.through,
                position=str(batch.checkpoint.position),
                newest_commit_time_us=batch.newest,
            ),
        )
        if committed is not None:
            self._files.settle(delta.path, committed)

    def _reached(self, mirrored: Snapshot | None) -> Reached:
        return _reached(mirrored, self._journal) if mirrored is not None else Reached()

    def _pending(self, table: TableId, reached: Reached) -> int:
        row = self._session.sql(pending_sql(self._root, table, reached)).first()
        assert row is not None
        return int(row[0])

    def _own(self, table: TableId, tier: Tier) -> Snapshot | None:
        delta = self._table(table, tier)
        snapshot = delta.snapshot()
        if snapshot is not None and (journal := snapshot.properties.get(Property.JOURNAL)) != self._journal:
            raise Definite(
                f"{delta.path} is fed from another journal ({journal or 'none that it tells'}, and this one is "
                f"{self._journal}): give this pipeline a lake of its own, or remove the tables and snapshot them anew"
            )
        return snapshot

    def _table(self, table: TableId, tier: Tier) -> DeltaTable:
        return DeltaTable(self._session, location(self._root, table, tier))

    def _mark(self, name: str) -> str:
        return f"{self._journal}/{name}"

    def _metadata(self, **told: object) -> str:
        return json.dumps({"journal": self._journal, **told})


def live_view(session: SparkSession, root: str, table: TableId) -> DataFrame:
    """A table's rows as of the last segment that's delivered of it; the frame goes on reading these two versions.

    Raises Definite where the lake has no mirror of it: no snapshot of the table has begun.
    """
    mirrors = DeltaTable(session, location(root, table, Tier.MIRROR))
    mirrored = mirrors.snapshot()
    while True:
        # The mirror first: the changelog, which gets everything before it, can't be behind it then.
        changelog = DeltaTable(session, location(root, table, Tier.CHANGELOG)).snapshot()
        if mirrored is None or changelog is None:
            raise Definite(f"{root} has no mirror of {table}: snapshot the table first")
        reached = _reached(mirrored, mirrored.properties[Property.JOURNAL])
        # One that has begun anew did so before its changelog got what the old one doesn't count for.
        now = mirrors.snapshot()
        if (
            now is not None
            and _reached(now, now.properties[Property.JOURNAL]).generation == reached.generation
        ):
            break
        mirrored = now
    taken_on = schema.from_json(json.loads(mirrored.properties[Property.SCHEMA]))
    at = Versions(mirrored.version, changelog.version)
    return session.sql(live_view_sql(root, taken_on, reached, at))


def _since(table: Snapshot) -> int:
    return int(table.properties.get(Property.SINCE, 0))


def _reached(mirrored: Snapshot, journal: str) -> Reached:
    marks = mirrored.applications
    return Reached(marks.get(f"{journal}/generation", 0), marks.get(f"{journal}/merged", 0))
