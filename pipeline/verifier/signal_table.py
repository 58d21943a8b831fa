"""Takes rows of the signal table out of the SchemaVerifier's messages, and attaches them to their transactions.

The table is read from the log like a captured one, with verified columns. Rows inserted into it continue as signals, in
the same message by which their transactions pass. So each takes effect once: with the position that holds it. Those of
a transaction in parts wait for its end. Updates and deletes are ignored, so the table may be emptied. If it's captured
too, its rows also continue as rows. Otherwise no later actor knows of it, unless it was captured before: then they hear
that the configuration leaves it out, and its rows are signals all the same.

A statement may give the table other columns, and it may stop like any table. Then its rows aren't read, and `problem`
says so.
"""

from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    SchemaChanged,
    SchemasVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.signal import SourceSignal
from pipeline.snapshot.snapshot import LEFT_OUT
from pipeline.types.column_types import Json, Text
from pipeline.verifier.state import FromVerifier

# As Debezium's documentation has it.
CREATE_SIGNAL_TABLE: Final = (
    "CREATE TABLE {table} (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048) NULL)"
)


@dataclass(frozen=True, slots=True)
class SignalRows:
    """Which table it is, whether it's captured too, and the signals of a transaction that hasn't ended.

    `problem`: why its rows aren't read; None if they are.
    """

    table: TableId
    captured: bool
    waiting: tuple[SourceSignal, ...] = ()
    problem: str | None = None


def why_unreadable(schema: TableSchema) -> str | None:
    """Why signals can't be read from the table; None if they can."""
    kinds = [type(column.type) for column in schema.columns]
    if len(kinds) == 3 and set(kinds[:2]) == {Text} and kinds[2] in (Text, Json):
        return None
    columns = ", ".join(f"{column.name} {column.type.wire.upper()}" for column in schema.columns)
    return f"{schema.table} hasn't three columns of text (id, type, data), but {columns}"


def divert_signals(rows: SignalRows, message: FromVerifier) -> tuple[SignalRows, FromVerifier | None]:
    """Returns what is sent instead of the message, None for nothing."""
    rows = replace(rows, problem=_problem(rows, message))
    match message:
        case ChangesVerified(tables=tables):
            signals, others = (*rows.waiting, *_signals(rows, tables)), _others(rows, tables)
            restarted = _other_restarts(rows, message.restarted)
            return replace(rows, waiting=()), replace(
                message, tables=others, signals=signals, restarted=restarted
            )
        case TransactionPartVerified(tables=tables):
            waiting = (*rows.waiting, *_signals(rows, tables))
            return replace(rows, waiting=waiting), replace(message, tables=_others(rows, tables))
        case SchemaChanged() if not rows.captured:
            return rows, message.without((rows.table,))
        case SchemasVerified() if not rows.captured:
            return rows, _other_schemas(rows, message)
        case TableStopped(reason=reason) if reason == LEFT_OUT:
            return rows, message
        case MirrorInvalidated(table) | TableStopped(table) if not rows.captured and table == rows.table:
            return rows, None
        case _:
            return rows, message


def _problem(rows: SignalRows, message: FromVerifier) -> str | None:
    match message:
        case SchemasVerified(schemas):
            its_own = (schema for schema in schemas if schema.table == rows.table)
            return next(map(why_unreadable, its_own), rows.problem)
        case TableStopped(table, reason) if table == rows.table and reason != LEFT_OUT:
            return reason
        case _:
            return rows.problem


def _other_schemas(rows: SignalRows, message: SchemasVerified) -> SchemasVerified | None:
    schemas = tuple(schema for schema in message.schemas if schema.table != rows.table)
    return SchemasVerified(schemas, _other_restarts(rows, message.restarted)) if schemas else None


def _others(rows: SignalRows, tables: tuple[TableChanges, ...]) -> tuple[TableChanges, ...]:
    return tables if rows.captured else tuple(t for t in tables if t.schema.table != rows.table)


def _other_restarts(
    rows: SignalRows, restarted: tuple[MirrorInvalidated, ...]
) -> tuple[MirrorInvalidated, ...]:
    return restarted if rows.captured else tuple(each for each in restarted if each.table != rows.table)


def _signals(rows: SignalRows, tables: tuple[TableChanges, ...]) -> list[SourceSignal]:
    return [
        SourceSignal(*row)
        for changes in tables
        if changes.schema.table == rows.table and why_unreadable(changes.schema) is None
        for row in _inserted_rows(changes)
    ]


def _inserted_rows(changes: TableChanges) -> list[tuple[str, str, str]]:
    inserted = pc.equal(changes.images.column("kind"), pa.scalar(int(ImageKind.INSERT), pa.int8()))
    columns = [column.fill_null("").to_pylist() for column in changes.rows.filter(inserted).columns]
    return list(zip(*columns, strict=True))
