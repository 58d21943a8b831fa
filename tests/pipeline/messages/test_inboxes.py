"""Messages: values, named for what they are, and each with a receiver."""

import re
from types import UnionType
from typing import get_args

import pytest

from pipeline.messages import binlog, changes, chunks, journal, row_images, signals
from pipeline.messages import inboxes as messages
from pipeline.messages import journal as journal_messages
from pipeline.messages.binlog import PauseReading, ResumeReading, RowsUnread
from pipeline.messages.chunks import (
    CloseScan,
    CloseTransactions,
    NotDivided,
    OpenScan,
    OpenTransactions,
    PlanTable,
    ReadChunk,
    ReadScan,
    RepairRows,
    ReselectRows,
    TableRanges,
    WithoutRows,
)
from pipeline.messages.row_images import ImageKind, TableChanges, TableImages, TableUnreadable
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import ChunkId
from tests.pipeline.declarations import declared, is_value

MODULES = (binlog, changes, chunks, journal, row_images, signals)
DECLARED = [declaration for module in MODULES for declaration in declared(module)]

# What is no message, but a part of messages.
PARTS = {
    RowsUnread,
    TableImages,
    TableUnreadable,
    TableChanges,
    journal_messages.ChangePart,
    journal_messages.ChunkPart,
    journal_messages.StatementPart,
    changes.CreationStatements,
    journal_messages.HasSpace,
    journal_messages.Full,
    TableRanges,
    WithoutRows,
    NotDivided,
}

# What is no fact by its name, but says how the journal is.
SAY_HOW_IT_IS = {journal_messages.JournalFull, journal_messages.JournalHasSpace}

ORDERS_GIVEN = {
    PlanTable,
    ReadChunk,
    RepairRows,
    ReselectRows,
    OpenTransactions,
    CloseTransactions,
    OpenScan,
    ReadScan,
    CloseScan,
    PauseReading,
    ResumeReading,
    journal_messages.AppendRows,
    journal_messages.Append,
}


def receivers() -> dict[str, set[type]]:
    """Who may get what: the names that begin with To."""
    unions: dict[str, type | UnionType] = {n: v for n, v in vars(messages).items() if re.match("To[A-Z]", n)}
    return {name: set(get_args(union)) or {union} for name, union in unions.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("declaration", DECLARED)
def test_what_crosses_between_actors_never_changes(declaration: type) -> None:
    assert is_value(declaration)


def test_each_message_is_meant_for_somebody() -> None:
    assert set().union(*receivers().values()) | PARTS == set(DECLARED)


def test_facts_are_in_the_past_tense_and_orders_in_the_imperative() -> None:
    for message in set(DECLARED) - PARTS - SAY_HOW_IT_IS:
        fact = re.fullmatch(r"[A-Z]\w*(ed|Read)", message.__name__) is not None
        assert fact != (message in ORDERS_GIVEN), message


def test_nobody_who_gives_orders_to_the_world_gets_any() -> None:
    assert not receivers()["ToWatermarkCoordinator"] & ORDERS_GIVEN


def test_the_kinds_of_images_are_written_as_these_numbers() -> None:
    assert {kind.name: kind.value for kind in ImageKind} == {
        "INSERT": 0,
        "UPDATE_BEFORE": 1,
        "UPDATE_AFTER": 2,
        "DELETE": 3,
        "EMPTIED": 4,
    }


def test_a_chunk_is_told_by_snapshot_table_and_number() -> None:
    assert str(ChunkId("s1", TableId("shop", "orders"), 3)) == "s1/shop.orders/3"


def test_an_append_answers_nobody_and_withdraws_nothing_unless_it_says_so() -> None:
    assert journal_messages.Append.__match_args__ == (
        "parts",
        "checkpoint",
        "answers",
        "withdrawn",
        "alterations",
        "statements",
    )
    assert journal_messages.Append.__dataclass_fields__["answers"].default == ()
    assert journal_messages.Append.__dataclass_fields__["withdrawn"].default == frozenset()
    assert journal_messages.Append.__dataclass_fields__["alterations"].default == ()
    assert journal_messages.Append.__dataclass_fields__["statements"].default == ()
