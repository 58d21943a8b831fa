"""The commits that make, change and replace the lake's tables, and that merge into a mirror.

Each of the two lake tables takes a new schema in one commit. That commit changes the columns
(`pipeline.lake.tables.column_changes`), and its properties name the segment that they came with. What Delta needs for
renaming and widening is enabled in a commit before. That commit changes nothing else.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from pyspark.sql import SparkSession

from actors.journal.store import JournalReader
from actors.lake.delta.changelog import whole_together
from actors.lake.delta.lake_table import LakeTable, TableOpener, TableVersion, present_version
from actors.lake.delta.statements import made_once
from actors.lake.files.file_placement import LakeFiles
from actors.lake.spark.spark_connect import is_connect_session
from actors.lake.spark.spark_session import side_session
from actors.lake.transaction_log.delta_log import is_restored, report_at, was_restored_since
from pipeline.config.table_rules import LakeRule, rule_of
from pipeline.errors import Definite, Transient
from pipeline.journal.consumer_names import LAKE_CONSUMER
from pipeline.lake.delivery import AcceptedBatch
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.reading.descriptions import describe_changelog, describe_mirror
from pipeline.lake.tables import paths, statements
from pipeline.lake.tables.column_changes import (
    ColumnPlan,
    features_of_types,
    follow_steps,
    needed_features,
    unchanged_plan,
)
from pipeline.lake.tables.columns import PIN_TYPE, LakeColumn
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import FORGETTING, VECTORS, Property, properties_of
from pipeline.lake.tables.tier import Tier
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableId, TableSchema

# The mark of each of the two lake tables that says through which segment it has its rows.
_MARKS: Final = {Tier.CHANGELOG: "changes", Tier.MIRROR: "rows"}

# Of so many segments the sink remembers when they were sealed.
_SEALED_KEPT: Final = 64

_COPIED: Final = (
    "{path} has segment {segment} as it was sealed at {at}, and {why}: another copy of this journal has delivered to "
    "the lake; run one of the two services only, or give this one a journal and a lake of its own; if both have "
    "delivered to the lake, move its tables away before the next start, so that their mirrors are filled again"
)

_RESTORED: Final = (
    "{path} was set back by RESTORE or CLONE, and what Delta says of how far it is isn't true any more; stop the "
    "service, remove the table's folder, and start again, so that its mirror is filled again"
)

_SET_BACK: Final = (
    "{path} has segment {segment}, and this service brought it segment {brought}: somebody has put an older copy in "
    "its place; stop the service, remove the table's folder, and start again, so that its mirror is filled again"
)


class ForeignTable(Definite):
    """Another journal feeds the lake table."""


class CopiedJournal(Definite):
    """Another copy of the journal has delivered to the lake table."""


class TableCommits:
    """What Spark and this process commit to all tables under `root` that one journal feeds."""

    def __init__(
        self,
        session: SparkSession,
        root: str,
        tables: TableOpener,
        files: LakeFiles,
        journal: JournalReader,
        rules: tuple[LakeRule, ...],
    ) -> None:
        self._session = session
        self._root = root
        self._tables = tables
        self._files = files
        self._journal = journal.identity.id
        self._segments = journal
        # An entry has the whole checkpoint, and the tables of a batch have its last segment.
        self._sealed_at = lru_cache(_SEALED_KEPT)(lambda segment: journal.entry(segment).sealed_at)
        self._rules = rules
        # The segment through which the lake had everything when the sink began, as the journal knows it.
        known = journal.consumers.known(LAKE_CONSUMER)
        self._joined = 0 if known is None else known.segment
        # Where the journal ended then, and for each of these tables where it ended when the lake was last compared.
        end = None if known is None else known.unchecked_end
        self._end = journal.last_segment() if end is None else end
        self._unseen = {} if known is None else known.unseen
        # The segments that lake tables have reached by a commit of this sink, or that it has compared with the journal.
        self._reached: dict[tuple[TableId, str], tuple[str, int]] = {}
        # The versions of lake tables, by their paths, through which it knows that nobody has set them back.
        self._looked: dict[str, int] = {}

    def mirror_properties(self, table: TableId, *, shadow: bool = False) -> dict[str, str]:
        """Returns the properties with which a mirror begins, whatever is in it."""
        about = {Property.ABOUT.value: describe_mirror(table, shadow=shadow)}
        plain = not rule_of(self._rules, table).deletion_vectors
        return {**about, VECTORS: "false"} if plain else about

    def changelog_properties(self, table: TableId, schema: TableSchema | None) -> dict[str, str]:
        """Returns the properties with which a changelog says what it is."""
        keyed, tiers = schema is None or bool(schema.key), rule_of(self._rules, table).tiers
        return {Property.ABOUT: describe_changelog(table, tiers, keyed=keyed)}

    def table(self, table: TableId, tier: Tier) -> LakeTable:
        """Returns one of the two lake tables of a table."""
        return self._tables(location(self._root, table, tier))

    def shadow(self, table: TableId, generation: int) -> LakeTable:
        """Returns the lake table in which a generation is filled beside the mirror."""
        return self._tables(paths.shadow(self._root, table, generation))

    def table_of_generation(self, table: TableId, generation: int) -> LakeTable:
        """Returns the lake table that has a generation of the mirror."""
        mirror = self.table(table, Tier.MIRROR)
        shown = present_version(mirror).generation == generation
        return mirror if shown else self.shadow(table, generation)

    def fed_tables(self, table: TableId, generation: int | None) -> list[LakeTable]:
        """Returns the lake tables that batches may change. The last one is there only while a generation is filled."""
        shadow = [] if generation is None else [self.shadow(table, generation)]
        return [*(self.table(table, tier) for tier in Tier), *shadow]

    def own(self, table: TableId, tier: Tier) -> TableVersion | None:
        """Returns the newest version of a lake table, None if it doesn't exist.

        Raises ForeignTable if another journal feeds it. Raises Transient if somebody has set it back, or lets Delta
        forget how far it is.
        """
        delta = self.table(table, tier)
        snapshot = delta.finish_alter()
        if snapshot is None:
            self._reached.pop((table, _MARKS[tier]), None)
            self._looked.pop(delta.path, None)
        if snapshot is not None and (journal := snapshot.properties.get(Property.JOURNAL)) != self._journal:
            raise ForeignTable(
                f"{delta.path} is fed from another journal ({journal or 'none that it names'}, and this one is "
                f"{self._journal}); give this pipeline a lake of its own, or remove the tables and "
                "take a new snapshot of them"
            )
        if snapshot is not None:
            self.check_history(delta.path, snapshot.version)
        if snapshot is not None and (duration := snapshot.properties.get(FORGETTING)) is not None:
            raise Transient(
                f"{delta.path} has the property {FORGETTING} ({duration}), with which Delta forgets how "
                "far the table is, so that rows would come twice; remove the property; if nothing came to the table "
                "for as long as it says, stop the service, remove the table's folder, and start again, so that its "
                "mirror is filled again"
            )
        return snapshot

    def check_history(self, path: str, version: int) -> None:
        """Raises Transient if somebody has set a lake table back, by the commits that it hasn't looked at yet."""
        looked = self._looked.get(path, -1)
        if version == looked:
            return
        if 0 <= looked < version:
            set_back = was_restored_since(path, version, looked)
        else:  # it looks for the first time, or another table has come in this one's place
            set_back = is_restored(path, version, f"{self._journal}/")
        if set_back:
            raise Transient(_RESTORED.format(path=path))
        self._looked[path] = version

    def note_made(self, path: str, version: int) -> None:
        """Notes that this sink has made a version of a lake table."""
        if self._looked.get(path) == version - 1:  # nobody else has made one since it looked
            self._looked[path] = version

    def check_found(self, table: TableId, changelog: TableVersion, fed: TableVersion | None) -> None:
        """Raises CopiedJournal if a table has a segment that this journal has sealed otherwise.

        It looks only at segments that the sink didn't know of when it began. A lake that is ahead of where the journal
        ended then is refused elsewhere (`pipeline.lake.step`).
        """
        end = min(self._end, self._unseen.get(table, self._end))
        for tier, found in ((Tier.CHANGELOG, changelog), (Tier.MIRROR, fed)):
            mark = _MARKS[tier]
            if found is not None and self._joined < (reached := found.mark(mark)) <= end:
                shown = tier is Tier.CHANGELOG
                delta = (
                    self.table(table, tier) if shown else self.table_of_generation(table, found.generation)
                )
                self.check_reached(table, delta, mark, found.version, reached)

    def check_reached(self, table: TableId, delta: LakeTable, mark: str, version: int, reached: int) -> None:
        """Raises CopiedJournal if a mark of a lake table is a segment that this journal has sealed otherwise.

        Raises Transient if a changelog's is before what this sink has brought, since what lies between would be lost,
        and as `check_history`. It looks only at a mark that isn't of this sink's own last commit. A commit of an
        earlier version, or one before the newest ones of the log, doesn't say when its segment was sealed.
        """
        self.check_history(delta.path, version)
        path, brought = self._reached.get((table, mark), ("", 0))
        if path == delta.path and mark == _MARKS[Tier.CHANGELOG] and reached < brought:
            raise Transient(_SET_BACK.format(path=path, segment=max(reached, 0), brought=brought))
        if reached <= 0 or (path, brought) == (delta.path, reached):
            return
        report = report_at(delta.path, version, self.mark(mark), reached)
        sealed = None if report is None else json.loads(report).get("sealed_at_us")
        if sealed is not None and (why := self._differs(reached, sealed)) is not None:
            raise CopiedJournal(_COPIED.format(path=delta.path, segment=reached, at=_moment(sealed), why=why))
        self.note_reached(table, delta, mark, reached)

    def note_reached(self, table: TableId, delta: LakeTable, mark: str, segment: int) -> None:
        """Notes that a mark of a lake table is this segment, as this journal has sealed it."""
        self._reached[table, mark] = delta.path, segment

    def _differs(self, segment: int, sealed: int) -> str | None:
        """Returns what this journal has instead of a segment that was sealed then; None if it has that one, or has
        removed it."""
        try:
            own = self._sealed_at(segment)
        except Definite:
            if segment > (last := self._segments.last_segment()):
                return f"this journal ends with segment {last}"
            if segment >= self._segments.consumers.first():
                raise
            return None
        return None if own == sealed else f"this journal sealed it at {_moment(own)}"

    def set_properties(self, table: TableId, tier: Tier, properties: Mapping[str, str]) -> None:
        """Sets properties of a lake table, in a commit of nothing else."""
        self._session.sql(statements.set_properties_sql(location(self._root, table, tier), properties))

    def alter(
        self,
        delta: LakeTable,
        present: TableVersion,
        plan: ColumnPlan,
        properties: Mapping[str, str],
        pin: str | None = None,
    ) -> None:
        """Changes a lake table's columns, and enables before what Delta needs for that."""
        if lacking := needed_features(plan, present.properties):
            self._session.sql(statements.set_properties_sql(delta.path, lacking))
        delta.alter(plan, properties, pin)

    def evolve_changelog(
        self, table: TableId, todo: AcceptedBatch, properties: Mapping[str, str], pin: str | None = None
    ) -> None:
        """Gives the changelog its new columns. Creates it if it doesn't exist."""
        delta = self.table(table, Tier.CHANGELOG)
        # Another pipeline may have made it since it was looked for.
        present = self.own(table, Tier.CHANGELOG)
        properties = {**properties, **self.changelog_properties(table, todo.schema)}
        if present is None:
            plan = follow_steps(unchanged_plan((), None), Tier.CHANGELOG, todo.steps)
            self.create_changelog(table, plan.after, properties, pin)
            return
        further = present.since < todo.since
        steps = [step for step in todo.steps if step.segment > present.since] if further else []
        plan = follow_steps(present.unchanged, Tier.CHANGELOG, steps)
        if further or pin is not None:
            self.alter(delta, present, plan, properties if further else {}, pin)

    def create_changelog(
        self,
        table: TableId,
        of: tuple[LakeColumn, ...],
        properties: Mapping[str, str],
        pin: str | None = None,
    ) -> None:
        """Creates a changelog with these columns, unless there is one."""
        changelog = self.table(table, Tier.CHANGELOG)
        if pin is not None:
            of = (*of, LakeColumn(pin, PIN_TYPE))
            properties = {**properties, Property.PIN: pin}
        stored = self._stored_properties(changelog, properties)
        whole = properties_of(Tier.CHANGELOG, stored)
        if changelog.version() is None and changelog.create(of, whole, {}, None):
            return
        self._session.sql(statements.create_sql(changelog.path, Tier.CHANGELOG, of, stored))
        # Another pipeline may have made it first. Or its log has no version.
        if self.own(table, Tier.CHANGELOG) is None:
            self.replace_table(changelog, Tier.CHANGELOG, of, properties, ("made", 0))

    def replace_table(
        self,
        table: LakeTable,
        tier: Tier,
        of: tuple[LakeColumn, ...],
        properties: Mapping[str, str],
        reached: tuple[str, int],
        rows: str | None = None,
        **report: object,
    ) -> None:
        """Replaces a lake table by one with these rows, or an empty one, unless its mark has got there already."""
        mark, number = reached
        metadata = self.metadata(**{mark: number}, **report)
        stored = self._stored_properties(table, properties)
        present = table.snapshot()
        if present is None and rows is None:
            whole = properties_of(tier, stored)
            if table.create(of, whole, {self.mark(mark): number}, metadata):
                return
        if present is not None and (lacking := features_of_types(present.source_columns, of)):
            self._session.sql(statements.set_properties_sql(table.path, lacking))
        once = made_once(self.mark(mark), number, metadata)
        with side_session(self._session, once) as session:
            session.sql(statements.begin_sql(table.path, tier, of, stored, rows))

    def _stored_properties(self, table: LakeTable, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties of a new table."""
        return {**table.checkpoints, Property.JOURNAL: self._journal, **properties}

    def merge(
        self,
        mirror: LakeTable,
        mirrored: TableVersion,
        reached: MirrorPosition,
        through: int,
        changes: int | None = None,
        **report: object,
    ) -> None:
        """Merges the pending changes, if there are any; `changes`: how many, None if that isn't known.

        After a crash between the two tables' changes of columns, the same name means another column in the changelog.
        Raises Conflict if it has changes then that can't be merged yet. Raises Definite if the mirror lacks a column.
        """
        assert mirrored.schema is not None
        _check_columns(mirror.path, mirrored)
        if mirrored.schema.key and reached.merged < through:
            changelogs = self.table(mirrored.schema.table, Tier.CHANGELOG)
            newest = present_version(changelogs)
            read = whole_together(mirrored, changelogs, newest, through).version
            at = None if read == newest.version else read
            merge = Merge(self._root, mirrored.schema, reached, through, changes, changelog=at)
            mirror.merge(merge, self.mark("merged"), self.metadata(merged=through, **report))

    def make_durable(self, *tables: LakeTable) -> None:
        """Makes durable what Spark has committed to these, as far as they exist.

        Only a commit with rows is made durable by itself. A segment may bring a statement and no row. The
        journal learns that the lake has it, and it doesn't come again. And what Spark joins was durable in files that
        this version doesn't have.
        """
        for each in tables if not is_connect_session(self._session) else ():
            if (version := each.version()) is not None:
                self._files.sync_commit(each.path, version)

    def keep_found(self, table: TableId, generation: int | None) -> None:
        """Makes durable what a predecessor has committed, and had no time to make so.

        The sink doesn't deliver again what it finds, and reports it to the journal. The journal may remove it then.
        """
        for each in self.fed_tables(table, generation) if not is_connect_session(self._session) else ():
            if (version := each.version()) is not None:
                self._files.sync_found(each.path, version)

    def sweep(self, table: TableId, mirrored: TableVersion | None) -> None:
        """Removes the tables of generations that readers see in the mirror now, or that were given up."""
        filled = mirrored.rebuilding if mirrored is not None and mirrored.pin is not None else None
        kept = None if filled is None else self.shadow(table, filled.generation).path
        self._files.remove(paths.shadows(self._root, table), kept)

    def mark(self, name: str) -> str:
        """Returns the name of the application that says how far a lake table is (`actors.lake.lake`)."""
        return f"{self._journal}/{name}"

    def metadata(self, **report: object) -> str:
        """Returns a commit's own report, as JSON."""
        return json.dumps({"journal": self._journal, **report})


def _check_columns(path: str, found: TableVersion) -> None:
    """Raises Definite if a lake table lacks a column of its schema."""
    assert found.schema is not None
    there = {fold_name(name) for name in found.columns}
    lacking = [each.name for each in found.schema.columns if fold_name(each.name) not in there]
    if lacking:
        raise Definite(
            f"{path} has no column {', '.join(lacking)}; if somebody has renamed or dropped it there, give the table "
            "that column again"
        )


def _moment(us: int) -> str:
    """Returns a moment (µs since the epoch) as text."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=us)).isoformat(" ")
