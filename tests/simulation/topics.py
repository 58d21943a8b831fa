"""A model of Kafka: a broker with transactions, and the KafkaSink, which brings what's sealed into topics.

`pipeline.kafka.step` decides what's done next, `pipeline.kafka.portions` how a segment and its statements are divided,
and `pipeline.kafka.position` how the position is written. What's modelled is the broker: it takes messages into the
transaction of a producer, makes them visible by one commit with the position, and ends what predecessors have open. A
kill may come between any two things that the sink does. Its predecessor may then continue beside it. So may each part
of a stop, which leaves the rest to the next start. Now and then a topic refuses its messages for a while. Now and then
the broker dies after it has decided on a commit, and comes back without some of its markers: those records stay open
until the next marker of ours in their topic. Held to at each commit: a topic has the first of its messages, each once
and in the stream's order, and the topic of notifications has one of each segment. No change is visible before the
statements that precede it, unless their topic is set aside. Only a source transaction that is too large is split. The
journal still has what a topic lacks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple

import numpy as np

from pipeline.journal.entry import Entry
from pipeline.kafka import position as positions
from pipeline.kafka import step as kafka_sink
from pipeline.kafka.facts import (
    Fact,
    KafkaStopRequested,
    KafkaTimerFired,
    PlacesFound,
    PortionSent,
    SegmentPlanned,
    StopTimePassed,
    TopicRefused,
    TransactionCommitted,
)
from pipeline.kafka.orders import (
    BeginAgain,
    BeginTransaction,
    BreakOff,
    CommitTransaction,
    ConfirmSegment,
    Order,
    PlanSegment,
    ReportCaughtUp,
    ReportRest,
    ReportSetAside,
    SendHeartbeat,
    SendNotifications,
    SendPortion,
)
from pipeline.kafka.portions import plan_portions, unsent
from pipeline.kafka.position import SinkPosition
from pipeline.kafka.state import (
    AllSent,
    Committing,
    JournalBounds,
    PlanningSegment,
    RestLeft,
    SendingPortion,
    State,
    includes,
)
from pipeline.kafka.transaction_endings import Ending, RecordEnds, TopicPart, ending_of, open_parts
from pipeline.messages.journal import SegmentSealed, StatementPart
from tests.simulation.lake import Violation
from tests.simulation.sink import Message, Segments
from tests.simulation.story import Story

# Where each segment has one message, with its number, instead of a notification of snapshots.
REPORTS = "reports"

# The topic of statements on the schema.
STATEMENTS = "statements"

# Topics that were set aside are tried many times between two heartbeats (s).
HEARTBEAT_S = 1000.0

# In the end each thing takes longer (s) than the time between two heartbeats.
SHORT_HEARTBEAT_S, EACH_TAKES_S = 0.1, 1.0

# The topic of the position.
POSITION = "position"


def reported(segment: int) -> Message:
    """What a segment reports; its SCN is none of a row."""
    return Message(-segment, REPORTS, 0, "", None, None)


def stated(parts: Iterable[StatementPart]) -> list[Message]:
    """What the topic of statements gets for these."""
    return [Message(part.scn, STATEMENTS, 0, part.statement.text, None, None) for part in parts]


class Fenced(Exception):
    """A later producer has begun."""


class BrokerDied(Exception):
    """The broker died after it decided on a commit, and is back. Some markers are missing."""


class Position(NamedTuple):
    """A position's bytes, and where the records of its Kafka transaction end."""

    text: bytes
    ends: RecordEnds


@dataclass
class Broker:
    """What's committed by topic, the position, what each producer has open, and the topics that refuse.

    `left`: what a Kafka transaction that has ended left open for want of a marker, `left_position`: its position.
    """

    committed: dict[str, list[Message]] = field(default_factory=dict)
    position: Position | None = None
    open: dict[int, list[Message]] = field(default_factory=dict)
    epoch: int = 0
    refusing: set[str] = field(default_factory=set)
    left: dict[str, list[Message]] = field(default_factory=dict)
    left_position: Position | None = None
    ends: Counter[str] = field(default_factory=Counter)
    stable: Counter[str] = field(default_factory=Counter)
    shown: set[tuple[str, int]] = field(default_factory=set)

    def begin(self) -> int:
        """A new epoch."""
        self.epoch += 1
        self.fence()
        self.open[self.epoch] = []
        return self.epoch

    def fence(self) -> None:
        """End what predecessors have open, and take nothing from them any more."""
        for topic in {message.topic for messages in self.open.values() for message in messages}:
            self.mark(topic, [], Ending.ABORT)
        self.open = {}

    def take(self, epoch: int, messages: list[Message]) -> None:
        """Add messages to a producer's transaction."""
        self._open(epoch).extend(messages)
        self.ends.update(message.topic for message in messages)

    def commit(
        self, epoch: int, position: bytes | None, missing: Callable[[str], bool] = lambda _: False
    ) -> list[Message]:
        """Make visible what a producer has open, and the position, if their markers aren't missing.

        Returns the visible messages.
        """
        messages = list(self._open(epoch))
        self.open[epoch] = []
        topics = {message.topic for message in messages}
        if position is not None:
            self.ends[POSITION] += 1
            self.left_position = Position(position, {(topic, 0): self.ends[topic] for topic in topics})
            topics |= {POSITION}
        visible = []
        for topic in sorted(topics):
            new = [message for message in messages if message.topic == topic]
            if missing(topic):
                self.left.setdefault(topic, []).extend(new)
            else:
                visible += self.mark(topic, new, Ending.COMMIT)
        return visible

    def mark(self, topic: str, new: list[Message], ending: Ending) -> list[Message]:
        """Write a marker, which ends all that is open in a topic. Returns what it makes visible."""
        ended = [*self.left.pop(topic, []), *new]
        self.stable[topic] = self.ends[topic]
        if topic == POSITION:
            if ending is Ending.COMMIT and self.left_position is not None:
                self.position = self.left_position
            self.left_position = None
        if ending is Ending.COMMIT:
            self.committed.setdefault(topic, []).extend(ended)
            self.shown.add((topic, self.ends[topic]))
            return ended
        return []

    def stable_offsets(self, ends: RecordEnds) -> dict[TopicPart, int]:
        """The last stable offsets of these partitions."""
        return {(topic, 0): self.stable[topic] for topic, _ in ends}

    def _open(self, epoch: int) -> list[Message]:
        if epoch not in self.open:
            raise Fenced
        return self.open[epoch]


class Commit(NamedTuple):
    """One commit at the broker; `last`: the sink is told of it."""

    position: bytes | None
    last: bool


@dataclass
class Life:
    """What the sink is and does from a start to a kill."""

    state: State
    epoch: int = 0
    now: float = 0.0
    facts: list[Fact] = field(default_factory=list)
    orders: list[Order | Commit] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether it waits for something to come."""
        return not self.facts and not self.orders

    def time_passes(self, until: float | None, first: int) -> None:
        """Time passes until this moment, at which something is due. The journal begins with this segment."""
        if until is not None:
            self.now = max(self.now, until)
            self.facts.append(KafkaTimerFired(first))


class Topics:
    """Sends what's sealed. A kill leaves the broker as it is, and what the journal was told."""

    def __init__(self, segments: Segments, random: Random, story: Story, reached: Counter[str]) -> None:
        self._segments, self._random, self._story, self._reached = segments, random, story, reached
        self._broker = Broker()
        self._most = random.choice((1, 2, 3, 8))
        self._confirmed: int | None = None
        self._needed = 1  # the first segment that the journal still has
        self._predecessors: list[Life] = []
        self._calm = False
        self._life = self._started()

    def go_on(self) -> None:
        """Do the next things; or be killed, perhaps beside a predecessor that continues."""
        for _ in range(self._random.choice((2, 4, 8))):
            self._something_comes()
            self._move(self._life)
            if self._predecessors and self._random.random() < 0.3:
                self._moved_beside(self._random.choice(self._predecessors))
        if self._random.random() < 0.1:
            topics = sorted({message.topic for stream in self._segments.streams for message in stream})
            self._broker.refusing ^= {self._random.choice([*topics, REPORTS, STATEMENTS])}
        if self._random.random() < 0.15:
            self._kill()
        elif self._life.state.stop is not None or self._random.random() < 0.1:
            self._stop()

    def finish(self) -> None:
        """Send all that's sealed: a topic that refuses holds up no other one, and lacks nothing in the end."""
        for predecessor in list(self._predecessors):
            while predecessor in self._predecessors and not predecessor.idle:
                self._moved_beside(predecessor)
        self._calm = True
        if self._life.state.stop is not None:
            self._life = self._started()
        life = self._life
        life.state = replace(life.state, heartbeat_s=SHORT_HEARTBEAT_S, heartbeat_at=life.now)
        self._come_to_rest()
        self._judge_end(self._broker.refusing)
        self._broker.refusing = set()
        self._come_to_rest()
        self._judge_end(set())
        if self._life.state.at.set_aside:
            raise Violation(f"topics stay set aside: {self._life.state.at.set_aside}")

    def _come_to_rest(self) -> None:
        for _ in range(100_000):
            waiting = set(self._life.state.at.set_aside) - self._broker.refusing
            if self._life.idle and self._sealed > self._life.state.at.position.segment:
                self._life.facts.append(SegmentSealed(self._sealed))
            elif self._life.idle and waiting:
                self._life.time_passes(kafka_sink.timer_at(self._life.state), self._needed)
            elif self._life.idle:
                return
            self._life.now += EACH_TAKES_S
            self._move(self._life)
        raise Violation(f"the topics never have all: {self._life.state}")

    @property
    def _sealed(self) -> int:
        return len(self._segments.entries)

    def _started(self) -> Life:
        life = Life(State(self._most, next_rows=1, heartbeat_s=HEARTBEAT_S))
        life.facts.append(self._places(life))
        return life

    def _kill(self) -> None:
        within = isinstance(self._life.state.doing, PlanningSegment | SendingPortion | Committing)
        self._reached["the topics' sink was killed within a Kafka transaction"] += within
        if self._random.random() < 0.5:
            self._predecessors = [*self._predecessors[-1:], self._life]
        self._story.tell("the topics' sink is killed")
        self._life = self._started()

    def _stop(self) -> None:
        """The service stops; or a stop comes to its next part, whatever the sink does, or has ended."""
        life = self._life
        if life.state.stop is None:
            life.state, _ = kafka_sink.step(life.state, KafkaStopRequested(life.now), life.now)
        elif life.idle and isinstance(life.state.doing, AllSent | RestLeft):
            self._story.tell("the topics' sink has stopped")
            self._life = self._started()
        elif (until := kafka_sink.timer_at(life.state)) is not None and self._random.random() < 0.5:
            life.now = max(life.now, until)
            life.state, orders = kafka_sink.step(life.state, StopTimePassed(), life.now)
            if orders:
                self._reached["a stop broke off what the topics' sink did"] += 1
                life.facts, life.orders = [], [*orders]

    def _places(self, life: Life) -> PlacesFound:
        life.epoch = self._broker.begin()
        self.end_what_is_open(self._broker)
        position, told = self._broker.position, self._confirmed
        at = None if position is None else positions.from_json(position.text)
        bounds = JournalBounds("j", self._needed, self._sealed, told or 0, told is not None)
        return PlacesFound(at, None if at is None else "j", bounds)

    def end_what_is_open(self, broker: Broker) -> None:
        """End what the last Kafka transaction left open, as `pipeline.kafka.transaction_endings` says."""
        if broker.left_position is not None:
            ends = broker.left_position.ends
            opened = open_parts(ends, broker.stable_offsets(ends))
            ending = ending_of((topic, ends[topic, 0]) in broker.shown for topic, _ in ends.keys() - opened)
            self._reached[f"a start ended an open Kafka transaction: {ending.value}"] += 1
            self._end({*opened, (POSITION, 0)}, ending)
        if broker.position is not None:
            ends = broker.position.ends
            self._end(open_parts(ends, broker.stable_offsets(ends)), Ending.COMMIT)

    def _end(self, parts: Iterable[TopicPart], ending: Ending) -> None:
        visible = [message for topic, _ in sorted(parts) for message in self._broker.mark(topic, [], ending)]
        self._committed(visible)

    def _something_comes(self) -> None:
        """News of a segment, an old one too; the time for a heartbeat, or for a topic that was set aside."""
        life = self._life
        if not life.idle or not isinstance(life.state.doing, AllSent) or life.state.stop is not None:
            return
        choice = self._random.random()
        if choice < 0.1:
            life.time_passes(life.state.heartbeat_at, self._needed)
        elif choice < 0.3 and life.state.at.set_aside:
            life.time_passes(kafka_sink.timer_at(life.state), self._needed)
        elif self._sealed:
            life.facts.append(SegmentSealed(self._random.choice((self._sealed, self._sealed, 1))))

    def _moved_beside(self, predecessor: Life) -> None:
        """A predecessor does its next thing; it ends when it's fenced, or misses what the journal no longer has."""
        try:
            self._move(predecessor)
        except Fenced:
            self._reached["a predecessor of the topics' sink was fenced"] += 1
            self._predecessors.remove(predecessor)

    def _move(self, life: Life) -> None:
        if life.orders:
            try:
                self._carry_out(life, life.orders.pop(0))
            except BrokerDied:
                self.missed_markers(life)
        elif life.facts:
            try:
                life.state, orders = kafka_sink.step(life.state, life.facts.pop(0), life.now)
            except kafka_sink.PositionLost as lost:
                raise Violation(str(lost)) from lost
            life.orders += orders

    def missed_markers(self, life: Life) -> None:
        """The sink misses the markers of its commit, and starts again."""
        if life is not self._life:
            raise Fenced
        self._life = self._started()

    def _carry_out(self, life: Life, order: Order | Commit) -> None:
        match order:
            case BeginTransaction() | SendHeartbeat() | BreakOff() | ReportSetAside() | ReportCaughtUp():
                pass
            case SendNotifications():
                self._report(life, order)
            case PlanSegment(segment, after, split, capacity):
                entry = self._entry(life, segment)
                portions = plan_portions(entry, after, capacity, lambda: self._scns(segment), split=split)
                life.facts.append(SegmentPlanned(portions))
            case SendPortion():
                life.facts.append(self._sent(life, order))
            case CommitTransaction(at):
                life.orders[:0] = self.commits(at)
            case Commit(position, last):
                self._commit(life, position)
                life.facts += [TransactionCommitted()] if last else []
            case BeginAgain():
                if life is not self._life:
                    raise Fenced  # it's as good as another predecessor
                life.facts.append(self._places(life))
            case ConfirmSegment(segment, needless):
                self._confirmed = segment
                self._needed = max(self._needed, needless + 1)
            case ReportRest():
                self._reached["a stop left to the next start what the topics lacked"] += 1

    def _commit(self, life: Life, position: bytes | None) -> None:
        """Commit; or the broker dies over it, and the sink, which waits for the markers, starts again."""
        if self._calm or self._random.random() >= 0.1:
            self._committed(self._broker.commit(life.epoch, position))
            return
        self._committed(self._broker.commit(life.epoch, position, lambda _: self._random.random() < 0.5))
        self._story.tell("the broker died over a commit")
        raise BrokerDied

    def _report(self, life: Life, order: SendNotifications) -> None:
        """Send what a segment reports. A refusal ends the orders that follow from the same fact."""
        if not includes(order.topics, REPORTS):
            return
        if REPORTS in self._broker.refusing:
            self._reached["the topic of notifications refused"] += 1
            life.orders.clear()
            life.facts.append(TopicRefused(REPORTS, "refused"))
            return
        self._broker.take(life.epoch, [reported(order.segment)])

    def commits(self, at: SinkPosition) -> list[Commit]:
        """One commit, of the messages and of the position."""
        return [Commit(positions.to_json(at), last=True)]

    def _entry(self, life: Life, segment: int) -> Entry:
        if segment < self._needed:
            if life is not self._life:
                raise Fenced
            raise Violation(f"the topics need segment {segment}, and the journal begins with {self._needed}")
        return self._segments.entries[segment - 1]

    def _scns(self, segment: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array([message.scn for message in self._segments.streams[segment - 1]], np.int64)

    def _sent(self, life: Life, order: SendPortion) -> PortionSent | TopicRefused:
        portion, index = order.portion, order.segment - 1
        statements, skip = unsent(self._segments.entries[index], portion, order.skip)
        stream = self._segments.streams[index]
        rows = [each for each in stream if portion.first_scn <= each.scn <= portion.last_scn][skip:]
        left = [*stated(statements), *rows]
        some = left[: order.most] if portion.first_scn == portion.last_scn else left
        wanted = [message for message in some if includes(order.topics, message.topic)]
        if refused := self._broker.refusing & {message.topic for message in wanted}:
            self._reached["a topic refused its messages"] += 1
            return TopicRefused(min(refused), "refused")
        self._broker.take(life.epoch, wanted)
        self._reached["a source transaction was too large for a Kafka transaction"] += len(some) < len(left)
        return PortionSent(len(some), ended=len(some) == len(left))

    def _of_topic(self, topic: str) -> Iterator[Message]:
        if topic == REPORTS:
            return (reported(number) for number in range(1, self._sealed + 1))
        return (message for message in self._messages() if message.topic == topic)

    def _messages(self) -> Iterator[Message]:
        for entry, stream in zip(self._segments.entries, self._segments.streams, strict=True):
            yield from stated(entry.statements)
            yield from stream

    def _committed(self, messages: list[Message]) -> None:
        """Judge what became visible together."""
        self._story.tell("committed in the topics", *messages)
        for topic in {message.topic for message in messages}:
            visible, wanted = self._broker.committed[topic], list(self._of_topic(topic))
            if visible != wanted[: len(visible)]:
                raise Violation(f"{topic} has {visible}, the stream {wanted}")
            own = Counter(message.scn for message in messages if message.topic == topic)
            whole = Counter(message.scn for message in wanted)
            torn = [scn for scn in own if own[scn] != whole[scn] and self._rows_of(scn) <= self._most]
            if torn:
                raise Violation(f"{topic}: source transactions {torn} were split, and aren't too large")
        self._judge_statements(messages)

    def _judge_statements(self, messages: list[Message]) -> None:
        """Whoever sees a change sees the statements before it, unless their topic is set aside or lacks its marker."""
        broker = self._broker
        newest = broker.left_position or broker.position  # what lacks its marker is decided too
        at = None if newest is None else positions.from_json(newest.text)
        if STATEMENTS in broker.left or (at is not None and STATEMENTS in at.set_aside):
            return
        last = max(
            (message.scn for message in messages if message.topic not in (REPORTS, STATEMENTS)), default=0
        )
        visible = broker.committed.get(STATEMENTS, [])
        before = [message for message in self._of_topic(STATEMENTS) if message.scn <= last]
        self._reached["a change was sent after a statement"] += bool(before)
        if visible[: len(before)] != before:
            raise Violation(f"changes through the SCN {last} are visible, and of the statements {visible}")

    def _rows_of(self, scn: int) -> int:
        return sum(message.scn == scn for message in self._messages())

    def _judge_end(self, refusing: set[str]) -> None:
        every = {message.topic for message in self._messages()}
        for topic in (every | {REPORTS}) - refusing:
            visible, wanted = self._broker.committed.get(topic, []), list(self._of_topic(topic))
            if visible != wanted:
                raise Violation(f"{topic} ends with {visible}, the stream has {wanted}")
