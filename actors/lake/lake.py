"""The lake's tables. The SparkSink writes them through `Lake`, and `Lake.find` reads how far they are.

Each commit that brings rows records how far it goes, as versions of Delta's applications (`txn` actions). Each
application is named after the journal. Delta never lets an application repeat a version, so no segment is taken twice
(`actors.lake.delta_table`). The commit's `userMetadata` has the position as JSON, for readers of the table's history.

    <journal>/changes      the changelog has the changes of all segments through this one
    <journal>/rows         the mirror has the first snapshot's rows of all segments through this one
    <journal>/merged       the mirror has merged the changes of all segments through this one
    <journal>/after        every table of the lake has everything through this one (`pipeline.lake.delivery`)
    <journal>/generation   the mirror began empty after this SCN
    <journal>/swap         this many swaps of the mirror were made or given up

Each of the two lake tables takes a new schema in one commit. That commit changes the columns
(`pipeline.lake.column_changes`), and its properties name the segment that they came with. The changelog goes first, and
gets rows of the new schema only when the mirror has it too. If a crash comes between the two commits, the changelog's
version before the newest one still matches the mirror's schema.

When a mirror begins another generation, one commit empties it and sets its generation, columns and schema. The
changelog gets changes after that SCN only afterwards. What Delta needs for renaming and widening is enabled in a commit
before. That commit changes nothing else.
"""

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from actors.journal.store import JournalReader
from actors.lake.delta_table import LakeTable, TableVersion, is_conflict, made_once
from actors.lake.delta_tables import delta_tables
from actors.lake.file_placement import LakeFiles
from actors.lake.filesystem import lake_filesystem
from actors.lake.live_view import CatalogViews
from actors.lake.maintenance import Upkeep
from actors.lake.spark_connect import is_connect_session
from actors.lake.spark_session import side_session
from actors.lake.threads.table_locks import TableLocks
from actors.lake.transaction_log.delta_log import is_restored
from actors.lake.verification import LakeVerification
from pipeline.config.lake_types import LakeTypeRule
from pipeline.config.table_rules import LakeRule, rule_of
from pipeline.errors import Definite, Transient
from pipeline.lake import tables as lake_tables
from pipeline.lake.batch import Batch, DeliveryStop, LakeTableState, Piece
from pipeline.lake.column_changes import (
    Plan,
    features_of_types,
    follow_steps,
    needed_features,
    owe_constants,
    unchanged_plan,
)
from pipeline.lake.delivery import AcceptedBatch, accept_batch
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.value_conversion import ValueRefused
from pipeline.lake.live_view import MirrorPosition, Versions, filled_sql
from pipeline.lake.mirrors.merge import Merge, pending_sql
from pipeline.lake.reading.descriptions import describe_changelog, describe_lake_table, describe_mirror
from pipeline.lake.tables import (
    PIN_TYPE,
    LakeColumn,
    Property,
    Rebuilding,
    Tier,
    columns,
    constants_text,
    location,
    pin_of,
)
from pipeline.schema import table_schema
from pipeline.schema.table_schema import TableId, TableSchema

# For a mirror of fewer files, finding the extent of the changed keys costs more than it saves.
FILES_TO_LEAVE_OUT = 16

# A generation that is being filled gets a commit with each batch, and no maintenance cleans its log.
_SHADOWS: Final = {"delta.checkpointInterval": "100"}


@dataclass(frozen=True, slots=True)
class _Swap:
    """The commit that puts a generation in the mirror's place: its number, and what it brings."""

    number: int
    of: tuple[LakeColumn, ...]
    properties: Mapping[str, str]
    rows: str
    report: Mapping[str, object]
    pin: str


class Lake:
    """All tables under `root` that one journal feeds."""

    def __init__(
        self,
        session: SparkSession,
        root: str,
        journal: JournalReader,
        rules: tuple[LakeRule, ...] = (),
        catalog: str | None = None,
        types: tuple[LakeTypeRule, ...] = (),
    ) -> None:
        self._session = session
        self._root = root
        self._tables = delta_tables(session)
        self._journal = journal.identity.id
        self._files = LakeFiles(journal)
        self._rules = rules
        self._types = types
        self.views = None if catalog is None else CatalogViews(session, root, catalog)
        # While a merge runs, neither the columns nor the mirror's generation change: the merge would fail. The end of a
        # merge doesn't refresh a view that is held.
        self._changing = TableLocks()
        # The tables whose swap is being written, without that lock. Their views are held until it ends.
        self._swapping: set[TableId] = set()
        # No append runs while maintenance trims the changelog.
        self._trimming = TableLocks()
        self.verification = LakeVerification(session, root, self._tables, self._files, self._journal)
        self.upkeep = Upkeep(session, root, self._tables, self._changing, self._trimming)

    def probe(self) -> None:
        """Raises if Spark doesn't answer, or if it can't write under the lake's path. Then every table fails."""
        self._session.sql("SELECT 1").collect()
        filesystem, folder = lake_filesystem(self._root)
        path = f"{folder}/.tidemark-{uuid4().hex}"
        with filesystem.open_output_stream(path) as file:
            file.write(b"\n")
        filesystem.delete_file(path)

    def find(self, table: TableId) -> LakeTableState:
        """Returns what the lake has of a table. Raises Definite if another journal feeds it."""
        changelog = self._own(table, Tier.CHANGELOG)
        if changelog is None:
            return LakeTableState()
        keyed = changelog.schema is None or bool(changelog.schema.key)
        changelog = self._described(table, Tier.CHANGELOG, changelog, keyed=keyed)
        mirrored = self._own(table, Tier.MIRROR)
        if mirrored is not None:
            mirrored = self._described(table, Tier.MIRROR, mirrored, keyed=keyed)
        self._sweep(table, mirrored)
        fed = None if mirrored is None else self._newest(table, mirrored)
        reached = MirrorPosition() if mirrored is None else MirrorPosition.from_reports(mirrored, changelog)
        changes = changelog.mark("changes")
        if self.views is not None:
            self.views.follow(table)
        return LakeTableState(
            schema=changelog.schema,
            since=changelog.since,
            mirror_since=0 if fed is None else fed.since,
            columns=_columns(changelog),
            changes=changes,
            rows=0 if fed is None else fed.rows,
            generation=None if fed is None else fed.generation,
            merged=reached.merged,
            pending=self._pending(table, reached) if mirrored is not None and changes > reached.merged else 0,
            after=max(each.mark("after") for each in (changelog, mirrored, fed) if each is not None),
            partial=Property.PARTIAL in changelog.properties,
            stopped=_stop(changelog),
            rebuilding=None if mirrored is None else _rebuilding(mirrored),
            at=Versions(None if mirrored is None else mirrored.version, changelog.version),
            uncompared=self.verification.holds(table),
            capture_stopped=changelog.properties.get(Property.CAPTURE_STOPPED, ""),
        )

    def _described(self, table: TableId, tier: Tier, found: TableVersion, *, keyed: bool) -> TableVersion:
        """Returns a lake table that says what it is. An earlier version or another rule may have made it."""
        about = describe_lake_table(table, tier, rule_of(self._rules, table).tiers, keyed=keyed)
        if found.properties.get(Property.ABOUT) == about:
            return found
        self._set(table, tier, {Property.ABOUT: about})
        return self._table(table, tier).snapshot() or found

    def _of_mirror(self, table: TableId, *, shadow: bool = False) -> dict[str, str]:
        """Returns the properties with which a mirror begins, whatever is in it."""
        about = {Property.ABOUT.value: describe_mirror(table, shadow=shadow)}
        plain = not rule_of(self._rules, table).deletion_vectors
        return {**about, lake_tables.VECTORS: "false"} if plain else about

    def _about_changelog(self, table: TableId, schema: TableSchema | None) -> dict[str, str]:
        keyed, tiers = schema is None or bool(schema.key), rule_of(self._rules, table).tiers
        return {Property.ABOUT: describe_changelog(table, tiers, keyed=keyed)}

    def deliver(self, table: TableId, present: LakeTableState, batch: Batch) -> LakeTableState:
        """Delivers a table's part of a batch. Returns what the lake has of the table then. Blocks for about two
        commits.

        If the table can't take a new schema or a value, the delivery ends before it, and the table stops for that
        reason.
        """
        changes = rule_of(self._rules, table).schema_changes
        todo = accept_batch(present, table, batch, changes, self._types)
        # Before the commits: after a crash between them the batch comes again, and placing files again is harmless.
        try:
            self.verification.hold(table, todo.pieces.verified)
        except ValueRefused as refused:
            todo = todo.until(refused)
        if self.views is None or not _alters(todo, present):
            return self._deliver(table, present, batch, todo)
        with self._changing(table):
            self.views.hold(table)
            after = self._deliver(table, present, batch, todo)
            if table not in self._swapping:
                self.views.follow(table)
        return after

    def _deliver(
        self, table: TableId, present: LakeTableState, batch: Batch, todo: AcceptedBatch
    ) -> LakeTableState:
        if todo.schema is not None:
            present = self._prepare(table, present, todo, todo.schema, batch)
            if todo.partial and not present.partial:
                self._set(table, Tier.CHANGELOG, {Property.PARTIAL: "true"})
                present = replace(present, partial=True)
            todo = self._append_pieces(table, todo, batch)
        elif todo.reason:
            self._create(table, lake_tables.META_COLUMNS, self._about_changelog(table, None))
        if todo.reason:
            at = batch.checkpoint.scn
            stopped: dict[str, str] = {Property.STOPPED: todo.reason, Property.STOPPED_AT: str(at)}
            self._set(table, Tier.CHANGELOG, stopped)
            self._make_durable(self._table(table, Tier.CHANGELOG))
            return replace(present, stopped=DeliveryStop(todo.reason, at))
        if (
            present.stopped is not None
        ):  # it resumes; written last, so that a crash before this finds it stopped
            self._set(table, Tier.CHANGELOG, {Property.STOPPED: "", Property.STOPPED_AT: ""})
        if batch.stops(table, present):
            self._set(
                table, Tier.CHANGELOG, {Property.CAPTURE_STOPPED: batch.checkpoint.stopped.get(table, "")}
            )
        # It may have more already, if batches begin again for another table.
        return replace(
            present,
            changes=max(present.changes, batch.through),
            rows=max(present.rows, batch.through),
            after=max(present.after, batch.after),
            stopped=None,
            at=self._versions(table),
            capture_stopped=batch.checkpoint.stopped.get(table, ""),
        )

    def _append_pieces(self, table: TableId, todo: AcceptedBatch, batch: Batch) -> AcceptedBatch:
        """Appends what the lake can take, and returns how far that is."""
        try:
            changelog = self._table(table, Tier.CHANGELOG)
            self._append(table, changelog, Tier.CHANGELOG, "changes", todo.pieces.changes, todo, batch)
            if todo.pieces.rows:
                assert todo.generation is not None
                fed = self._table_of_generation(table, todo.generation)
                self._append(table, fed, Tier.MIRROR, "rows", todo.pieces.rows, todo, batch)
        except ValueRefused as refused:
            return self._append_pieces(table, todo.until(refused), batch)
        return todo

    def settled_versions(self, table: TableId) -> Versions | None:
        """The versions at which readers see all that the table has; None if it has no changelog.

        No generation begins meanwhile and no column changes, so the two belong together.
        """
        with self._changing(table):
            return self._versions(table)

    def _versions(self, table: TableId) -> Versions | None:
        # The mirror comes first: the changelog gets everything before the mirror does.
        mirror, changelog = (self._table(table, tier).version() for tier in (Tier.MIRROR, Tier.CHANGELOG))
        return None if changelog is None else Versions(mirror, changelog)

    def merge(self, table: TableId, reached: MirrorPosition, through: int, position: str) -> None:
        """Merges changes into a table's mirror, from where it is to a segment. Blocks for seconds.

        Merges nothing if the mirror has begun another generation since.
        """
        with self._changing(table):
            mirror = self._table(table, Tier.MIRROR)
            mirrored = mirror.snapshot()
            assert mirrored is not None
            if mirrored.generation == reached.generation and _takes(mirrored, through):
                self._merge(mirror, mirrored, reached, through, position=position)
            if self.views is not None:
                self.views.follow(table)

    def complete(self, table: TableId, generation: int, through: int, position: str) -> None:
        """Shows readers a generation of a table's mirror once it has all its rows, as of a segment.

        Blocks until the mirror is written. Batches continue meanwhile. If readers see the generation already, it is
        merged. If it isn't the newest one, nothing happens. Raises Conflict if a batch has changed the table's columns
        meanwhile.
        """
        with self._changing(table):
            mirror = self._table(table, Tier.MIRROR)
            mirrored = mirror.snapshot()
            assert mirrored is not None
            if mirrored.pin is None and mirrored.generation == generation:
                self._bind(table, generation)
            swap, filled = None, mirrored.rebuilding
            if mirrored.frozen or mirrored.constants:
                if filled is not None and filled.generation == generation:
                    swap = self._planned(table, mirrored, generation, through, position)
            elif mirrored.generation == generation:
                self._complete(table, mirror, mirrored, through, position)
        if swap is not None:
            self._swap(table, mirror, swap)
        elif self.views is not None:
            with self._changing(table):
                self.views.follow(table)

    def _bind(self, table: TableId, generation: int) -> None:
        """Gives the changelog a pin, if it was created before there were pins."""
        changelog = self._table(table, Tier.CHANGELOG)
        present = changelog.snapshot()
        assert present is not None
        if present.pin is None:
            changelog.alter(_as_it_is(present), {}, pin_of(generation))

    def _complete(
        self, table: TableId, mirror: LakeTable, mirrored: TableVersion, through: int, position: str
    ) -> None:
        """Merges what there is, and shows readers the first generation, which was filled in the mirror itself.

        If the changelog is empty, the mirror only says that it has merged all of it.
        """
        changelog = self._table(table, Tier.CHANGELOG)
        present, size = changelog.snapshot(), changelog.size()
        shown: dict[str, str] = {Property.REBUILDING: ""}
        assert present is not None
        if size is not None and size.files == 0 and _rebuilding(mirrored) is not None:
            shown[Property.MERGED] = str(max(through, mirrored.merged))
        else:
            reached = MirrorPosition.from_reports(mirrored, present)
            self._merge(mirror, mirrored, reached, through, position=position)
        if _rebuilding(mirrored) is not None:
            mirror.alter(_as_it_is(mirrored), shown, pin_of(mirrored.generation))

    def _planned(
        self, table: TableId, mirrored: TableVersion, generation: int, through: int, position: str
    ) -> _Swap:
        """Returns the swap that brings a generation, or the constants that it lacks, for the two tables as they are
        now.
        """
        changelog, fed = (
            self._table(table, Tier.CHANGELOG).snapshot(),
            self._table_of_generation(table, generation),
        )
        filled = fed.snapshot()
        assert changelog is not None
        assert filled is not None
        schema = filled.whole_schema
        assert schema is not None
        if self.views is not None and mirrored.frozen:
            self.views.hold(table)
            self._swapping.add(table)
        pin, of = pin_of(generation), columns(schema, Tier.MIRROR)
        properties: dict[str, str] = {
            Property.SCHEMA: filled.properties[Property.SCHEMA],
            Property.SINCE: str(filled.since),
            Property.MERGED: str(through),
            Property.PIN: pin,
            Property.REBUILDING: "",
            **self._of_mirror(table),
        }
        reached = replace(MirrorPosition.from_reports(filled, changelog), generation=generation, pin=pin)
        at = Versions(filled.version, changelog.version)
        rows = filled_sql(self._root, schema, reached, through, fed.path, filled.constants, at)
        report = {"merged": through, "position": position}
        return _Swap(mirrored.mark("swap") + 1, of, properties, rows, report, pin)

    def _swap(self, table: TableId, mirror: LakeTable, swap: _Swap) -> None:
        """Replaces the mirror by a generation that was filled beside it, with the changes that have come meanwhile."""
        try:
            number = ("swap", swap.number)
            self._replace_table(
                mirror, Tier.MIRROR, swap.of, swap.properties, number, swap.rows, **swap.report
            )
        finally:
            with self._changing(table):
                self._swapping.discard(table)
                if self.views is not None:
                    self.views.follow(table)
        swapped = mirror.snapshot()
        if swapped is None or swapped.pin != swap.pin or swapped.rebuilding is not None:
            raise Conflict("the table's columns have changed while its mirror was written")
        self._sweep(table, swapped)

    def _give_up_swap(self, table: TableId) -> None:
        """Makes a swap that is being written fail, because it was planned for other columns.

        It takes the swap's number, so Delta refuses the swap. If the swap commits just before, Delta refuses this
        commit instead, and the mirror has what the swap brought.
        """
        mirror = self._table(table, Tier.MIRROR)
        while (shown := mirror.snapshot()) is not None and _swappable(shown):
            try:
                mirror.set_transaction(self._mark("swap"), shown.mark("swap") + 1)
            except (Py4JError, PySparkException) as error:
                if not is_conflict(error):
                    raise
            else:
                return

    def _merge(
        self,
        mirror: LakeTable,
        mirrored: TableVersion,
        reached: MirrorPosition,
        through: int,
        **report: object,
    ) -> None:
        """Merges the pending changes, if there are any."""
        assert mirrored.schema is not None
        if mirrored.schema.key and reached.merged < through:
            merge = self._within(Merge(self._root, mirrored.schema, reached, through), mirror)
            mirror.merge(merge, self._mark("merged"), self._metadata(merged=through, **report))

    def _prepare(
        self, table: TableId, present: LakeTableState, todo: AcceptedBatch, wanted: TableSchema, batch: Batch
    ) -> LakeTableState:
        """Creates the missing tables, applies the schema to both, and begins another generation."""
        begun = todo.generation is not None and todo.generation != present.generation
        mirrored = todo.since if todo.generation is not None else present.mirror_since
        if not begun and (present.since, present.mirror_since) == (todo.since, mirrored):
            return present
        if (
            present.since > batch.through
        ):  # a crash came between the two tables' commits: that batch continues
            return present
        properties: dict[str, str] = {
            Property.SCHEMA: json.dumps(table_schema.to_json(wanted)),
            Property.SINCE: str(todo.since),
        }
        rebuilding = present.rebuilding
        with self._changing(table):
            self._give_up_swap(table)
            if todo.generation is None:
                self._evolve_changelog(table, todo, properties)
            elif begun:
                rebuilding = self._begin(table, todo, todo.generation, wanted, properties, batch)
            else:
                self._evolve_changelog(table, todo, properties)
                rebuilding = self._evolve_mirror(table, todo, todo.generation, properties, rebuilding)
            shadow = () if todo.generation is None else (self._shadow(table, todo.generation),)
            self._make_durable(*(self._table(table, tier) for tier in Tier), *shadow)
        return replace(
            present,
            schema=wanted,
            since=todo.since,
            mirror_since=mirrored,
            columns=todo.plan.after,
            generation=todo.generation,
            rebuilding=rebuilding,
        )

    def _make_durable(self, *tables: LakeTable) -> None:
        """Makes durable what Spark has committed to these, as far as they exist.

        Only a commit with rows is made durable by itself. A segment may bring a statement and no row. The
        journal learns that the lake has it, and it doesn't come again.
        """
        for each in tables if not is_connect_session(self._session) else ():
            if (version := each.version()) is not None:
                self._files.sync_table(each.path, version)

    def _begin(
        self,
        table: TableId,
        todo: AcceptedBatch,
        generation: int,
        wanted: TableSchema,
        properties: Mapping[str, str],
        batch: Batch,
    ) -> float | None:
        """Begins another generation. Returns since when it is being filled, None if it is complete.

        If readers have a complete mirror and the log doesn't have all rows of the new generation, it is filled beside
        the mirror.
        """
        mirror, of = self._table(table, Tier.MIRROR), columns(wanted, Tier.MIRROR)
        pin, marks = pin_of(generation), ("generation", generation)
        present, empty = mirror.snapshot(), batch.completes(table, generation)
        if present is not None and present.pin is not None and not empty:
            since = self._freeze(table, mirror, present, generation)
            self._evolve_changelog(table, todo, properties, pin)
            filled = {**properties, **_SHADOWS, **self._of_mirror(table, shadow=True)}
            self._replace_table(self._shadow(table, generation), Tier.MIRROR, of, filled, marks)
            return since
        self._evolve_changelog(table, todo, properties, pin)
        if empty:
            pinned = (*of, LakeColumn(pin, PIN_TYPE))
            complete = {**properties, Property.PIN: pin, Property.REBUILDING: "", **self._of_mirror(table)}
            self._replace_table(mirror, Tier.MIRROR, pinned, complete, marks)
            self._sweep(table, mirror.snapshot())
            return None
        filling = Rebuilding(generation, None, time.time())
        beginning = {**properties, Property.REBUILDING: filling.text, **self._of_mirror(table)}
        self._replace_table(mirror, Tier.MIRROR, of, beginning, marks)
        return filling.since

    def _freeze(self, table: TableId, mirror: LakeTable, present: TableVersion, generation: int) -> float:
        """Marks a complete mirror as frozen: another generation is being filled. Returns since when.

        First it merges all earlier changes, because the changelog's columns may be others from here on.
        """
        frozen = present.rebuilding
        if frozen is None or not present.frozen:
            changelog = self._own(table, Tier.CHANGELOG)
            assert changelog is not None
            segment = changelog.mark("changes")
            self._merge(mirror, present, MirrorPosition.from_reports(present, changelog), segment)
            frozen = Rebuilding(generation, segment, time.time())
        renewed = replace(frozen, generation=generation)
        self._set(table, Tier.MIRROR, {Property.REBUILDING: renewed.text})
        return renewed.since

    def _evolve_mirror(
        self,
        table: TableId,
        todo: AcceptedBatch,
        generation: int,
        properties: Mapping[str, str],
        rebuilding: float | None,
    ) -> float | None:
        """Gives a generation of the mirror its new columns, except those whose constants it owes.

        Returns since when it is being filled then, None if it is complete.
        """
        delta = self._table_of_generation(table, generation)
        present = delta.snapshot()
        assert present is not None
        if present.since >= todo.since:
            owed = present.constants
        else:
            further = (step for step in todo.steps if step.segment > present.since)
            owed, steps = owe_constants(present.constants, further)
            owing: dict[str, str] = {}
            if owed or present.constants:
                owing[Property.CONSTANTS] = constants_text(owed)
                if present.pin is not None:  # else it is being filled anyway
                    filled = present.rebuilding or Rebuilding(generation, None, time.time())
                    owing[Property.REBUILDING] = filled.text if owed else ""
            plan = follow_steps(_as_it_is(present), Tier.MIRROR, steps)
            self._alter(delta, present, plan, {**properties, **owing})
        if not owed and not present.constants:
            return rebuilding
        shown = self._table(table, Tier.MIRROR).snapshot()
        assert shown is not None
        return _rebuilding(shown)

    def _evolve_changelog(
        self, table: TableId, todo: AcceptedBatch, properties: Mapping[str, str], pin: str | None = None
    ) -> None:
        """Gives the changelog its new columns. Creates it if it doesn't exist."""
        delta = self._table(table, Tier.CHANGELOG)
        # Another pipeline may have made it since it was looked for.
        present = self._own(table, Tier.CHANGELOG)
        properties = {**properties, **self._about_changelog(table, todo.schema)}
        if present is None:
            plan = follow_steps(unchanged_plan((), None), Tier.CHANGELOG, todo.steps)
            self._create(table, plan.after, properties, pin)
            return
        further = present.since < todo.since
        steps = [step for step in todo.steps if step.segment > present.since] if further else []
        plan = follow_steps(_as_it_is(present), Tier.CHANGELOG, steps)
        if further or pin is not None:
            self._alter(delta, present, plan, properties if further else {}, pin)

    def _alter(
        self,
        delta: LakeTable,
        present: TableVersion,
        plan: Plan,
        properties: Mapping[str, str],
        pin: str | None = None,
    ) -> None:
        if lacking := needed_features(plan, present.properties):
            self._session.sql(lake_tables.set_properties_sql(delta.path, lacking))
        delta.alter(plan, properties, pin)

    def _create(
        self,
        table: TableId,
        of: tuple[LakeColumn, ...],
        properties: Mapping[str, str],
        pin: str | None = None,
    ) -> None:
        changelog = self._table(table, Tier.CHANGELOG)
        if pin is not None:
            of = (*of, LakeColumn(pin, PIN_TYPE))
            properties = {**properties, Property.PIN: pin}
        stored = self._stored_properties(changelog, properties)
        whole = lake_tables.properties_of(Tier.CHANGELOG, stored)
        if changelog.version() is None and changelog.create(of, whole, {}, None):
            return
        self._session.sql(lake_tables.create_sql(changelog.path, Tier.CHANGELOG, of, stored))
        # Another pipeline may have made it first. Or its log has no version.
        if self._own(table, Tier.CHANGELOG) is None:
            self._replace_table(changelog, Tier.CHANGELOG, of, properties, ("made", 0))

    def _replace_table(
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
        metadata = self._metadata(**{mark: number}, **report)
        stored = self._stored_properties(table, properties)
        present = table.snapshot()
        if present is None and rows is None:
            whole = lake_tables.properties_of(tier, stored)
            if table.create(of, whole, {self._mark(mark): number}, metadata):
                return
        if present is not None and (lacking := features_of_types(_columns(present), of)):
            self._session.sql(lake_tables.set_properties_sql(table.path, lacking))
        once = made_once(self._mark(mark), number, metadata)
        with side_session(self._session, once) as session:
            session.sql(lake_tables.begin_sql(table.path, tier, of, stored, rows))

    def _stored_properties(self, table: LakeTable, properties: Mapping[str, str]) -> dict[str, str]:
        """Returns the properties of a new table."""
        return {**table.checkpoints, Property.JOURNAL: self._journal, **properties}

    def _set(self, table: TableId, tier: Tier, properties: Mapping[str, str]) -> None:
        self._session.sql(lake_tables.set_properties_sql(location(self._root, table, tier), properties))

    def _append(
        self,
        table: TableId,
        delta: LakeTable,
        tier: Tier,
        mark: str,
        pieces: tuple[Piece, ...],
        todo: AcceptedBatch,
        batch: Batch,
    ) -> None:
        if not pieces:
            return
        with self._trimming(table):
            committed = delta.append(
                lambda folder, columns: self._files.place(folder, tier, pieces, columns),
                self._mark(mark),
                range(pieces[0].segment, todo.through + 1),
                {self._mark("after"): batch.after},
                self._metadata(
                    segment=todo.through,
                    position=str(batch.checkpoint.position),
                    newest_commit_time_us=batch.newest,
                ),
            )
        if committed is not None:
            self._files.sync_commit(delta.path, committed, durable=delta.is_durable(committed))

    def _within(self, merge: Merge, mirror: LakeTable) -> Merge:
        """Returns the merge restricted to the keys that have changed, if that is less work than to read all of the
        mirror's.
        """
        size, extent = mirror.size(), merge.extent()
        if size is None or size.files < FILES_TO_LEAVE_OUT or extent is None:
            return merge
        row = self._session.sql(extent).first()
        assert row is not None
        return merge.within(row)

    def _pending(self, table: TableId, reached: MirrorPosition) -> int:
        row = self._session.sql(pending_sql(self._root, table, reached)).first()
        assert row is not None
        return int(row[0])

    def _newest(self, table: TableId, mirrored: TableVersion) -> TableVersion:
        """Returns the newest generation of a mirror, whether readers see it or not."""
        shadow = mirrored.rebuilding if mirrored.pin is not None else None
        return (shadow and self._shadow(table, shadow.generation).finish_alter()) or mirrored

    def _table_of_generation(self, table: TableId, generation: int) -> LakeTable:
        """Returns the lake table that has a generation of the mirror."""
        mirror = self._table(table, Tier.MIRROR)
        mirrored = mirror.snapshot()
        shown = mirrored is not None and mirrored.generation == generation
        return mirror if shown else self._shadow(table, generation)

    def _shadow(self, table: TableId, generation: int) -> LakeTable:
        return self._tables(lake_tables.shadow(self._root, table, generation))

    def _sweep(self, table: TableId, mirrored: TableVersion | None) -> None:
        """Removes the tables of generations that readers see in the mirror now, or that were given up."""
        filled = mirrored.rebuilding if mirrored is not None and mirrored.pin is not None else None
        kept = None if filled is None else self._shadow(table, filled.generation).path
        self._files.remove(lake_tables.shadows(self._root, table), kept)

    def _own(self, table: TableId, tier: Tier) -> TableVersion | None:
        delta = self._table(table, tier)
        snapshot = delta.finish_alter()
        if snapshot is not None and (journal := snapshot.properties.get(Property.JOURNAL)) != self._journal:
            raise Definite(
                f"{delta.path} is fed from another journal ({journal or 'none that it names'}, and this one is "
                f"{self._journal}): give this pipeline a lake of its own, or remove the tables and "
                "take a new snapshot of them"
            )
        if snapshot is not None and is_restored(delta.path, snapshot.version, f"{self._journal}/"):
            raise Transient(
                f"{delta.path} was set back by RESTORE, and Delta still says of it that it has what came later: stop "
                "the service, remove the table's folder, and start again, so that its mirror is filled again"
            )
        return snapshot

    def _table(self, table: TableId, tier: Tier) -> LakeTable:
        return self._tables(location(self._root, table, tier))

    def _mark(self, name: str) -> str:
        return f"{self._journal}/{name}"

    def _metadata(self, **report: object) -> str:
        return json.dumps({"journal": self._journal, **report})


def _stop(changelog: TableVersion) -> DeliveryStop | None:
    """Returns why a table gets nothing, None if it isn't stopped. Old versions stored no SCN: such a table stays
    stopped.
    """
    reason, scn = (changelog.properties.get(key) for key in (Property.STOPPED, Property.STOPPED_AT))
    return DeliveryStop(reason, int(scn or sys.maxsize)) if reason else None


def _alters(todo: AcceptedBatch, present: LakeTableState) -> bool:
    """Returns whether the delivery makes a live view's text fail or return wrong rows."""
    return (todo.schema, todo.generation, todo.partial) != (
        present.schema,
        present.generation,
        present.partial,
    )


def _swappable(mirrored: TableVersion) -> bool:
    """Returns whether a swap of the mirror may be under way."""
    return mirrored.rebuilding is not None and (mirrored.pin is not None or bool(mirrored.constants))


def _takes(mirrored: TableVersion, through: int) -> bool:
    """Returns whether changes through a segment can be merged. A mirror that owes constants takes no later ones."""
    owed = mirrored.constants if mirrored.pin is not None and not mirrored.frozen else ()
    return _rebuilding(mirrored) is None or (bool(owed) and all(through < each.segment for each in owed))


def _as_it_is(table: TableVersion) -> Plan:
    """Returns the plan that changes nothing in a lake table."""
    return unchanged_plan(_columns(table), table.schema)


def _columns(table: TableVersion) -> tuple[LakeColumn, ...]:
    """Returns the columns that come from the source."""
    return tuple(LakeColumn(name, column.type) for name, column in table.columns.items() if name != table.pin)


def _rebuilding(mirrored: TableVersion) -> float | None:
    """Returns since when (s since the epoch) its newest generation is being filled, None if it is complete.

    A mirror of an old version has no such property, and may be either: 0.
    """
    if mirrored.rebuilding is not None:
        return mirrored.rebuilding.since
    return None if mirrored.pin is not None else 0.0
