"""A model of those who wait until their commits are in the lake, held to what they are answered.

Real are the waiters (`pipeline.journal.applied`), and what the sink's state says of the lake
(`pipeline.lake.consumer_progress`). Modelled are the clients: each takes transactions that the server has executed, of
any place in its log, and some of the tables. An answer is right if the lake has, at that moment, everything of these
tables through the segment that it names, and that segment's position has the transactions. And each client is answered
when everything is delivered.
"""

from collections import Counter
from random import Random

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.applied.progress import JournalProgress, Through
from pipeline.journal.applied.query import Answer, Applied, AppliedQuery, NeverApplied
from pipeline.journal.applied.waiters import Waiters
from pipeline.lake.consumer_progress import LakeConsumerProgress
from pipeline.lake.state import State
from tests.simulation.lake import Violation
from tests.simulation.operator import SHOP
from tests.simulation.server import Server
from tests.simulation.sink import Sink


class Waiting:
    """The clients of one run. They draw from a random source of their own, so that they disturb nothing."""

    def __init__(self, server: Server, sink: Sink, random: Random, reached: Counter[str]) -> None:
        self._server, self._sink, self._random, self._reached = server, sink, random, reached
        self._waiters = Waiters(SHOP)
        self._asked: dict[int, AppliedQuery] = {}
        self._number = 0
        sink.reported = self.delivered

    def ask(self) -> None:
        """A client comes, or none."""
        executed = [each.gtid for each in self._server.log if each.executed]
        if not executed or self._random.random() < 0.5:
            return
        wanted = GtidSet()
        for gtid in self._random.sample(executed[-8:], min(len(executed), self._random.choice((1, 1, 2)))):
            wanted = wanted.with_gtid(gtid)
        named = self._random.sample(self._server.tables, self._random.randint(1, len(self._server.tables)))
        tables = frozenset(named)
        query = AppliedQuery(wanted, Through.LAKE, self._random.choice((None, tables)))
        self._number += 1
        number = self._number
        self._asked[number] = query
        if (answer := self._waiters.ask(number, query)) is not None:
            self._reached["a client was answered at once"] += isinstance(answer, Applied)
            self._judge([(number, answer)])

    def sealed(self) -> None:
        """The journal has sealed a segment, or begins with one."""
        if entries := self._sink.entries:
            self._judge(
                self._waiters.journal_progressed(JournalProgress(entries[-1].segment, entries[-1].checkpoint))
            )

    def delivered(self, state: State) -> None:
        """The sink knows something new."""
        answers = self._waiters.consumer_reached(Through.LAKE, LakeConsumerProgress(state))
        self._reached["a client was answered by a delivery"] += len(answers)
        self._judge(answers)

    def finish(self) -> None:
        """Everything is delivered: whoever still waits, waits for what never passed."""
        position = self._sink.entries[-1].checkpoint.position
        for number in sorted(self._asked):
            query = self._asked[number]
            if query.gtid_set <= position:
                raise Violation(
                    f"all is delivered, and {query} has no answer: {self._waiters.withdraw(number)}"
                )

    def _judge(self, answers: list[tuple[int, Answer]]) -> None:
        for number, answer in answers:
            query = self._asked.pop(number)
            match answer:
                case Applied(reached, read_at):
                    position = self._sink.entries[reached.segment - 1].checkpoint.position
                    if reached.segment < 1 or not query.gtid_set <= position:
                        raise Violation(f"{query} was answered with segment {reached.segment}, at {position}")
                    for table in read_at:
                        if not self._sink.has_through(table, reached.segment):
                            raise Violation(f"{query} was answered, and {table} lacks part of it in the lake")
                case NeverApplied(reason):
                    self._judge_refusal(query, reason)

    def _judge_refusal(self, query: AppliedQuery, reason: str) -> None:
        checkpoint = self._sink.entries[-1].checkpoint
        tables = query.tables if query.tables is not None else frozenset(checkpoint.stopped)
        if not any(table in checkpoint.stopped or table not in checkpoint.schemas for table in tables):
            raise Violation(f"{query} was refused ({reason}), though its tables are captured")
