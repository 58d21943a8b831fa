"""What readers see while mirrors begin again: DuckDB evaluates fresh and old texts after each commit to the lake."""

import random
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

import duckdb
import pyarrow as pa
import pytest

from pipeline.lake.live_view import MirrorPosition, filled_sql, live_view_sql
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.columns import pin_of
from pipeline.lake.tables.paths import location, shadow
from pipeline.lake.tables.tier import Tier
from tests.pipeline.lake.test_live_view import in_duckdb
from tests.pipeline.live_view_cases import SCHEMA, Row, Schedule, Sealed, Story, by_story

MIRROR, CHANGELOG = (location("lake", SCHEMA.table, tier) for tier in (Tier.MIRROR, Tier.CHANGELOG))
META = "__op VARCHAR, __scn BIGINT, __ordinal INT, __absent VARCHAR[], __segment BIGINT"
OWN = 'history BIGINT, id BIGINT, part VARCHAR, n BIGINT, "it\'s" VARCHAR'


@dataclass
class Lake:
    """The lake's commits by the rules of `actors.lake.lake`, each of which readers may come after.

    `frozen`: the segment that readers see while another generation is filled. `shown`: whether there's a live view.
    `states`: the stories at the end of each segment. `texts`: those that were printed.
    """

    schedule: Schedule
    engine: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)
    reached: MirrorPosition = field(default_factory=MirrorPosition)
    filling: int | None = None
    frozen: int | None = None
    pinned: str | None = None
    shown: bool = False
    segment: int = 0
    states: dict[int, list[Story]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine.execute("CREATE SCHEMA delta")
        self.engine.execute("CREATE MACRO delta_scan(path) AS TABLE FROM query_table(path)")
        self._make(CHANGELOG, f"{META}, {OWN}")

    def commits(self, sealed: Sealed) -> Iterator[str]:
        """Deliver a segment; readers come at each step."""
        partial = self.schedule.partial
        if sealed.begun is not None:
            pin = pin_of(sealed.begun)
            emptied = sealed.ready and not sealed.rows
            if self.shown and not emptied:
                if self.frozen is None:
                    self.merge(sealed.number - 1)
                    yield "merged before it's frozen"
                    self.frozen = sealed.number - 1
                    yield "frozen"
                self._pin_changelog(pin)
                self.reached = replace(self.reached, frozen=True)
                yield "changelog pinned"
                self._make(shadow("lake", SCHEMA.table, sealed.begun), OWN)
                self.filling = sealed.begun
            else:
                self._pin_changelog(pin)
                yield "changelog pinned, mirror not begun"
                self._make(MIRROR, f"{OWN}, {pin} BOOLEAN" if emptied else OWN)
                self.reached = MirrorPosition(sealed.begun, 0, partial, pin if emptied else None)
                self.filling = None if emptied else sealed.begun
                self.frozen, self.shown = None, emptied
                if emptied:  # the segments before have nothing that counts
                    self.states[self.segment] = [_emptied(story) for story in self.schedule.stories]
            yield "begun"
        fed = MIRROR if not self.reached.frozen else shadow("lake", SCHEMA.table, self.filling or 0)
        self._insert(CHANGELOG, sealed.changes)
        self.segment = sealed.number
        self.states[self.segment] = [_kept(story) for story in self.schedule.stories]
        yield "changes"
        self._insert(fed, sealed.rows)
        yield "rows"

    def complete(self) -> None:
        """Show what was filled, in one commit."""
        assert self.filling is not None
        pin = pin_of(self.filling)
        if self.reached.frozen:
            filled = MirrorPosition(self.filling, partial=self.schedule.partial, pin=pin)
            rows = filled_sql(
                "lake", SCHEMA, filled, self.segment, shadow("lake", SCHEMA.table, self.filling)
            )
            self.engine.execute(f"CREATE OR REPLACE TEMP TABLE filled AS {in_duckdb(rows)}")
            self._make(MIRROR, f"{OWN}, {pin} BOOLEAN")
            self.engine.execute(f'INSERT INTO delta."{MIRROR}" FROM filled')
            merged = self.segment
        else:
            self.merge(self.segment)
            merged = self.segment
            self._pin(MIRROR, None, pin)
        self.reached = MirrorPosition(self.filling, merged, self.schedule.partial, pin)
        self.filling, self.frozen, self.shown = None, None, True

    def merge(self, through: int) -> None:
        merge = Merge("lake", SCHEMA, self.reached, through)
        self.engine.execute(in_duckdb(merge.statement()))
        self.reached = replace(self.reached, merged=through)

    def looked_at(self, some: random.Random) -> None:
        """What readers see, by a fresh text, by old ones, and of the mirror itself, is right; or an old text fails."""
        if not self.shown:
            return
        reached = replace(
            self.reached, merged=some.choice([self.reached.merged, some.randint(0, self.reached.merged)])
        )
        text = live_view_sql(
            "lake", SCHEMA, replace(reached, frozen=self.frozen is not None), dialect=Dialect.DUCKDB
        )
        try:
            fresh = self.engine.execute(text).fetchall()
        except duckdb.BinderException:  # between the two commits that empty a mirror
            assert self.pinned != self.reached.pin
            return
        self._judge(fresh, self.segment if self.frozen is None else self.frozen)
        for old in self.texts:
            try:
                seen = self.engine.execute(old).fetchall()
            except duckdb.BinderException:  # another generation's column, which is gone
                continue
            assert sorted(seen, key=str) == sorted(fresh, key=str), old
        mirror = self.engine.execute(f'SELECT history, id, part, n, "it\'s" FROM delta."{MIRROR}"').fetchall()
        if self.reached.merged in self.states and (self.reached.merged or not mirror):
            self._judge(mirror, self.reached.merged)
        self.texts = [*self.texts[-5:], text]

    def _judge(self, rows: list[Row], segment: int) -> None:
        shown = by_story(rows)
        for story in self.states[segment]:
            assert not story.judged(shown.get(story.number, [])), (story.number, segment, self.reached)

    def _make(self, path: str, columns: str) -> None:
        self.engine.execute(f'CREATE OR REPLACE TABLE delta."{path}" ({columns})')
        self._seen(path)

    def _pin_changelog(self, pin: str) -> None:
        self._pin(CHANGELOG, self.pinned, pin)
        self.pinned = pin

    def _pin(self, path: str, old: str | None, pin: str) -> None:
        if old is not None:
            self.engine.execute(f'ALTER TABLE delta."{path}" DROP {old}')
        self.engine.execute(f'ALTER TABLE delta."{path}" ADD {pin} BOOLEAN')
        self._seen(path)

    def _seen(self, path: str) -> None:
        self.engine.execute(f'CREATE OR REPLACE VIEW "{path}" AS FROM delta."{path}"')

    def _insert(self, path: str, rows: Sequence[tuple[object, ...]]) -> None:
        names = [each.split()[0] for each in (OWN if path != CHANGELOG else f"{META}, {OWN}").split(", ")]
        if rows:
            given = pa.table([*zip(*rows, strict=True)], [f"c{at}" for at in range(len(names))])
            self.engine.register("given", given)
            self.engine.execute(f'INSERT INTO delta."{path}" ({", ".join(names)}) FROM given')


def _kept(story: Story) -> Story:
    kept = copy(story)
    kept.source, kept.known = dict(story.source), set(story.known)
    return kept


def _emptied(story: Story) -> Story:
    kept = copy(story)
    kept.source, kept.known = {}, set()
    return kept


@pytest.mark.parametrize("seed", range(8))
def test_readers_never_see_a_part_of_a_table_nor_what_it_never_was(seed: int) -> None:
    """After each commit of 10 segments of 20 histories, in which mirrors begin again, are filled and merged."""
    schedule, some = Schedule.random(seed, histories=20, anew=0.15), random.Random(seed)
    lake = Lake(schedule)
    for sealed in schedule.segments(10):
        for _ in lake.commits(sealed):
            lake.looked_at(some)
        if lake.filling is not None and sealed.ready and some.random() < 0.7:
            lake.complete()
        elif lake.shown and lake.filling is None and some.random() < 0.5:
            lake.merge(sealed.number)
        lake.looked_at(some)
    lake.engine.close()
