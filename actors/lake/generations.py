"""The generations of a table's mirror: each begins, is filled, and is shown to readers.

When a mirror begins another generation, one commit empties it and sets its generation, columns and schema. The
changelog gets changes after that SCN only afterwards. If readers have a complete mirror, the generation is filled
beside it, and a swap puts it in the mirror's place.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from actors.lake.delta.changelog import last_together, whole_together
from actors.lake.delta.lake_table import LakeTable, TableVersion, is_conflict, present_version
from actors.lake.live_view import CatalogViews
from actors.lake.table_commits import TableCommits
from actors.lake.threads.table_locks import TableLocks
from pipeline.lake.batch import Batch
from pipeline.lake.delivery import AcceptedBatch
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.live_view import MirrorPosition, Versions, filled_sql
from pipeline.lake.tables.column_changes import follow_steps, owe_constants
from pipeline.lake.tables.columns import PIN_TYPE, LakeColumn, columns, pin_of
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.report import Rebuilding, constants_text
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId, TableSchema

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


class Generations:
    """The generations of all mirrors under `root`.

    `changing` keeps columns and generations as they are, and `trimming` what batches append. `at_work` counts as work
    at a table until the block ends.
    """

    def __init__(
        self,
        root: str,
        commits: TableCommits,
        views: CatalogViews | None,
        changing: TableLocks,
        trimming: TableLocks,
        at_work: Callable[[TableId], AbstractContextManager[None]],
    ) -> None:
        self._root = root
        self._commits = commits
        self._views = views
        self._changing = changing
        self._trimming = trimming
        self._at_work = at_work
        # The tables whose swap is being written, without that lock. Their views are held until it ends.
        self.swapping: set[TableId] = set()

    def complete(self, table: TableId, generation: int, through: int, position: str) -> None:
        """Shows readers a generation of a table's mirror once it has all its rows, as of a segment.

        Blocks until the mirror is written. Batches continue meanwhile. If readers see the generation already, it is
        merged, unless a later one is being filled. Raises Conflict if a batch has begun another one in this one's
        place, or changed the table's columns, or if the changelog has changes that can't be merged yet.
        """
        if not self._show_untouched(table, generation, through):
            with self._at_work(table):
                self._show(table, generation, through, position)

    def _show_untouched(self, table: TableId, generation: int, through: int) -> bool:
        """Shows readers the first generation, as of a segment, if no change has ever come into the changelog. Returns
        False if one has, or if it isn't the first one.

        The mirror only says that it has merged all of the changelog. Its size doesn't tell that: a version whose
        checksum isn't there yet has none. Batches commit nothing to the mirror meanwhile, so this needn't count as work
        at it (`actors.lake.threads.tables_at_work`).
        """
        with self._changing(table):
            with self._trimming(table):
                mirror, changelogs = (
                    self._commits.table(table, tier) for tier in (Tier.MIRROR, Tier.CHANGELOG)
                )
                mirrored, changelog = present_version(mirror), present_version(changelogs)
                filled = mirrored.first and mirrored.generation == generation and not mirrored.constants
                if not filled or changelog.pin is None or changelog.mark("changes") > 0:
                    return False
                merged = str(max(through, mirrored.merged))
                shown: dict[str, str] = {Property.REBUILDING: "", Property.MERGED: merged}
                mirror.alter(mirrored.unchanged, shown, pin_of(generation))
            if self._views is not None:  # no batch waits for the catalog
                self._views.follow(table)
        return True

    def _show(self, table: TableId, generation: int, through: int, position: str) -> None:
        """Shows readers a generation with the changes that have come, as `complete` says."""
        with self._changing(table):
            mirror = self._commits.table(table, Tier.MIRROR)
            mirrored = present_version(mirror)
            if mirrored.pin is None and mirrored.generation == generation:
                self._bind(table, generation)
            swap, filled = None, mirrored.rebuilding
            if generation not in (mirrored.generation, filled and filled.generation):
                # The sink doesn't know of the other one yet, and would tell readers that they see this one.
                raise Conflict("another generation of its mirror has begun meanwhile")
            if mirrored.frozen or mirrored.constants:
                if filled is not None and filled.generation == generation:
                    swap = self._planned(table, mirrored, generation, through, position)
            else:
                self._complete(table, mirror, mirrored, through, position)
        if swap is not None:
            self._swap(table, mirror, swap)
        elif self._views is not None:
            with self._changing(table):
                self._views.follow(table)

    def _bind(self, table: TableId, generation: int) -> None:
        """Gives the changelog a pin, if it was created before there were pins."""
        changelog = self._commits.table(table, Tier.CHANGELOG)
        present = present_version(changelog)
        if present.pin is None:
            changelog.alter(present.unchanged, {}, pin_of(generation))

    def _complete(
        self, table: TableId, mirror: LakeTable, mirrored: TableVersion, through: int, position: str
    ) -> None:
        """Merges what there is, and shows readers the first generation, which was filled in the mirror itself."""
        present = present_version(self._commits.table(table, Tier.CHANGELOG))
        reached = MirrorPosition.from_reports(mirrored, present)
        self._commits.merge(mirror, mirrored, reached, through, position=position)
        if mirrored.filling_since is not None:
            mirror.alter(mirrored.unchanged, {Property.REBUILDING: ""}, pin_of(mirrored.generation))

    def _planned(
        self, table: TableId, mirrored: TableVersion, generation: int, through: int, position: str
    ) -> _Swap:
        """Returns the swap that brings a generation, or the constants that it lacks, for the two tables as they are
        now.
        """
        changelogs = self._commits.table(table, Tier.CHANGELOG)
        fed = self._commits.table_of_generation(table, generation)
        changelog, filled = present_version(changelogs), present_version(fed)
        schema = filled.whole_schema
        assert schema is not None
        read = whole_together(filled, changelogs, changelog, through)
        if self._views is not None and mirrored.frozen:
            self._views.hold(table)
            self.swapping.add(table)
        pin, of = pin_of(generation), columns(schema, Tier.MIRROR)
        properties: dict[str, str] = {
            Property.SCHEMA: filled.properties[Property.SCHEMA],
            Property.SINCE: str(filled.since),
            Property.MERGED: str(through),
            Property.PIN: pin,
            Property.REBUILDING: "",
            Property.AFTER: self._after(table, mirrored),
            **self._commits.mirror_properties(table),
        }
        reached = replace(MirrorPosition.from_reports(filled, changelog), generation=generation, pin=pin)
        at = Versions(filled.version, read.version)
        rows = filled_sql(self._root, schema, reached, through, fed.path, filled.constants, at)
        report = {"merged": through, "position": position}
        return _Swap(mirrored.mark("swap") + 1, of, properties, rows, report, pin)

    def _swap(self, table: TableId, mirror: LakeTable, swap: _Swap) -> None:
        """Replaces the mirror by a generation that was filled beside it, with the changes that have come meanwhile."""
        try:
            number = ("swap", swap.number)
            self._commits.replace_table(
                mirror, Tier.MIRROR, swap.of, swap.properties, number, swap.rows, **swap.report
            )
        finally:
            with self._changing(table):
                self.swapping.discard(table)
                if self._views is not None:
                    self._views.follow(table)
        # The journal may have removed these rows: otherwise a power cut after the sweep could take their only copy.
        self._commits.make_durable(mirror)
        with self._changing(table):  # so that no batch makes the next generation's table before the sweep
            swapped = mirror.snapshot()
            if swapped is None or swapped.pin != swap.pin or swapped.rebuilding is not None:
                raise Conflict("the table's columns have changed while its mirror was written")
            self._commits.sweep(table, swapped)

    def give_up_swap(self, table: TableId) -> None:
        """Makes a swap that is being written fail, because it was planned for other columns.

        It takes the swap's number, so Delta refuses the swap. If the swap commits just before, Delta refuses this
        commit instead, and the mirror has what the swap brought.
        """
        mirror = self._commits.table(table, Tier.MIRROR)
        while (shown := mirror.snapshot()) is not None and _swappable(shown):
            try:
                mirror.set_transaction(self._commits.mark("swap"), shown.mark("swap") + 1)
            except (Py4JError, PySparkException) as error:
                if not is_conflict(error):
                    raise
            else:
                return

    def begin(
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
        mirror, of = self._commits.table(table, Tier.MIRROR), columns(wanted, Tier.MIRROR)
        pin, marks = pin_of(generation), ("generation", generation)
        present = mirror.snapshot()
        shown = None if present is None or present.pin is None else present
        empty = batch.completes(table, generation, shown=shown is not None)
        if shown is not None and not empty:
            since = self._freeze(table, mirror, shown, generation)
            self._commits.evolve_changelog(table, todo, properties, pin)
            filled = {**properties, **_SHADOWS, **self._commits.mirror_properties(table, shadow=True)}
            self._commits.replace_table(
                self._commits.shadow(table, generation), Tier.MIRROR, of, filled, marks
            )
            return since
        self._commits.evolve_changelog(table, todo, properties, pin)
        if empty:
            pinned = (*of, LakeColumn(pin, PIN_TYPE))
            about = self._commits.mirror_properties(table)
            complete = {**properties, Property.PIN: pin, Property.REBUILDING: "", **about}
            complete[Property.AFTER] = self._after(table, present)
            self._commits.replace_table(mirror, Tier.MIRROR, pinned, complete, marks)
            self._commits.sweep(table, mirror.snapshot())
            return None
        filling = Rebuilding(generation, None, time.time())
        beginning = {
            **properties,
            Property.REBUILDING: filling.text,
            **self._commits.mirror_properties(table),
        }
        self._commits.replace_table(mirror, Tier.MIRROR, of, beginning, marks)
        return filling.since

    def _after(self, table: TableId, mirrored: TableVersion | None) -> str:
        """Returns the mark `after` of a mirror, and of the table that is filled beside it. Another one comes in their
        place.
        """
        beside = mirrored.rebuilding if mirrored is not None and mirrored.frozen else None
        filled = None if beside is None else self._commits.shadow(table, beside.generation).snapshot()
        return str(max((each.after for each in (mirrored, filled) if each is not None), default=0))

    def _freeze(self, table: TableId, mirror: LakeTable, present: TableVersion, generation: int) -> float:
        """Marks a complete mirror as frozen: another generation is being filled. Returns since when.

        First it merges all earlier changes, because the changelog's columns may be others from here on. From a
        changelog that lacks changes it merges none. If changes have to wait for columns of the mirror, it merges those
        before the columns. So readers see what they have seen: the mirror that would have got these columns goes.
        """
        frozen = present.rebuilding
        if frozen is None or not present.frozen:
            changelog, segment = self._commits.own(table, Tier.CHANGELOG), present.merged
            if changelog is not None and not present.outlived(changelog):
                changelogs = self._commits.table(table, Tier.CHANGELOG)
                segment = last_together(present, changelogs, changelog).mark("changes")
                self._commits.merge(mirror, present, MirrorPosition.from_reports(present, changelog), segment)
            frozen = Rebuilding(generation, segment, time.time())
        renewed = replace(frozen, generation=generation)
        self._commits.set_properties(table, Tier.MIRROR, {Property.REBUILDING: renewed.text})
        return renewed.since

    def evolve(
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
        delta = self._commits.table_of_generation(table, generation)
        present = present_version(delta)
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
            plan = follow_steps(present.unchanged, Tier.MIRROR, steps)
            self._commits.alter(delta, present, plan, {**properties, **owing})
        if not owed and not present.constants:
            return rebuilding
        return present_version(self._commits.table(table, Tier.MIRROR)).filling_since


def _swappable(mirrored: TableVersion) -> bool:
    """Returns whether a swap of the mirror may be under way."""
    return mirrored.rebuilding is not None and (mirrored.pin is not None or bool(mirrored.constants))
