"""The KafkaSink's decisions against a small broker: whatever ends it, each row comes once and in order."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from pipeline.errors import InvariantBroken
from pipeline.kafka.runs import Run, divided
from pipeline.kafka.state import (
    AllSent,
    JournalBounds,
    KafkaPosition,
    SendingRun,
    State,
)
from pipeline.kafka.step import (
    BeginTransaction,
    CommitTransaction,
    ConfirmSegment,
    Fact,
    HeartbeatDue,
    Order,
    PlacesFound,
    PlanSegment,
    PositionLost,
    RunSent,
    SegmentPlanned,
    SendHeartbeat,
    SendRun,
    TransactionCommitted,
    step,
)
from pipeline.messages.journal import SegmentSealed

BOUNDS = JournalBounds("j", 1, 9, 0, False)


def found(position: KafkaPosition | None = None, of: str | None = "j", **journal: object) -> PlacesFound:
    bounds = JournalBounds(**{**{f: getattr(BOUNDS, f) for f in BOUNDS.__dataclass_fields__}, **journal})
    return PlacesFound(position, of if position is not None else None, bounds)


def idle() -> State:
    return State(4, KafkaPosition(0), AllSent())


def test_a_start_goes_on_where_the_topic_says() -> None:
    state, orders = step(State(4), found(KafkaPosition(3, 7, 2)))
    assert (state.position, orders) == (KafkaPosition(3, 7, 2), (ConfirmSegment(3),))
    state, orders = step(State(4), found(joined=5))
    assert (state.position, orders) == (KafkaPosition(5), ())


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (found(confirmed=True), "the position topic is empty"),
        (found(KafkaPosition(3), "another"), "of the journal another"),
        (found(KafkaPosition(10)), "restored from a copy"),
        (found(KafkaPosition(3), first=5), "the journal begins with 5"),
    ],
)
def test_a_position_that_does_not_fit_is_no_guess(places: PlacesFound, words: str) -> None:
    with pytest.raises(PositionLost, match=words):
        step(State(4), places)


def test_a_fact_that_answers_nothing_is_no_fact() -> None:
    with pytest.raises(InvariantBroken, match="TransactionCommitted came while"):
        step(idle(), TransactionCommitted())


def test_what_waits_comes_in_one_transaction_up_to_a_bound() -> None:
    state, orders = step(idle(), SegmentSealed(3))
    assert orders == (BeginTransaction(), PlanSegment(1, 0, False))
    state, orders = step(state, SegmentPlanned((Run(1, 2, 3),)))
    assert orders == (SendRun(1, Run(1, 2, 3), 0, 4),)
    state, orders = step(state, RunSent(3, ended=True))
    assert orders == (PlanSegment(2, 0, False),)
    state, orders = step(state, SegmentPlanned((Run(3, 4, 2), Run(5, 5, 4))))
    assert orders == (CommitTransaction(KafkaPosition(1)),)
    state, orders = step(state, TransactionCommitted())
    assert orders == (ConfirmSegment(1), BeginTransaction(), SendRun(2, Run(3, 4, 2), 0, 4))
    state, orders = step(state, RunSent(2, ended=True))
    assert orders == (CommitTransaction(KafkaPosition(1, 4)),)


def test_a_heartbeat_comes_with_the_position_that_holds() -> None:
    state = State(4, KafkaPosition(2, 7, 1), AllSent())
    state, orders = step(state, HeartbeatDue())
    assert orders == (BeginTransaction(), SendHeartbeat(), CommitTransaction(KafkaPosition(2, 7, 1)))
    state, orders = step(state, TransactionCommitted())
    assert (state.position, state.doing) == (KafkaPosition(2, 7, 1), AllSent())
    with pytest.raises(InvariantBroken, match="HeartbeatDue came while"):
        step(step(state, SegmentSealed(4))[0], HeartbeatDue())


def test_segments_without_rows_are_passed_in_one_transaction() -> None:
    state, _ = step(idle(), SegmentSealed(2))
    state, orders = step(state, SegmentPlanned(()))
    assert orders == (PlanSegment(2, 0, False),)
    state, orders = step(state, SegmentPlanned(()))
    assert orders == (CommitTransaction(KafkaPosition(2)),)
    assert step(state, TransactionCommitted())[1] == (ConfirmSegment(2),)


def test_a_run_of_several_source_transactions_is_never_split() -> None:
    state = State(4, KafkaPosition(0), AllSent())
    state, _ = step(state, SegmentSealed(1))
    state, _ = step(state, SegmentPlanned((Run(1, 2, 3),)))
    assert isinstance(state.doing, SendingRun)
    with pytest.raises(InvariantBroken, match="was split"):
        step(state, RunSent(2, ended=False))


# The world: a journal, a broker with transactions and epochs, and sinks that are killed or left behind.

Row = tuple[int, int]  # SCN and place in it


@dataclass
class Broker:
    """What it has committed, what is open, and the epoch that it takes something from."""

    committed: list[Row] = field(default_factory=list)
    groups: list[tuple[Row, ...]] = field(default_factory=list)
    position: KafkaPosition | None = None
    epoch: int = 0
    fences: bool = True
    open: list[Row] = field(default_factory=list)

    def begin(self) -> int:
        """A new epoch; what was open is aborted."""
        self.epoch += 1
        self.open = []
        return self.epoch

    def takes(self, epoch: int) -> bool:
        """Whether a producer of this epoch is let in."""
        return epoch == self.epoch or not self.fences

    def commit(self, position: KafkaPosition | None) -> None:
        """All that's open, and the position."""
        self.committed += self.open
        self.groups.append(tuple(self.open))
        self.open = []
        self.position = position or self.position


@dataclass
class Sink:
    """One life of the sink."""

    world: "World"
    epoch: int = 0
    state: State = field(default_factory=lambda: State(4))
    facts: list[Fact] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)

    def begin(self) -> None:
        world = self.world
        self.epoch = world.broker.begin()
        self.state = State(world.most)
        position = world.broker.position
        bounds = JournalBounds("j", 1, len(world.segments), 0, False)
        self.facts = [PlacesFound(position, None if position is None else "j", bounds)]
        self.facts.append(SegmentSealed(len(world.segments)))

    def move(self) -> bool:
        """Do one thing; whether there was one."""
        if self.orders:
            return self.world.carry_out(self, self.orders.pop(0))
        if not self.facts:
            return False
        self.state, orders = step(self.state, self.facts.pop(0))
        self.orders += orders
        return True


@dataclass
class World:
    """Segments of rows, each with its SCN."""

    segments: list[list[Row]]
    most: int
    broker: Broker = field(default_factory=Broker)
    position_outside: bool = False
    splits: bool = False

    def carry_out(self, sink: Sink, order: Order) -> bool:
        """Whether the sink is still let in."""
        broker = self.broker
        match order:
            case PlanSegment(segment, after, split):
                scns = [scn for scn, _ in self.segments[segment - 1] if scn > after]
                runs = divided(np.array(scns, np.int64), self.most, split=split)
                sink.facts.insert(0, SegmentPlanned(runs))
            case SendRun(segment, run, skip, most):
                if not broker.takes(sink.epoch):
                    return False
                rows = [row for row in self.segments[segment - 1] if run.first_scn <= row[0] <= run.last_scn]
                rows = rows[skip:]
                some = rows[:most] if run.first_scn == run.last_scn else rows
                broker.open += some
                if self.splits and len(some) > 1:
                    broker.commit(None)
                sink.facts.insert(0, RunSent(len(some), ended=len(some) == len(rows)))
            case CommitTransaction(position):
                if not broker.takes(sink.epoch):
                    return False
                if self.position_outside:
                    broker.commit(None)
                    sink.orders.insert(0, _PositionAlone(position))  # type: ignore[arg-type]
                    return True
                broker.commit(position)
                sink.facts.insert(0, TransactionCommitted())
            case _PositionAlone(position):
                broker.position = position
                sink.facts.insert(0, TransactionCommitted())
        return True


@dataclass
class _PositionAlone:
    position: KafkaPosition


def world(rng: random.Random) -> World:
    scn, segments = 0, []
    for _ in range(rng.randint(1, 5)):
        rows: list[Row] = []
        for _ in range(rng.randint(0, 4)):
            scn += 1
            rows += [(scn, place) for place in range(rng.choice((1, 1, 2, 3, 9)))]
        segments.append(rows)
    return World(segments, rng.randint(1, 5))


def lived(seed: int, plant: Callable[[World], None] = lambda _: None) -> list[str]:
    """What is wrong after a random life with kills, and with predecessors that go on."""
    rng = random.Random(seed)
    around = world(rng)
    plant(around)
    zombies: list[Sink] = []
    sink = Sink(around)
    sink.begin()
    for _ in range(rng.randint(5, 60)):
        choice = rng.random()
        if choice < 0.12:
            zombies += [sink] if rng.random() < 0.5 else []
            sink = Sink(around)
            sink.begin()
        elif choice < 0.3 and zombies:
            zombie = rng.choice(zombies)
            if not zombie.move():
                zombies.remove(zombie)
        else:
            sink.move()
    sink = Sink(around)
    sink.begin()
    while sink.move():
        pass
    rows = [row for segment in around.segments for row in segment]
    faults = [] if around.broker.committed == rows else ["not each row once and in order"]
    sizes = {scn: sum(row[0] == scn for row in rows) for scn, _ in rows}
    torn = (
        scn
        for group in around.broker.groups
        for scn in {row[0] for row in group}
        if sizes[scn] <= around.most and sum(row[0] == scn for row in group) != sizes[scn]
    )
    return faults + [f"the source transaction {scn} was split, and isn't too large" for scn in torn]


@pytest.mark.parametrize("part", range(8))
def test_whatever_ends_it_each_row_comes_once(part: int) -> None:
    for seed in range(part * 250, part * 250 + 250):
        assert lived(seed) == [], seed


def _without_fencing(around: World) -> None:
    around.broker.fences = False


def _position_outside(around: World) -> None:
    around.position_outside = True


def _split(around: World) -> None:
    around.splits = True


@pytest.mark.parametrize("plant", [_without_fencing, _position_outside, _split])
def test_planted_bugs_are_found(plant: Callable[[World], None]) -> None:
    assert any(lived(seed, plant) for seed in range(300))
