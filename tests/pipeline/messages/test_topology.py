"""The flow as data: it can't lock up, nothing in it is unbounded, and it says the same as the messages' types."""

from itertools import pairwise
from typing import get_args

import pytest

from pipeline.messages import inboxes as messages
from pipeline.messages.binlog import TransactionPartRead, TransactionsRead
from pipeline.messages.changes import ChangesVerified, TransactionPartVerified
from pipeline.messages.journal import Append, AppendRows
from pipeline.messages.topology import EDGES, GROUPS, ActorName, WhenFull, inbox

RECEIVES = {
    ActorName.SIGNAL_LISTENER: messages.ToSignalListener,
    ActorName.BINLOG_READER: messages.ToBinlogReader,
    ActorName.SCHEMA_VERIFIER: messages.ToSchemaVerifier,
    ActorName.WATERMARK_COORDINATOR: messages.ToWatermarkCoordinator,
    ActorName.CHUNK_SELECTOR: messages.ToChunkSelector,
    ActorName.JOURNAL_WRITER: messages.ToJournalWriter,
    ActorName.SPARK_SINK: messages.ToSparkSink,
    ActorName.KAFKA_SINK: messages.ToKafkaSink,
}


def cycles() -> list[list[ActorName]]:
    """Every simple cycle, once for each of its actors."""
    found = []

    def walk(path: list[ActorName]) -> None:
        for edge in EDGES:
            if edge.sender is path[-1]:
                if edge.receiver is path[0]:
                    found.append([*path, path[0]])
                elif edge.receiver not in path:
                    walk([*path, edge.receiver])

    for actor in ActorName:
        walk([actor])
    return found


def test_there_are_cycles() -> None:
    assert {frozenset(cycle) for cycle in cycles()} >= {
        frozenset({ActorName.WATERMARK_COORDINATOR, ActorName.CHUNK_SELECTOR}),
        frozenset({ActorName.SIGNAL_LISTENER, ActorName.WATERMARK_COORDINATOR, ActorName.JOURNAL_WRITER}),
    }


@pytest.mark.parametrize("cycle", cycles(), ids="-".join)
def test_every_cycle_has_an_edge_that_cannot_block(cycle: list[ActorName]) -> None:
    def waits(sender: ActorName, receiver: ActorName) -> bool:
        between = [edge for edge in EDGES if edge.sender is sender and edge.receiver is receiver]
        return any(edge.when_full is WhenFull.WAIT for edge in between)

    assert not all(waits(sender, receiver) for sender, receiver in pairwise(cycle))


def test_bounds_are_positive_and_exceptions_from_waiting_are_argued_for() -> None:
    for edge in EDGES:
        assert edge.bound > 0
        assert bool(edge.why) is (edge.when_full is not WhenFull.WAIT)
        assert edge.bound == 1 or edge.when_full is not WhenFull.NEWEST


def test_edges_that_carry_rows_of_the_log_are_bounded_in_bytes_too() -> None:
    carriers = {
        TransactionsRead,
        TransactionPartRead,
        ChangesVerified,
        TransactionPartVerified,
        AppendRows,
        Append,
    }
    for edge in EDGES:
        assert (edge.bytes is not None) is bool(carriers.intersection(edge.messages))
        assert edge.bytes is None or edge.when_full is WhenFull.WAIT


def test_a_message_takes_one_edge_and_none_back_to_its_sender() -> None:
    ways = [(edge.sender, edge.receiver, message) for edge in EDGES for message in edge.messages]
    assert len(set(ways)) == len(ways)
    assert all(sender is not receiver for sender, receiver, _ in ways)


@pytest.mark.parametrize("actor", list(ActorName))
def test_an_actor_gets_what_its_type_says(actor: ActorName) -> None:
    union = RECEIVES[actor]
    coming = {message for edge in inbox(actor) for message in edge.messages}
    assert coming == set(get_args(union) or (union,))


def test_a_message_has_one_owner() -> None:
    """A sender either makes a message that no other actor makes, or passes on what it received."""
    for message in {message for edge in EDGES for message in edge.messages}:
        senders = {edge.sender for edge in EDGES if message in edge.messages}
        receivers = {edge.receiver for edge in EDGES if message in edge.messages}
        assert len(senders - receivers) == 1, message


def test_the_order_of_actors_is_a_flow() -> None:
    """A clean stop follows it: all but the first two have a sender before them, whose end is theirs."""
    order = list(ActorName)
    firsts = [
        actor
        for actor in ActorName
        if not any(order.index(edge.sender) < order.index(actor) for edge in inbox(actor))
    ]
    assert firsts == [ActorName.SIGNAL_LISTENER, ActorName.BINLOG_READER]


def test_each_actor_is_in_one_group() -> None:
    assert sorted(name for group in GROUPS for name in group.actors) == sorted(ActorName)
