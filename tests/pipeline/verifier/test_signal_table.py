"""Rows of the signal table: inserted ones become signals of their transactions, and nothing else is sent."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.gtid.transactions import Transactions
from pipeline.messages.binlog import LogAdvanced
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges
from pipeline.schema.ddl.alter_table import Alteration
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.signals.signal import SourceSignal
from pipeline.types.column_types import ColumnType, Integer, Json, Text
from pipeline.verifier.signal_table import SignalRows, divert_signals, why_unreadable
from pipeline.verifier.state import FromVerifier
from tests.pipeline.builders import COMMIT_TIME, ORDERS, gtid, place

RUN = Transactions.of([(gtid("a:6"), COMMIT_TIME)])
TEXT = Text("utf8mb4")


def schema_of(*kinds: ColumnType) -> TableSchema:
    columns = tuple(Column(f"c{i}", kind, nullable=True) for i, kind in enumerate(kinds))
    return TableSchema(TableId("shop", "signals"), columns, (0,))


SIGNALS = schema_of(TEXT, TEXT, TEXT)
ROWS = SignalRows(SIGNALS.table, captured=False)


def changes(schema: TableSchema, *rows: tuple[ImageKind, str, str, str | None]) -> TableChanges:
    images = [
        {"kind": int(kind), "transaction": 0, "ordinal": i, "absent": None}
        for i, (kind, *_) in enumerate(rows)
    ]
    values = [dict(zip(schema.arrow.names, row[1:], strict=True)) for row in rows]
    return TableChanges.unshared(
        schema,
        pa.RecordBatch.from_pylist(images, IMAGE_FIELDS),
        pa.RecordBatch.from_pylist(values, schema.arrow),
    )


def asked(id_: str) -> TableChanges:
    """A row is inserted."""
    return changes(SIGNALS, (ImageKind.INSERT, id_, "pause-snapshot", None))


OTHERS = changes(replace(SIGNALS, table=ORDERS.table), (ImageKind.INSERT, "1", "a", "b"))


def passed(*tables: TableChanges) -> ChangesVerified:
    return ChangesVerified(RUN, tables, place(20))


def part(*tables: TableChanges) -> TransactionPartVerified:
    return TransactionPartVerified(gtid("a:6"), COMMIT_TIME, tables)


def told(rows: SignalRows, *messages: FromVerifier) -> list[FromVerifier | None]:
    """Returns what is sent instead of each message."""
    instead = []
    for message in messages:
        rows, each = divert_signals(rows, message)
        instead.append(each)
    return instead


def test_what_is_inserted_is_told_as_signals_beside_its_transaction() -> None:
    both = changes(
        SIGNALS,
        (ImageKind.INSERT, "s1", "pause-snapshot", None),
        (ImageKind.UPDATE_BEFORE, "s1", "pause-snapshot", None),
        (ImageKind.UPDATE_AFTER, "s2", "pause-snapshot", None),
        (ImageKind.DELETE, "s2", "pause-snapshot", None),
        (ImageKind.INSERT, "s3", "log", '{"message": "x"}'),
    )
    message = passed(OTHERS, both)
    assert told(ROWS, message) == [
        replace(
            message,
            tables=(OTHERS,),
            signals=(SourceSignal("s1", "pause-snapshot", ""), SourceSignal("s3", "log", '{"message": "x"}')),
        )
    ]


def test_a_signal_in_a_part_waits_for_the_end_of_its_transaction() -> None:
    one, two, end = told(ROWS, part(asked("s1")), part(OTHERS, asked("s2")), passed(asked("s3")))
    assert one == part()
    assert two == part(OTHERS)
    assert isinstance(end, ChangesVerified)
    assert [signal.id for signal in end.signals] == ["s1", "s2", "s3"]
    assert told(ROWS, part(asked("s1")), passed(), passed())[-1] == passed()


def test_if_it_is_captured_too_its_rows_go_on_as_well() -> None:
    captured = replace(ROWS, captured=True)
    (end,) = told(captured, passed(asked("s1")))
    assert isinstance(end, ChangesVerified)
    assert (len(end.tables), len(end.signals)) == (1, 1)
    news: list[FromVerifier] = [SchemasVerified((SIGNALS,)), TableStopped(SIGNALS.table, "why")]
    assert told(captured, *news) == news


def test_nothing_behind_knows_of_it_otherwise() -> None:
    restarts = tuple(MirrorInvalidated(table, "why", emptied=True) for table in (SIGNALS.table, ORDERS.table))
    both = frozenset({SIGNALS.table, ORDERS.table})
    alterations = tuple(Alteration(schema, "TRUNCATE TABLE", emptied=True) for schema in (SIGNALS, ORDERS))
    statement = SchemaChanged(gtid("a:6"), both, "TRUNCATE …", place(20), restarts, alterations=alterations)
    changes_ = replace(passed(OTHERS), restarted=restarts)
    assert told(
        ROWS,
        SchemasVerified((SIGNALS,)),
        MirrorInvalidated(SIGNALS.table, "why", emptied=True),
        TableStopped(SIGNALS.table, "why"),
        statement,
        changes_,
    ) == [
        None,
        None,
        None,
        replace(
            statement,
            tables=frozenset({ORDERS.table}),
            restarted=restarts[1:],
            alterations=alterations[1:],
        ),
        replace(changes_, restarted=restarts[1:]),
    ]


def test_schemas_that_come_with_its_own_are_told() -> None:
    restarts = tuple(MirrorInvalidated(table, "why") for table in (SIGNALS.table, ORDERS.table))
    both = SchemasVerified((schema_of(TEXT, TEXT), ORDERS), restarts)
    rows, sent = divert_signals(ROWS, both)
    assert sent == SchemasVerified((ORDERS,), restarts[1:])
    assert rows.problem == why_unreadable(schema_of(TEXT, TEXT))
    assert told(replace(ROWS, captured=True), both) == [both]


def test_other_tables_news_are_told() -> None:
    messages: list[FromVerifier] = [
        SchemasVerified((ORDERS,)),
        MirrorInvalidated(ORDERS.table, "why", emptied=True),
        TableStopped(ORDERS.table, "why"),
        LogAdvanced(place(20)),
        passed(OTHERS),
        part(OTHERS),
    ]
    assert told(ROWS, *messages) == messages


@pytest.mark.parametrize(
    ("kinds", "fit"),
    [
        ((TEXT, TEXT, TEXT), True),
        ((TEXT, Text("latin1"), Json()), True),
        ((TEXT, TEXT), False),
        ((TEXT, TEXT, TEXT, TEXT), False),
        ((Integer(8, unsigned=False), TEXT, TEXT), False),
        ((TEXT, Json(), TEXT), False),
    ],
)
def test_only_a_table_of_three_texts_is_one(kinds: tuple[ColumnType, ...], fit: bool) -> None:
    wrong = why_unreadable(schema_of(*kinds))
    assert (wrong is None) == fit
    assert wrong is None or wrong.startswith(
        "shop.signals hasn't three columns of text (id, type, data), but c0"
    )


def test_of_a_table_that_has_become_another_nothing_is_taken() -> None:
    altered = changes(schema_of(TEXT, TEXT), (ImageKind.INSERT, "s1", "pause-snapshot"))  # type: ignore[arg-type]
    assert told(ROWS, passed(altered)) == [passed()]


def test_why_its_rows_are_not_read_is_known_until_they_are() -> None:
    problems = []
    rows = ROWS
    for message in (
        SchemasVerified((SIGNALS,)),
        SchemasVerified((schema_of(TEXT, TEXT),)),
        SchemasVerified((ORDERS,)),
        passed(),
        SchemasVerified((SIGNALS,)),
        TableStopped(ORDERS.table, "why"),
        TableStopped(SIGNALS.table, "no schema is proven"),
    ):
        rows, _ = divert_signals(rows, message)
        problems.append(rows.problem)
    unreadable = why_unreadable(schema_of(TEXT, TEXT))
    assert problems == [None, *3 * [unreadable], None, None, "no schema is proven"]
