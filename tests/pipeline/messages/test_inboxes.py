"""Messages: values, named for what they are, and each of them meant for somebody."""

import re
from types import UnionType
from typing import get_args

import pytest

from pipeline.coordinator.consistent_state import CloseTransactions, OpenTransactions, TransactionsOpened
from pipeline.coordinator.reselect_keys import ReadKeys
from pipeline.journal.quota import RoomEnded, RoomMade
from pipeline.lake.missing_generations import MirrorsLacked
from pipeline.messages import inboxes as messages
from pipeline.messages.inboxes import Append, Kind
from pipeline.schema.table_schema import TableId
from pipeline.signals.outcomes import CheckpointSealed
from pipeline.snapshot.snapshot import ChunkId
from pipeline.source.throttle import SourceEased, SourceStrained
from tests.pipeline.declarations import declared, is_value

# What is no message, but a part of messages.
PARTS = {
    messages.RowsUnread,
    messages.TableImages,
    messages.TableUnreadable,
    messages.TableChanges,
    messages.ChangePart,
    messages.ChunkPart,
}

ORDERS_GIVEN = {
    messages.PlanTable,
    messages.ReadChunk,
    ReadKeys,
    messages.PauseReading,
    messages.ResumeReading,
    messages.AppendRows,
    messages.Append,
}


def receivers() -> dict[str, set[type]]:
    """Who may get what: the names that begin with To."""
    unions: dict[str, type | UnionType] = {n: v for n, v in vars(messages).items() if re.match("To[A-Z]", n)}
    return {name: set(get_args(union)) or {union} for name, union in unions.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("declaration", declared(messages))
def test_what_crosses_between_actors_never_changes(declaration: type) -> None:
    assert is_value(declaration)


def test_each_message_is_meant_for_somebody() -> None:
    assert set().union(*receivers().values()) | PARTS == {
        *declared(messages),
        CheckpointSealed,
        OpenTransactions,
        CloseTransactions,
        TransactionsOpened,
        MirrorsLacked,
        ReadKeys,
        RoomEnded,
        RoomMade,
        SourceEased,
        SourceStrained,
    }


def test_facts_are_in_the_past_tense_and_orders_in_the_imperative() -> None:
    for message in set(declared(messages)) - PARTS:
        fact = re.fullmatch(r"[A-Z]\w*(ed|Read)", message.__name__) is not None
        assert fact != (message in ORDERS_GIVEN), message


def test_nobody_who_gives_orders_to_the_world_gets_any() -> None:
    assert not receivers()["ToWatermarkCoordinator"] & ORDERS_GIVEN


def test_the_kinds_of_images_are_written_as_these_numbers() -> None:
    assert {kind.name: kind.value for kind in Kind} == {
        "INSERT": 0,
        "UPDATE_BEFORE": 1,
        "UPDATE_AFTER": 2,
        "DELETE": 3,
        "EMPTIED": 4,
    }


def test_a_chunk_is_told_by_snapshot_table_and_number() -> None:
    assert str(ChunkId("s1", TableId("shop", "orders"), 3)) == "s1/shop.orders/3"


def test_an_append_answers_nobody_and_withdraws_nothing_unless_it_says_so() -> None:
    assert Append.__match_args__ == ("parts", "checkpoint", "answers", "withdrawn", "alterations")
    assert Append.__dataclass_fields__["answers"].default == ()
    assert Append.__dataclass_fields__["withdrawn"].default == frozenset()
    assert Append.__dataclass_fields__["alterations"].default == ()
