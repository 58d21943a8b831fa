"""Scans: whatever the order in which a server logs, commits and shows transactions, the rows are those of their place.

`World` is a server with one table without a key and another table, and the coordinator between its log and its views. A
seed decides on each step. At each transaction boundary the sum of what the journal has is compared with the table
there.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from pipeline.coordinator import step as coordinator
from pipeline.coordinator.halted import table_scan
from pipeline.coordinator.state import InScan, NoScan, Order, Overlapping, Pausing, WindowMode
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages import binlog, chunks
from pipeline.messages.changes import MirrorInvalidated
from pipeline.messages.inboxes import ToWatermarkCoordinator
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart
from pipeline.messages.row_images import ImageKind
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling
from pipeline.snapshot.snapshot import Completed, SnapshotFailed
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    Capture,
    Image,
    execute,
    gtid,
    gtids,
    of,
    part,
    passed,
    place,
    rows,
    stop,
    table,
    wrote,
)
from tests.pipeline.coordinator.test_reselect import partly

LOGS = table("logs", "line", key=())
SEEDS = range(80)

Bag = Counter[int]


@dataclass(frozen=True)
class Committed:
    """A transaction in the server's log: its number, the rows of LOGS that it adds and takes, whether it has others."""

    number: int
    adds: tuple[int, ...]
    takes: tuple[int, ...]
    others: bool

    @property
    def images(self) -> list[Image]:
        """Its row images."""
        found = [Image(LOGS, ImageKind.INSERT, line) for line in self.adds]
        found += [Image(LOGS, ImageKind.DELETE, line) for line in self.takes]
        return found + ([Image(ITEMS, ImageKind.INSERT, self.number)] if self.others else [])

    def applied(self, bag: Bag) -> Bag:
        """The bag after it."""
        after = Counter(bag)
        after.update(self.adds)
        after.subtract(self.takes)
        return +after


@dataclass
class View:
    """An open transaction of the server: its rows, and how many of them have been read."""

    order: chunks.OpenScan
    low: GtidSet
    rows: list[int]
    opened: bool = False
    read: int = 0


@dataclass
class World:
    """The server, the coordinator, and the journal. `end`: how much of the log the stream has."""

    random: random.Random
    mode: WindowMode
    log: list[Committed] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    executed: set[int] = field(default_factory=set)
    end: int = 0
    within: int = 0
    paused: bool = False
    until: int | None = None
    view: View | None = None
    looked: GtidSet | None = None
    order: chunks.OpenScan | None = None
    reads: list[chunks.ReadScan] = field(default_factory=list)
    kept: list[ChangePart | ChunkPart] = field(default_factory=list)
    sum: Bag | None = None
    scans: int = 0
    spoiled: int = 0
    signals: int = 0

    def __post_init__(self) -> None:
        known = {schema.table: schema for schema in (LOGS, ITEMS)}
        self.first = Checkpoint(gtids("a:1-5"), schemas=known)
        self.sealed = self.first
        self.begin()

    def begin(self) -> None:
        """Start the coordinator from the journal, as after a crash."""
        self.kept, self.reads, self.view, self.order, self.looked = [], [], None, None, None
        self.paused, self.until, self.within = False, None, 0
        # What wasn't sealed is read again.
        self.end = sum(1 for each in self.log if gtid(f"a:{each.number}") in self.sealed.position)
        self.state, orders = coordinator.start(self.sealed, LIMITS, self.mode)
        self.take(orders)
        self.give(binlog.LogAdvanced(self.place(self.end)))

    def place(self, end: int) -> Coordinates:
        """Where the log is after so many transactions."""
        return place(10 * (end + 1))

    # The server

    def commit(self) -> None:
        """A transaction is written to the log. Nobody sees it yet, or may see it before the executed set has it."""
        bag = self.bag(len(self.log))
        line, number = self.random.randrange(4), len(self.log) + 6
        kind = self.random.random()
        takes = (line,) if kind < 0.2 and bag[line] else ()
        adds = (line + 1,) if takes and self.random.random() < 0.5 else () if takes or kind > 0.4 else (line,)
        self.log.append(Committed(number, adds, takes, kind > 0.3))

    def show(self) -> None:
        """The next transaction of the log gets visible (commits are in the log's order)."""
        hidden = [each.number for each in self.log if each.number not in self.shown]
        if hidden:
            self.shown.add(hidden[0])

    def execute(self) -> None:
        """A visible transaction gets into the executed set, which needn't be in their order."""
        lacking = sorted(self.shown - self.executed)
        if lacking:
            self.executed.add(self.random.choice(lacking))

    def bag(self, end: int) -> Bag:
        """The table after so many transactions of the log."""
        bag: Bag = Counter({0: 2, 1: 1})
        for each in self.log[:end]:
            bag = each.applied(bag)
        return bag

    # The selector

    def look(self) -> None:
        """Read the low watermark, if it's usable; the view is made later."""
        low = gtids("a:1-5")
        for number in self.executed:
            low = low.with_gtid(gtid(f"a:{number}"))
        if self.order is not None and self.order.ordered_at <= low:
            self.looked = low

    def open(self) -> None:
        """Make the view."""
        if self.order is not None and self.looked is not None and self.view is None:
            visible = [each for each in self.log if each.number in self.shown]
            seen = self.bag(len(visible))
            self.view = View(self.order, self.looked, list(seen.elements()))

    def tell(self) -> None:
        """Read the end of the log, and report the view."""
        if self.view is not None and not self.view.opened:
            self.view.opened = True
            high = self.place(len(self.log))
            self.give(chunks.ScanOpened(self.view.order.number, LOGS, self.view.low, high))

    def answer(self) -> None:
        """Give the next rows of the view, or lose the connection."""
        if self.view is None or not self.reads:
            return
        read = self.reads.pop()
        if self.random.random() < 0.1:
            self.view = None
            self.give(chunks.ScanFailed(read.number, "lost", again=True))
            return
        some = self.view.rows[self.view.read : self.view.read + self.random.randint(0, 4)]
        self.view.read += len(some)
        last = self.view.read == len(self.view.rows) and self.random.random() < 0.7
        self.give(chunks.ScanRead(read.chunk, read.number, rows(LOGS, some), last))

    # The reader

    def stream(self) -> None:
        """The stream brings a slice, a part of a transaction, or that the log is quiet."""
        if self.paused:
            return
        if self.until is not None and self.end >= self.until and not self.within:
            self.paused = True
            self.give(binlog.ReadingPaused())
            return
        if self.end == len(self.log):
            self.give(binlog.LogAdvanced(self.place(self.end)))
            return
        following = self.log[self.end]
        if self.random.random() < 0.3 and len(following.images) > self.within + 1:
            self.give(part(f"a:{following.number}", following.images[self.within : self.within + 1]))
            self.within += 1
            return
        most = len(self.log) if self.until is None or self.within else max(self.until, self.end + 1)
        count = self.random.randint(1, min(3, most - self.end))
        taken = self.log[self.end : self.end + count]
        first = (f"a:{taken[0].number}", taken[0].images[self.within :])
        told = [first, *((f"a:{each.number}", each.images) for each in taken[1:])]
        self.end, self.within = self.end + count, 0
        self.give(passed(10 * (self.end + 1), *(wrote(name, images) for name, images in told)))

    # People

    def signal(self) -> None:
        """Somebody wants a scan, or ends them."""
        self.signals += 1
        if self.random.random() < 0.8:
            self.give(execute(f"s{self.signals}", LOGS, blocking=True))
        else:
            self.give(stop(f"s{self.signals}", LOGS))

    # The coordinator and the journal

    def give(self, message: ToWatermarkCoordinator) -> None:
        self.state, orders = coordinator.step(self.state, message)
        self.take(orders)

    def take(self, orders: tuple[Order, ...]) -> None:
        for order in orders:
            match order:
                case chunks.OpenScan():
                    assert not self.paused
                    self.order, self.view, self.looked = order, None, None
                    self.spoiled += order.failed > 0
                case chunks.ReadScan():
                    assert self.paused
                    self.reads.append(order)
                case chunks.CloseScan():
                    self.order, self.view, self.looked, self.reads = None, None, None, []
                case binlog.PauseReading(at):
                    self.until = 0 if at is None else at.offset // 10 - 1
                case binlog.ResumeReading():
                    assert self.paused
                    self.paused, self.until = False, None
                case AppendRows(parts):
                    self.kept += parts
                case Append():
                    self.append(order)
                case _:
                    raise AssertionError(order)

    def append(self, append: Append) -> None:
        """Take it, and compare the sum with the table at this place."""
        kept = [each for each in self.kept if _schema(each).table not in append.withdrawn]
        self.kept, self.sealed = [], append.checkpoint
        scns = [scn for each in (*kept, *append.parts) for scn in _scns(each)]
        assert scns == sorted(scns)
        for each in (*kept, *append.parts):
            self.add(each)
        if self.sum is not None:
            known = sum(1 for each in self.log if gtid(f"a:{each.number}") in append.checkpoint.position)
            assert self.sum == self.bag(known)

    def add(self, part_: ChangePart | ChunkPart) -> None:
        """Add it to the sum, as readers of the lake do."""
        if _schema(part_) != LOGS:
            return
        match part_:
            case ChunkPart(begins_scan=True):
                self.sum, self.scans = Counter(), self.scans + 1
            case ChunkPart(rows=found) if self.sum is not None:
                self.sum.update(found[0].to_pylist())
            case ChangePart(changes) if self.sum is not None:
                kinds = changes.images["kind"].to_pylist()
                for kind, line in zip(kinds, changes.rows[0].to_pylist(), strict=True):
                    self.sum[line] += -1 if kind == ImageKind.DELETE else 1
                self.sum = Counter({line: count for line, count in self.sum.items() if count})
            case _:
                pass


def _schema(part_: ChangePart | ChunkPart) -> TableSchema:
    return part_.changes.schema if isinstance(part_, ChangePart) else part_.schema


def _scns(part_: ChangePart | ChunkPart) -> Iterator[int]:
    yield part_.first_scn if isinstance(part_, ChangePart) else part_.scn


_STEPS = ("commit", "show", "execute", "look", "open", "tell", "answer", "stream", "signal")
_OFTEN = (2, 4, 4, 6, 6, 6, 8, 8, 1)


def run(seed: int, steps: int = 400) -> World:
    """A world after so many steps."""
    random_ = random.Random(seed)
    world = World(random_, Pausing() if seed % 5 == 0 else Overlapping(4))
    for _ in range(steps):
        if random_.random() < 0.005:
            world.begin()
        step = random_.choices(_STEPS, _OFTEN)[0]
        getattr(world, step)()
    return world


def test_the_sum_is_the_table_at_each_place_whatever_the_order() -> None:
    scans = spoiled = 0
    for seed in SEEDS:
        world = run(seed)
        scans, spoiled = scans + world.scans, spoiled + world.spoiled
    assert scans > len(SEEDS)
    assert spoiled > len(SEEDS)


def test_without_the_touched_transactions_the_sum_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transactions, "any_outside", lambda *_: False)
    assert any(is_wrong(seed) for seed in SEEDS)


def test_with_the_visible_rows_of_the_executed_set_alone_the_sum_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if what is executed were known only after the view was made: L must not have what V lacks."""

    def late(world: World) -> None:
        look(world)
        if world.view is not None and not world.view.opened and world.looked is not None:
            world.view = replace(world.view, low=world.looked)

    look = World.look
    monkeypatch.setattr(World, "look", late)
    assert any(is_wrong(seed) for seed in SEEDS)


def test_with_a_stream_that_stops_before_the_end_of_the_log_the_sum_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def early(world: World) -> None:
        if world.view is not None and not world.view.opened:
            world.view.opened = True
            high = world.place(world.end)
            world.give(chunks.ScanOpened(world.view.order.number, LOGS, world.view.low, high))

    monkeypatch.setattr(World, "tell", early)
    assert any(is_wrong(seed) for seed in SEEDS)


def is_wrong(seed: int) -> bool:
    """Whether the sum of a run is ever not the table."""
    try:
        run(seed)
    except AssertionError:
        return True
    return False


def scanning() -> Capture:
    """A coordinator that reads the first rows of a scan."""
    capture = Capture(LOGS, ITEMS)
    capture.give(execute("s1", LOGS, blocking=True), chunks.ScanOpened(1, LOGS, gtids("a:1-5"), place(10)))
    capture.give(binlog.ReadingPaused())
    assert isinstance(capture.state.phase, InScan)
    return capture


def rows_read(order: chunks.ReadScan, *lines: int, last: bool = False) -> chunks.ScanRead:
    """The order's answer."""
    return chunks.ScanRead(order.chunk, order.number, rows(LOGS, lines), last)


def test_a_low_watermark_that_lacks_what_has_passed_breaks_an_invariant() -> None:
    capture = Capture(LOGS)
    capture.give(execute("s1", LOGS, blocking=True))
    with pytest.raises(InvariantBroken, match=r"scan of shop\.logs"):
        capture.give(chunks.ScanOpened(1, LOGS, gtids("a:1-4"), place(10)))


def test_answers_of_an_earlier_scan_change_nothing() -> None:
    capture = scanning()
    (order,) = of(chunks.ReadScan, capture.orders)
    capture.give(stop("s2", LOGS))
    before = capture.state
    capture.give(
        rows_read(order, 1),
        chunks.ScanOpened(1, LOGS, gtids("a:1-5"), place(10)),
        chunks.ScanFailed(1, "lost", again=True),
    )
    assert capture.state == before


def test_it_is_not_tried_for_ever() -> None:
    capture = Capture(LOGS, ITEMS)
    capture.give(execute("s1", LOGS, blocking=True))
    for number in range(1, table_scan.MOST_TRIES + 1):
        assert capture.orders[-1] == chunks.OpenScan(number, LOGS.table, gtids("a:1-5"), number - 1)
        capture.give(chunks.ScanFailed(number, "the connection was lost", again=True))
    failed = capture.table(LOGS)
    assert isinstance(failed, SnapshotFailed)
    assert failed.reason.startswith(f"the connection was lost (tried {table_scan.MOST_TRIES} times)")
    capture.give(execute("s2", LOGS, blocking=True))
    assert capture.orders[-1] == chunks.OpenScan(table_scan.MOST_TRIES + 1, LOGS.table, gtids("a:1-5"), 0)


def test_a_table_that_ends_among_the_remembered_snapshots_is_complete() -> None:
    """An ended snapshot may be forgotten at once: what the scan has read counts all the same."""
    capture = scanning()
    ended = tuple(replace(capture.checkpoint.snapshots[0], id=f"e{n}", tables={}) for n in range(12))
    capture.state = replace(
        capture.state,
        checkpoint=replace(capture.checkpoint, snapshots=(*capture.checkpoint.snapshots, *ended)),
    )
    (order,) = of(chunks.ReadScan, capture.orders)
    capture.give(rows_read(order, 1, 2, last=True))
    assert capture.stream == ["logs begins", "logs rows 1 2"]
    assert isinstance(capture.state.scan, NoScan)
    assert capture.appends[-1].withdrawn == frozenset()


def test_two_generations_that_begin_about_the_end_of_a_scan_are_not_one() -> None:
    capture = scanning()
    capture.give(execute("s2", ITEMS))
    capture.give(MirrorInvalidated(ITEMS.table, "another key"))
    ended, after = capture.appends[-2:]
    assert ended.checkpoint.mirrors == {ITEMS.table: Filling(0)}
    assert after.checkpoint.mirrors == {ITEMS.table: Filling(1)}
    assert [each.checkpoint.scn for each in (ended, after)] == [1, 2]


def test_it_needs_no_mirror_and_gets_none() -> None:
    capture = scanning()
    (order,) = of(chunks.ReadScan, capture.orders)
    capture.give(rows_read(order, 1, last=True))
    assert isinstance(capture.table(LOGS), Completed)
    assert capture.checkpoint.mirrors == {}


def test_a_scan_continues_while_chunks_wait_for_their_source() -> None:
    """It would keep the stream, the table's lock and old row versions for as long as they wait."""
    capture = scanning()
    (order,) = of(chunks.ReadScan, capture.orders)
    capture.give(chunks.SourceOverloaded(None, "it takes writes of its own"))
    (order,) = of(chunks.ReadScan, capture.give(rows_read(order, 1)))
    capture.give(chunks.SourceOverloaded("many threads", "it takes writes of its own"))
    assert not of(chunks.ReadScan, capture.give(rows_read(order, 1))), "the limits hold for it meanwhile"
    assert of(chunks.ReadScan, capture.give(chunks.SourceOverloaded(None, "it takes writes of its own")))


def test_a_row_without_some_columns_stops_a_table_whose_changes_add_up_to_its_rows() -> None:
    part_of_a_row = partly(20, "a:6", (ImageKind.INSERT, {}), schema=LOGS)
    never_scanned = Capture(LOGS, ITEMS)
    never_scanned.give(part_of_a_row)
    assert never_scanned.checkpoint.stopped == {}
    capture = scanning()
    (order,) = of(chunks.ReadScan, capture.orders)
    capture.give(rows_read(order, 1, last=True))
    capture.give(part_of_a_row)
    (why,) = capture.checkpoint.stopped.values()
    assert "set binlog_row_image=FULL" in why
    assert capture.stream[-1] != "logs a:6"
