"""The lake's tables. The SparkSink writes them through `Lake`, and `Lake.find` reads how far they are.

Each commit that brings rows records how far it goes, as versions of Delta's applications (`txn` actions). Each
application is named after the journal. Delta never lets an application repeat a version, so no segment is taken twice
(`actors.lake.delta.delta_table`). The commit's `userMetadata` has the position as JSON, for readers of the table's
history.

    <journal>/changes      the changelog has the changes of all segments through this one
    <journal>/rows         the mirror has the first snapshot's rows of all segments through this one
    <journal>/merged       the mirror has merged the changes of all segments through this one
    <journal>/after        every table of the lake has everything through this one (`pipeline.lake.delivery`)
    <journal>/generation   the mirror began empty after this SCN
    <journal>/swap         this many swaps of the mirror were made or given up

A new schema goes to the changelog first. It gets rows of that schema only when the mirror has it too. If a crash comes
between the two commits, the changelog's version before the newest one still matches the mirror's schema.

`actors.lake.table_commits` makes the commits, and `actors.lake.generations` begins a mirror's generations and shows
them to readers.
"""

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from uuid import uuid4

from pyspark.sql import SparkSession

from actors.journal.store import JournalReader
from actors.lake.delta.lake_table import LakeTable, TableVersion, present_version, removed_table
from actors.lake.delta.table_opener import delta_tables
from actors.lake.files.file_placement import LakeFiles, tell_nobody
from actors.lake.filesystem import lake_filesystem
from actors.lake.generations import Generations
from actors.lake.live_view import CatalogViews
from actors.lake.maintenance import Upkeep
from actors.lake.table_commits import TableCommits
from actors.lake.threads.table_locks import TableLocks
from actors.lake.threads.tables_at_work import TablesAtWork
from actors.lake.transaction_log.delta_log import newest_commits
from actors.lake.verification.lake_verification import LakeVerification
from pipeline.config.lake_types import LakeTypeRule
from pipeline.config.table_rules import LakeRule, rule_of
from pipeline.lake.batch import Batch, DeliveryStop, LakeTableState, Piece
from pipeline.lake.delivery import AcceptedBatch, accept_batch
from pipeline.lake.files.value_conversion import ValueRefused
from pipeline.lake.files.written_files import WrittenFiles, written_files
from pipeline.lake.live_view import MirrorPosition, Versions
from pipeline.lake.mirrors.merge import pending_sql
from pipeline.lake.reading.descriptions import describe_lake_table
from pipeline.lake.tables.columns import META_COLUMNS
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.tier import Tier
from pipeline.schema import table_schema
from pipeline.schema.table_schema import TableId, TableSchema


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
        placed: Callable[[], object] = tell_nobody,
    ) -> None:
        """`placed` is called for each piece of a file that is placed."""
        self._session = session
        self._root = root
        self._files = LakeFiles(journal, placed)
        self._at_work = TablesAtWork()
        tables = delta_tables(session, self._files.sync_earlier, self._at_work.without)
        identity = journal.identity.id
        self._rules = rules
        self._types = types
        self.views = None if catalog is None else CatalogViews(session, root, catalog)
        # While a merge runs, neither the columns nor the mirror's generation change: the merge would fail. The end of a
        # merge doesn't refresh a view that is held.
        self._changing = TableLocks()
        # No append runs while maintenance trims the changelog, or while an untouched mirror is shown.
        self._trimming = TableLocks()
        self._commits = TableCommits(session, root, tables, self._files, journal, rules)
        self.generations = Generations(
            root, self._commits, self.views, self._changing, self._trimming, self.work
        )
        self.verification = LakeVerification(session, root, tables, self._files, identity)
        self.upkeep = Upkeep(session, root, tables, self._changing, self._trimming)

    def probe(self) -> None:
        """Raises if Spark doesn't answer, or if it can't write under the lake's path. Then every table fails."""
        self._session.sql("SELECT 1").collect()
        filesystem, folder = lake_filesystem(self._root)
        path = f"{folder}/.tidemark-{uuid4().hex}"
        with filesystem.open_output_stream(path) as file:
            file.write(b"\n")
        filesystem.delete_file(path)

    def find(self, table: TableId) -> LakeTableState:
        """Returns what the lake has of a table. Raises ForeignTable if another journal feeds it, CopiedJournal if
        another copy of this one does, and CatalogUndefined."""
        changelog = self._commits.own(table, Tier.CHANGELOG)
        if changelog is None:
            return LakeTableState()
        keyed = changelog.schema is None or bool(changelog.schema.key)
        changelog = self._described(table, Tier.CHANGELOG, changelog, keyed=keyed)
        mirrored, fed = self._found_mirror(table, keyed=keyed)
        if mirrored is not None and mirrored.outlived(changelog):
            mirrored = fed = None
        reached = MirrorPosition() if mirrored is None else MirrorPosition.from_reports(mirrored, changelog)
        changes = changelog.mark("changes")
        self._commits.check_found(table, changelog, fed)
        if self.views is not None:
            self.views.follow(table)
        self._commits.keep_found(table, None if fed is None else fed.generation)
        self._commits.sweep(table, mirrored)  # a killed predecessor's swap is durable only now
        return LakeTableState(
            schema=changelog.schema,
            since=changelog.since,
            mirror_since=0 if fed is None else fed.since,
            columns=changelog.source_columns,
            changes=changes,
            rows=0 if fed is None else fed.rows,
            generation=None if fed is None else fed.generation,
            merged=reached.merged,
            pending=self._pending(table, reached) if mirrored is not None and changes > reached.merged else 0,
            after=max(each.after for each in (changelog, mirrored, fed) if each is not None),
            partial=Property.PARTIAL in changelog.properties,
            stopped=_stop(changelog),
            rebuilding=None if mirrored is None else mirrored.filling_since,
            at=Versions(None if mirrored is None else mirrored.version, changelog.version),
            uncompared=self.verification.holds(table),
            capture_stopped=changelog.properties.get(Property.CAPTURE_STOPPED, ""),
        )

    def _found_mirror(
        self, table: TableId, *, keyed: bool
    ) -> tuple[TableVersion | None, TableVersion | None]:
        """Returns a mirror, and its newest generation, whether readers see it or not; None without a mirror."""
        while (mirrored := self._commits.own(table, Tier.MIRROR)) is not None:
            mirrored = self._described(table, Tier.MIRROR, mirrored, keyed=keyed)
            filled = mirrored.rebuilding if mirrored.pin is not None else None
            beside = filled and self._commits.shadow(table, filled.generation).finish_alter()
            # Else a swap has put it in the mirror's place meanwhile: work beside the batches continues.
            if filled is None or beside is not None or self.version(table, Tier.MIRROR) == mirrored.version:
                return mirrored, beside or mirrored
        return None, None

    def _described(self, table: TableId, tier: Tier, found: TableVersion, *, keyed: bool) -> TableVersion:
        """Returns a lake table that says what it is. An earlier version or another rule may have made it."""
        about = describe_lake_table(table, tier, rule_of(self._rules, table).tiers, keyed=keyed)
        if found.properties.get(Property.ABOUT) == about:
            return found
        self._commits.set_properties(table, tier, {Property.ABOUT: about})
        return self._commits.table(table, tier).snapshot() or found

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
            if table not in self.generations.swapping:
                self.views.follow(table)
        return after

    def _deliver(
        self, table: TableId, present: LakeTableState, batch: Batch, todo: AcceptedBatch
    ) -> LakeTableState:
        if todo.schema is not None:
            present = self._prepare(table, present, todo, todo.schema, batch)
            if todo.partial and not present.partial:
                self._commits.set_properties(table, Tier.CHANGELOG, {Property.PARTIAL: "true"})
                present = replace(present, partial=True)
            todo = self._append_pieces(table, todo, batch)
        elif todo.reason:
            about = self._commits.changelog_properties(table, None)
            self._commits.create_changelog(table, META_COLUMNS, about)
        if todo.reason:
            at = batch.checkpoint.scn
            stopped: dict[str, str] = {Property.STOPPED: todo.reason, Property.STOPPED_AT: str(at)}
            self._commits.set_properties(table, Tier.CHANGELOG, stopped)
            self._commits.make_durable(self._commits.table(table, Tier.CHANGELOG))
            return replace(present, stopped=DeliveryStop(todo.reason, at))
        if (
            present.stopped is not None
        ):  # it resumes; written last, so that a crash before this finds it stopped
            self._commits.set_properties(
                table, Tier.CHANGELOG, {Property.STOPPED: "", Property.STOPPED_AT: ""}
            )
        if batch.stops(table, present):
            present = replace(present, capture_stopped=batch.checkpoint.stopped.get(table, ""))
            self._commits.set_properties(
                table, Tier.CHANGELOG, {Property.CAPTURE_STOPPED: present.capture_stopped}
            )
        versions = self._versions(table)
        self._check_there(table, present, versions)
        # It may have more already, if batches begin again for another table.
        return replace(
            present,
            changes=max(present.changes, batch.through),
            rows=max(present.rows, batch.through),
            after=max(present.after, batch.after),
            stopped=None,
            at=versions,
        )

    def _append_pieces(self, table: TableId, todo: AcceptedBatch, batch: Batch) -> AcceptedBatch:
        """Appends what the lake can take, and returns how far that is."""
        try:
            changelog = self._commits.table(table, Tier.CHANGELOG)
            self._append(table, changelog, Tier.CHANGELOG, "changes", todo.pieces.changes, todo, batch)
            if todo.pieces.rows:
                assert todo.generation is not None
                fed = self._commits.table_of_generation(table, todo.generation)
                self._append(table, fed, Tier.MIRROR, "rows", todo.pieces.rows, todo, batch)
        except ValueRefused as refused:
            return self._append_pieces(table, todo.until(refused), batch)
        return todo

    def _check_there(self, table: TableId, present: LakeTableState, at: Versions | None) -> None:
        """Raises Transient if somebody has removed one of a table's lake tables, or has set one back."""
        changelog, mirror = (location(self._root, table, tier) for tier in (Tier.CHANGELOG, Tier.MIRROR))
        if at is None:
            if present.schema is not None:
                raise removed_table(changelog)
            return
        if at.mirror is None and present.generation is not None:
            raise removed_table(mirror)
        self._commits.check_history(changelog, at.changelog)
        if at.mirror is not None:
            self._commits.check_history(mirror, at.mirror)

    def settled_versions(self, table: TableId) -> Versions | None:
        """The versions at which readers see all that the table has; None if it has no changelog.

        No generation begins meanwhile and no column changes, so the two belong together.
        """
        with self._changing(table):
            return self._versions(table)

    def _versions(self, table: TableId) -> Versions | None:
        # The mirror comes first: the changelog gets everything before the mirror does.
        mirror, changelog = (
            self._commits.table(table, tier).version() for tier in (Tier.MIRROR, Tier.CHANGELOG)
        )
        return None if changelog is None else Versions(mirror, changelog)

    def work(self, table: TableId) -> AbstractContextManager[None]:
        """Lets work beside the batches commit to a table's changelog and mirror, until the block ends."""
        return self._at_work.work(location(self._root, table, tier) for tier in Tier)

    def version(self, table: TableId, tier: Tier) -> int:
        """Returns the newest version of a lake table, -1 if there is none."""
        version = self._commits.table(table, tier).version()
        return -1 if version is None else version

    def make_durable(self, table: TableId, tier: Tier) -> None:
        """Makes durable what Spark has committed to a lake table."""
        self._commits.make_durable(self._commits.table(table, tier))

    def written_between(self, table: TableId, tier: Tier, before: int, after: int) -> WrittenFiles:
        """Returns what the commits from one version to another have written into a lake table, except deliveries.

        Of more than `LOOKED_BACK` commits it reads the newest. Work commits at its end, so its commit is among them if
        `after` is the version at that moment.
        """
        commits = newest_commits(location(self._root, table, tier), after, after - before)
        return written_files(commits, [self._commits.mark(name) for name in ("changes", "rows")])

    def merge(
        self,
        table: TableId,
        reached: MirrorPosition,
        through: int,
        position: str,
        changes: int | None = None,
    ) -> None:
        """Merges changes into a table's mirror, from where it is to a segment. Blocks for seconds.

        `changes`: how many there are, None if that isn't known.

        Merges nothing if the mirror has begun another generation since.
        """
        with self._changing(table):
            mirror = self._commits.table(table, Tier.MIRROR)
            mirrored = present_version(mirror)
            self._commits.check_history(mirror.path, mirrored.version)
            if mirrored.generation == reached.generation and _takes(mirrored, through):
                self._commits.merge(mirror, mirrored, reached, through, changes, position=position)
            if self.views is not None:
                self.views.follow(table)

    def _prepare(
        self, table: TableId, present: LakeTableState, todo: AcceptedBatch, wanted: TableSchema, batch: Batch
    ) -> LakeTableState:
        """Creates the missing tables, applies the schema to both, and begins another generation."""
        begun = todo.generation is not None and todo.generation != present.generation
        mirrored = todo.since if todo.generation is not None else present.mirror_since
        if not begun and (present.since, present.mirror_since) == (todo.since, mirrored):
            return present
        if not begun and present.since > batch.through:
            # A crash came between the two tables' commits: that batch continues. A generation that begins here gets
            # that later schema at once, because its rows may come before that segment.
            return present
        self._check_there(table, present, self._versions(table))
        properties: dict[str, str] = {
            Property.SCHEMA: json.dumps(table_schema.to_json(wanted)),
            Property.SINCE: str(todo.since),
        }
        rebuilding = present.rebuilding
        with self._changing(table):
            self.generations.give_up_swap(table)
            if todo.generation is None:
                self._commits.evolve_changelog(table, todo, properties)
            elif begun:
                # Else it would seem to have all that comes before capture stops the table again.
                if present.capture_stopped:
                    self._commits.set_properties(table, Tier.CHANGELOG, {Property.CAPTURE_STOPPED: ""})
                    present = replace(present, capture_stopped="")
                rebuilding = self.generations.begin(table, todo, todo.generation, wanted, properties, batch)
            else:
                self._commits.evolve_changelog(table, todo, properties)
                rebuilding = self.generations.evolve(table, todo, todo.generation, properties, rebuilding)
            self._commits.make_durable(*self._commits.fed_tables(table, todo.generation))
        return replace(
            present,
            schema=wanted,
            since=todo.since,
            mirror_since=mirrored,
            columns=todo.plan.after,
            generation=todo.generation,
            rebuilding=rebuilding,
        )

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
                self._commits.mark(mark),
                range(pieces[0].segment, todo.through + 1),
                {self._commits.mark("after"): batch.after},
                self._commits.metadata(
                    segment=todo.through,
                    sealed_at_us=batch.sealed.get(todo.through),
                    position=str(batch.checkpoint.position),
                    newest_commit_time_us=batch.newest,
                ),
                lambda version, reached: self._commits.check_reached(table, delta, mark, version, reached),
            )
            self._commits.note_reached(table, delta, mark, todo.through)
        if committed is not None:
            self._commits.note_made(delta.path, committed)
            self._files.sync_commit(delta.path, committed, durable=delta.is_durable(committed))

    def _pending(self, table: TableId, reached: MirrorPosition) -> int:
        row = self._session.sql(pending_sql(self._root, table, reached)).first()
        assert row is not None
        return int(row[0])


def _stop(changelog: TableVersion) -> DeliveryStop | None:
    """Returns why a table gets nothing, None if it isn't stopped. Old versions stored no SCN: such a table stays
    stopped.
    """
    reason, scn = (changelog.properties.get(key) for key in (Property.STOPPED, Property.STOPPED_AT))
    return DeliveryStop(reason, int(scn or sys.maxsize)) if reason else None


def _alters(todo: AcceptedBatch, present: LakeTableState) -> bool:
    """Returns whether the delivery makes a live view's text fail or return wrong rows.

    After a crash the changelog may have the schema already, and the mirror not. Then the view was held.
    """
    mirror_lags = todo.generation is not None and present.mirror_since != todo.since
    return mirror_lags or (todo.schema, todo.generation, todo.partial) != (
        present.schema,
        present.generation,
        present.partial,
    )


def _takes(mirrored: TableVersion, through: int) -> bool:
    """Returns whether changes through a segment can be merged. A mirror that owes constants takes no later ones."""
    owed = mirrored.constants if mirrored.pin is not None and not mirrored.frozen else ()
    return mirrored.filling_since is None or (bool(owed) and all(through < each.segment for each in owed))
