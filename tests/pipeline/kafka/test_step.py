"""The KafkaSink's decisions against a small broker: whatever ends it, each row comes once and in order."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from pipeline.errors import InvariantBroken
from pipeline.kafka.runs import Run, divided
from pipeline.kafka.state import (
    AllSent,
    AllTopicsBut,
    FindingPosition,
    JournalBounds,
    KafkaPosition,
    OneTopic,
    SendingRun,
    SetAside,
    SinkPosition,
    State,
    includes,
)
from pipeline.kafka.step import (
    BeginAgain,
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
    TopicDue,
    TopicRefused,
    TransactionCommitted,
    step,
)
from pipeline.messages.journal import SegmentSealed

BOUNDS = JournalBounds("j", 1, 9, 0, False)


EVERY = AllTopicsBut(frozenset())


def found(position: KafkaPosition | None = None, of: str | None = "j", **journal: object) -> PlacesFound:
    bounds = JournalBounds(**{**{f: getattr(BOUNDS, f) for f in BOUNDS.__dataclass_fields__}, **journal})
    if position is None:
        return PlacesFound(None, None, bounds)
    return PlacesFound(SinkPosition(position), of, bounds)


def idle(**set_aside: SetAside) -> State:
    return State(4, SinkPosition(KafkaPosition(3 if set_aside else 0), set_aside), AllSent())


def test_a_start_continues_where_the_topic_says() -> None:
    state, orders = step(State(4), found(KafkaPosition(3, 7, 2)))
    assert state.at == SinkPosition(KafkaPosition(3, 7, 2))
    assert orders == (ConfirmSegment(3), BeginTransaction(), PlanSegment(4, 7, True))
    state, orders = step(State(4), found(joined=5))
    assert (state.at.position, orders) == (KafkaPosition(5), (BeginTransaction(), PlanSegment(6, 0, False)))
    assert step(State(4), found(KafkaPosition(9)))[1] == (ConfirmSegment(9),)


def test_a_topic_that_refuses_is_set_aside_where_all_were() -> None:
    state, _ = step(idle(), SegmentSealed(1))
    state, _ = step(state, SegmentPlanned((Run(1, 2, 3),)))
    state, orders = step(state, TopicRefused("a", "too large"))
    assert (state.doing, orders) == (FindingPosition({"a": "too large"}), (BeginAgain(),))
    state, orders = step(state, found(KafkaPosition(0), last=1))
    assert state.at.set_aside == {"a": SetAside(KafkaPosition(0), "too large")}
    assert orders == (ConfirmSegment(0), BeginTransaction(), PlanSegment(1, 0, False))
    state, (send,) = step(state, SegmentPlanned((Run(1, 2, 3),)))
    assert isinstance(send, SendRun)
    assert [topic for topic in ("a", "b") if includes(send.topics, topic)] == ["b"]
    state, (commit,) = step(state, RunSent(3, ended=True))
    assert commit == CommitTransaction(SinkPosition(KafkaPosition(1), state.at.set_aside))
    # Retention keeps what the topic lacks.
    assert step(state, TransactionCommitted())[1] == (ConfirmSegment(0),)


def test_a_topic_that_was_set_aside_catches_up_alone_and_is_one_of_them_again() -> None:
    state, orders = step(idle(a=SetAside(KafkaPosition(2), "too large")), TopicDue("a", 1))
    assert orders == (BeginTransaction(), PlanSegment(3, 0, False))
    state, (send,) = step(state, SegmentPlanned((Run(5, 6, 3),)))
    assert send == SendRun(OneTopic("a"), 3, Run(5, 6, 3), 0, 4)
    assert [topic for topic in ("a", "b") if includes(OneTopic("a"), topic)] == ["a"]
    state, orders = step(state, RunSent(3, ended=True))
    assert orders == (CommitTransaction(SinkPosition(KafkaPosition(3))),)
    state, orders = step(state, TransactionCommitted())
    assert (state, orders) == (State(4, SinkPosition(KafkaPosition(3)), AllSent()), (ConfirmSegment(3),))


def test_a_topic_that_refuses_again_stays_where_it_was() -> None:
    aside = {"a": SetAside(KafkaPosition(2), "too large"), "b": SetAside(KafkaPosition(1), "no right")}
    state, _ = step(idle(**aside), TopicDue("a", 1))
    state, _ = step(state, SegmentPlanned((Run(5, 6, 3),)))
    state, _ = step(state, TopicRefused("a", "still too large"))
    there = SinkPosition(KafkaPosition(3), aside)
    state, orders = step(state, PlacesFound(there, "j", replace(BOUNDS, last=3)))
    assert state.at.set_aside == {**aside, "a": SetAside(KafkaPosition(2), "still too large")}
    assert orders == (ConfirmSegment(1),)


def test_a_topic_whose_messages_the_journal_no_longer_has_is_not_guessed() -> None:
    state, orders = step(idle(a=SetAside(KafkaPosition(1), "too large")), TopicDue("a", 3))
    assert orders == ()
    assert "the journal begins with 3" in state.at.set_aside["a"].reason
    assert state.at.set_aside["a"].position == KafkaPosition(1)


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
    assert orders == (SendRun(EVERY, 1, Run(1, 2, 3), 0, 4),)
    state, orders = step(state, RunSent(3, ended=True))
    assert orders == (PlanSegment(2, 0, False),)
    state, orders = step(state, SegmentPlanned((Run(3, 4, 2), Run(5, 5, 4))))
    assert orders == (CommitTransaction(SinkPosition(KafkaPosition(1))),)
    state, orders = step(state, TransactionCommitted())
    assert orders == (ConfirmSegment(1), BeginTransaction(), SendRun(EVERY, 2, Run(3, 4, 2), 0, 4))
    state, orders = step(state, RunSent(2, ended=True))
    assert orders == (CommitTransaction(SinkPosition(KafkaPosition(1, 4))),)


def test_a_heartbeat_comes_with_the_position_that_holds() -> None:
    at = SinkPosition(KafkaPosition(2, 7, 1))
    state, orders = step(State(4, at, AllSent()), HeartbeatDue())
    assert orders == (BeginTransaction(), SendHeartbeat(), CommitTransaction(at))
    state, orders = step(state, TransactionCommitted())
    assert (state.at, state.doing) == (at, AllSent())
    with pytest.raises(InvariantBroken, match="HeartbeatDue came while"):
        step(step(state, SegmentSealed(4))[0], HeartbeatDue())


def test_segments_without_rows_are_passed_in_one_transaction() -> None:
    state, _ = step(idle(), SegmentSealed(2))
    state, orders = step(state, SegmentPlanned(()))
    assert orders == (PlanSegment(2, 0, False),)
    state, orders = step(state, SegmentPlanned(()))
    assert orders == (CommitTransaction(SinkPosition(KafkaPosition(2))),)
    assert step(state, TransactionCommitted())[1] == (ConfirmSegment(2),)


def test_a_run_of_several_source_transactions_is_never_split() -> None:
    state = idle()
    state, _ = step(state, SegmentSealed(1))
    state, _ = step(state, SegmentPlanned((Run(1, 2, 3),)))
    assert isinstance(state.doing, SendingRun)
    with pytest.raises(InvariantBroken, match="was split"):
        step(state, RunSent(2, ended=False))


# The world: a journal, a broker with transactions and epochs, and sinks that are killed or left behind.

Row = tuple[int, int, str]  # SCN, place in it, and topic


@dataclass
class Broker:
    """What it has committed, what is open, the epoch that it takes something from, and the topics that refuse."""

    committed: list[Row] = field(default_factory=list)
    groups: list[tuple[Row, ...]] = field(default_factory=list)
    position: SinkPosition | None = None
    refusing: set[str] = field(default_factory=set)
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

    def commit(self, position: SinkPosition | None) -> None:
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
        self.state = State(self.world.most)
        self.facts = [self.places()]

    def places(self) -> PlacesFound:
        """What a start finds, with a new epoch."""
        world = self.world
        self.epoch = world.broker.begin()
        position = world.broker.position
        bounds = JournalBounds("j", 1, len(world.segments), 0, False)
        return PlacesFound(position, None if position is None else "j", bounds)

    def retry(self, rng: random.Random) -> None:
        """Try a topic again that was set aside, if there's one and nothing is under way."""
        set_aside = sorted(self.state.at.set_aside)
        if set_aside and not self.facts and not self.orders and isinstance(self.state.doing, AllSent):
            self.facts = [TopicDue(rng.choice(set_aside), 1)]

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
    sends_all: bool = False
    forgets: bool = False

    def carry_out(self, sink: Sink, order: Order) -> bool:
        """Whether the sink is still let in."""
        broker = self.broker
        match order:
            case PlanSegment(segment, after, split):
                scns = [scn for scn, *_ in self.segments[segment - 1] if scn > after]
                runs = divided(np.array(scns, np.int64), self.most, split=split)
                sink.facts.insert(0, SegmentPlanned(runs))
            case BeginAgain():
                if not broker.takes(sink.epoch):
                    return False
                sink.facts.insert(0, sink.places())
            case SendRun(topics, segment, run, skip, most):
                if not broker.takes(sink.epoch):
                    return False
                rows = [row for row in self.segments[segment - 1] if run.first_scn <= row[0] <= run.last_scn]
                rows = rows[skip:]
                some = rows[:most] if run.first_scn == run.last_scn else rows
                wanted = [row for row in some if includes(topics, row[2]) or self.sends_all]
                if refused := broker.refusing & {topic for *_, topic in wanted}:
                    sink.facts.insert(0, TopicRefused(min(refused), "refused"))
                    return True
                broker.open += wanted
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
                broker.commit(SinkPosition(position.position) if self.forgets else position)
                sink.facts.insert(0, TransactionCommitted())
            case _PositionAlone(position):
                broker.position = position
                sink.facts.insert(0, TransactionCommitted())
        return True


@dataclass
class _PositionAlone:
    position: SinkPosition


def world(rng: random.Random) -> World:
    scn, segments = 0, []
    for _ in range(rng.randint(1, 5)):
        rows: list[Row] = []
        for _ in range(rng.randint(0, 4)):
            scn += 1
            rows += [(scn, place, rng.choice("aab")) for place in range(rng.choice((1, 1, 2, 3, 9)))]
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
        elif choice < 0.16:
            around.broker.refusing ^= {rng.choice("ab")}
        elif choice < 0.2:
            sink.retry(rng)
        elif choice < 0.3 and zombies:
            zombie = rng.choice(zombies)
            if not zombie.move():
                zombies.remove(zombie)
        else:
            sink.move()
    around.broker.refusing = set()
    sink = Sink(around)
    sink.begin()
    while sink.move() or sink.state.at.set_aside:
        sink.retry(rng)
    return faults(around)


def faults(around: World) -> list[str]:
    """Whether a topic lacks a row or has one twice or in another place, and what was split."""
    rows = [row for segment in around.segments for row in segment]
    wrong = [
        f"not each row of {name} once and in order"
        for name in "ab"
        if [row for row in around.broker.committed if row[2] == name]
        != [row for row in rows if row[2] == name]
    ]
    sizes = {
        each: sum(row[0] == each[0] and row[2] == each[1] for row in rows)
        for each in {(s, t) for s, _, t in rows}
    }
    large = {scn for scn, *_ in rows if sum(row[0] == scn for row in rows) > around.most}
    torn = {
        each[0]
        for group in around.broker.groups
        for each in {(scn, topic) for scn, _, topic in group}
        if each[0] not in large and sum((row[0], row[2]) == each for row in group) != sizes[each]
    }
    return wrong + [f"the source transaction {scn} was split, and isn't too large" for scn in sorted(torn)]


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


def _to_topics_that_are_not_meant(around: World) -> None:
    around.sends_all = True


def _set_aside_in_memory_alone(around: World) -> None:
    around.forgets = True


@pytest.mark.parametrize(
    "plant",
    [_without_fencing, _position_outside, _split, _to_topics_that_are_not_meant, _set_aside_in_memory_alone],
)
def test_planted_bugs_are_found(plant: Callable[[World], None]) -> None:
    assert any(lived(seed, plant) for seed in range(300))
