"""Random lives of the KafkaSink's machine: settings change between them, and topics refuse at any moment.

`topics.py` has lost markers and predecessors that continue. It lacks what is here: other routes at each start, refusals
as late as a commit, batches that are too large, open records, commits without an answer, heartbeats that are refused.
"""

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from random import Random

import numpy as np
import pytest

from pipeline.config.message_routes import TopicRoute
from pipeline.kafka import facts, orders
from pipeline.kafka import position as positions
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.portions import divide_scns
from pipeline.kafka.position import KafkaPosition
from pipeline.kafka.state import AllSent, JournalBounds, RestLeft, State, Topics, includes
from pipeline.kafka.topics import Routing
from pipeline.messages.journal import SegmentSealed
from pipeline.schema.table_schema import TableId

BEATS, REPORTS = "beats", "reports"
TABLES = tuple(TableId("d", name) for name in "abc")
ROUTINGS = (Routing("p"), Routing("q"), Routing("p", routes=(TopicRoute(r"p\.d\.[ab]", "p.d.a"),)))
TOPICS = (*{each.topic(table) for each in ROUTINGS for table in TABLES}, BEATS, REPORTS)


class Ended(Exception):
    """A life has ended, without a word."""


@dataclass(frozen=True, order=True)
class Row:
    segment: int
    scn: int
    number: int
    table: TableId = field(compare=False)


@dataclass
class World:
    """The broker, the journal, and the sink's present life."""

    random: Random
    segments: list[list[Row]] = field(default_factory=list)
    visible: list[tuple[str, Row]] = field(default_factory=list)
    position: bytes | None = None
    refusing: set[str] = field(default_factory=set)
    confirmed: int | None = None
    needed: int = 1
    calm: bool = False
    beats: int = 0
    lives: int = 0
    routings: set[Routing] = field(default_factory=set)
    now: float = 0.0
    open: list[tuple[str, Row]] = field(default_factory=list)
    state: State = field(default_factory=lambda: State(1))
    came: list[facts.Fact] = field(default_factory=list)
    due: list[orders.Order] = field(default_factory=list)

    def begin(self) -> None:
        random = self.random
        self.state = State(
            random.choice((1, 2, 3, 8)), next_rows=1, heartbeat_topic=BEATS, heartbeat_s=5.0, notifies=True,
            routing=random.choice(ROUTINGS), position_topic="position",
        )  # fmt: skip
        self.came, self.due, self.lives = [], [orders.BeginAgain()], self.lives + 1

    def seal(self) -> None:
        segment, scn, rows = len(self.segments) + 1, 0, list[Row]()
        for _ in range(self.random.choice((0, 1, 3, 6))):
            scn += self.random.random() < 0.5 or not scn
            rows.append(Row(segment, scn, len(rows), self.random.choice(TABLES)))
        self.segments.append(rows)

    def move(self) -> bool:
        """Do the next thing. Returns whether there was one."""
        self.now += 0.01
        try:
            if self.due:
                self.carry_out(self.due.pop(0))
            elif self.came:
                self.state, new = kafka_sink.step(self.state, self.came.pop(0), self.now)
                self.due += new
            elif isinstance(self.state.doing, AllSent) and not self.news():
                return False
        except Ended:
            self.begin()
        return not isinstance(self.state.doing, RestLeft) or bool(self.due)

    def news(self) -> bool:
        due = kafka_sink.timer_at(self.state)
        if self.state.stop is None and due is not None and due <= self.now and self.random.random() < 0.5:
            self.came.append(facts.KafkaTimerFired(self.needed))
        elif len(self.segments) > self.state.at.position.segment:
            self.came.append(SegmentSealed(len(self.segments)))
        elif self.state.stop is None and due is not None:
            self.now = max(self.now, due)
            self.came.append(facts.KafkaTimerFired(self.needed))
        return bool(self.came)

    def carry_out(self, order: orders.Order) -> None:
        if not self.calm and self.random.random() < 0.02:
            raise Ended
        match order:
            case orders.BeginAgain():
                self.open = []
                at = None if self.position is None else positions.from_json(self.position)
                told = self.confirmed is not None
                of = JournalBounds("j", self.needed, len(self.segments), self.confirmed or 0, told)
                self.came.append(facts.PlacesFound(at, None if at is None else "j", of))
            case orders.BeginTransaction():
                assert not self.open
                self.routings = set()
            case orders.PlanSegment(segment, after, split, capacity):
                scns = np.array([each.scn for each in self.rows(segment) if each.scn > after], np.int64)
                self.came.append(facts.SegmentPlanned(divide_scns(scns, capacity.rows, split=split)))
            case orders.SendPortion(segment=segment, portion=portion, skip=skip):
                first, last = portion.first_scn, portion.last_scn
                left = [row for row in self.rows(segment) if first <= row.scn <= last][skip:]
                some = left[: order.most] if first == last else left
                by = self.state.routing_of(segment)
                self.routings.add(by)
                assert len(self.routings) == 1, "a Kafka transaction has rows of two settings"
                if self.send(order.topics, [(by.topic(row.table), row) for row in some]):
                    self.came.append(facts.PortionSent(len(some), ended=len(some) == len(left)))
            case orders.SendNotifications(topics, segment):
                assert segment == 1 or segment > self.needed, "the segment before is gone"
                self.send(topics, [(REPORTS, Row(segment, 0, 0, TABLES[0]))])
            case orders.SendHeartbeat(topics):
                self.beats += self.send(topics, [(BEATS, Row(0, 0, self.beats, TABLES[0]))])
            case orders.CommitTransaction(at):
                self.commit(order)
            case orders.ConfirmSegment(segment, needless):
                self.confirmed, self.needed = segment, max(self.needed, needless + 1)
            case orders.ReportSetAside() | orders.ReportCaughtUp() | orders.ReportRest() | orders.BreakOff():
                pass

    def rows(self, segment: int) -> list[Row]:
        assert segment >= self.needed, "the journal has it no more"
        return self.segments[segment - 1]

    def send(self, topics: Topics, messages: list[tuple[str, Row]]) -> bool:
        wanted = [each for each in messages if includes(topics, each[0])]
        self.open += wanted
        late = self.random.random() < 0.5  # an answer that comes with the commit
        return late or not self.trouble({topic for topic, _ in wanted})

    def trouble(self, topics: set[str]) -> bool:
        """Have a topic refuse, or something else that ends the Kafka transaction."""
        fact: facts.Fact | None = None
        if refused := topics & self.refusing:
            fact = facts.TopicRefused(min(refused), "no", self.random.choice((None, "another")))
            assert kafka_sink.sets_aside(self.state, fact)
        elif topics and not self.calm and self.random.random() < 0.05:
            topic = min(topics)
            fact = self.random.choice(
                (facts.BatchDivided(topic, 9), facts.OpenRecordsFound(frozenset({(topic, 0)})))
            )
        if fact is None:
            return False
        self.came, self.due = [fact], []
        return True

    def commit(self, order: orders.CommitTransaction) -> None:
        if self.trouble({topic for topic, _ in self.open}):
            return
        if not self.calm and self.random.random() < 0.05:
            raise Ended
        self.visible, self.open = self.visible + self.open, []
        self.position = positions.to_json(order.at)
        self.judge(order.at.position, set(order.at.set_aside))
        if not self.calm and self.random.random() < 0.05:
            raise Ended  # without an answer
        self.came.append(facts.TransactionCommitted())

    def judge(self, at: KafkaPosition, without: set[str]) -> None:
        """Each once, in order, and all that the position says."""
        for topic in TOPICS:
            places = [row for each, row in self.visible if each == topic]
            assert places == sorted(set(places)), topic
        shown = Counter(row for topic, row in self.visible if topic not in (BEATS, REPORTS))
        assert not shown or max(shown.values()) == 1, "each row in one topic"
        part = self.segments[at.segment] if at.scn or at.rows else []
        begun = sum(row.scn <= at.scn for row in part)
        for row in [*chain(*self.segments[: at.segment]), *part[: begun + at.rows]]:
            may_lack = any(each.topic(row.table) in without for each in ROUTINGS)
            assert row in shown or may_lack, row
        reported = {row.segment for topic, row in self.visible if topic == REPORTS}
        assert REPORTS in without or reported == set(range(1, at.segment + 1))


def settle(world: World) -> None:
    """Until the topics have all but what those that refuse lack, and a heartbeat."""
    until, beats = world.now + 1_000.0, world.beats
    for _ in range(20_000):
        world.move()
        quiet = not world.came and not world.due and isinstance(world.state.doing, AllSent)
        at = world.state.at
        everything = at.position.segment == len(world.segments) and set(at.set_aside) <= world.refusing
        if quiet and everything and (world.beats > beats or BEATS in world.refusing):
            return
        assert world.now < until, world.state
    raise AssertionError(world.state)


def stop(world: World) -> None:
    """A stop ends in time, whatever the sink does, and even if nothing answers."""
    began, silent, life = world.now, world.random.random() < 0.5, world.lives
    world.state, _ = kafka_sink.step(world.state, facts.KafkaStopRequested(began), began)
    while silent or world.move() or world.came or world.due:
        if world.lives > life:
            return
        until = kafka_sink.timer_at(world.state)
        if until is None:
            break
        if silent or world.random.random() < 0.1:
            before, world.now = world.state, max(world.now, until)
            world.state, new = kafka_sink.step(before, facts.StopTimePassed(), world.now)
            assert world.state != before, "the stop stands still"
            if new:
                assert orders.BreakOff() in new
                world.came, world.due = [], list(new)
        assert world.now < began + 20.0
    world.begin()


@pytest.mark.parametrize("seed", range(80))
def test_each_change_is_in_one_topic_once_and_in_order(seed: int) -> None:
    world = World(Random(seed))
    world.begin()
    for _ in range(40):
        if world.random.random() < 0.5:
            world.seal()
        if world.random.random() < 0.2:
            world.refusing ^= {world.random.choice(TOPICS)}
        for _ in range(world.random.choice((1, 5, 20))):
            world.move()
        if world.random.random() < 0.1:
            stop(world)
        if world.random.random() < 0.1:
            world.begin()
    world.calm = True
    settle(world)
    world.refusing = set()
    settle(world)
    assert {row for topic, row in world.visible if topic not in (BEATS, REPORTS)} == {
        row for rows in world.segments for row in rows
    }
