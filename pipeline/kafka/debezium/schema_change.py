"""Debezium's messages of its schema-change topic: one for each statement on the schema of captured tables.

`tableChanges` says which table a statement took away. What a table looks like after a statement is not there. The
server says that only later, when it may have been altered again. The text alone proves it for few statements.

Source: Debezium 3.6, "Schema change topic"; the messages of a real one in `tests/integration/kafka`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from pipeline.kafka.debezium.connect_schema import (
    CONNECT_STRING,
    INT,
    LONG,
    OPTIONAL_TEXT,
    Schema,
    field,
    struct,
)
from pipeline.kafka.debezium.message_format import (
    Block,
    BlockList,
    FieldValue,
    MessageFormat,
    MessagePairs,
    told_pairs,
)
from pipeline.kafka.debezium.source_block import TOLD_SCHEMAS, SourceBlock
from pipeline.messages.journal import StatementPart
from pipeline.schema.ddl.schema_statements import SchemaObject
from pipeline.schema.table_schema import TableId

_OPTIONAL_INT: Final[Schema] = {"type": "int32", "optional": True}
_OPTIONAL_FLAG: Final[Schema] = {"type": "boolean", "optional": True}
_OPTIONAL_TEXTS: Final[Schema] = {"type": "array", "items": CONNECT_STRING, "optional": True}
_COLUMN: Final = struct(
    [
        field(CONNECT_STRING, "name"),
        field(INT, "jdbcType"),
        field(_OPTIONAL_INT, "nativeType"),
        field(CONNECT_STRING, "typeName"),
        field(OPTIONAL_TEXT, "typeExpression"),
        field(OPTIONAL_TEXT, "charsetName"),
        field(_OPTIONAL_INT, "length"),
        field(_OPTIONAL_INT, "scale"),
        field(INT, "position"),
        field(_OPTIONAL_FLAG, "optional"),
        field(_OPTIONAL_FLAG, "autoIncremented"),
        field(_OPTIONAL_FLAG, "generated"),
        field(OPTIONAL_TEXT, "comment"),
        field(OPTIONAL_TEXT, "defaultValueExpression"),
        field(_OPTIONAL_TEXTS, "enumValues"),
    ],
    name="io.debezium.connector.schema.Column",
    version=1,
)
_TABLE: Final = struct(
    [
        field(OPTIONAL_TEXT, "defaultCharsetName"),
        field(_OPTIONAL_TEXTS, "primaryKeyColumnNames"),
        field({"type": "array", "items": _COLUMN, "optional": False}, "columns"),
        field(OPTIONAL_TEXT, "comment"),
    ],
    optional=True,
    name="io.debezium.connector.schema.Table",
    version=1,
)
_CHANGE: Final = struct(
    [field(CONNECT_STRING, "type"), field(CONNECT_STRING, "id"), field(_TABLE, "table")],
    name="io.debezium.connector.schema.Change",
    version=1,
)
_KEY_SCHEMA: Final = struct(
    [field(CONNECT_STRING, "databaseName")], name="io.debezium.connector.mysql.SchemaChangeKey", version=1
)
_VALUE_SCHEMA: Final = struct(
    [
        field(TOLD_SCHEMAS["source"], "source"),
        field(LONG, "ts_ms"),
        field(OPTIONAL_TEXT, "databaseName"),
        field(OPTIONAL_TEXT, "schemaName"),
        field(OPTIONAL_TEXT, "ddl"),
        field({"type": "array", "items": _CHANGE, "optional": False}, "tableChanges"),
    ],
    name="io.debezium.connector.mysql.SchemaChangeValue",
    version=1,
)


def schema_change_messages(
    parts: Sequence[StatementPart], prefix: str, version: str, processed_us: int, of: MessageFormat
) -> MessagePairs:
    """Returns the messages of these statements, made at `processed_us` (µs since the epoch), with this `prefix`."""
    databases = _texts(part.statement.database for part in parts)
    value: dict[str, FieldValue] = {
        "source": Block(_source(parts, prefix, version)),
        "ts_ms": processed_us // 1000,
        "databaseName": databases,
        "schemaName": None,
        "ddl": _texts(part.statement.text for part in parts),
        "tableChanges": _table_changes(parts),
    }
    schemas = (_KEY_SCHEMA, _VALUE_SCHEMA)
    return told_pairs(of, Block({"databaseName": databases}), Block(value), schemas, len(parts))


def _source(parts: Sequence[StatementPart], prefix: str, version: str) -> dict[str, FieldValue]:
    count = len(parts)
    block = SourceBlock(
        "false",
        _numbers(
            part.committed // 1000 * 1000 for part in parts
        ),  # Debezium has the millisecond of a statement
        _numbers(part.server for part in parts),
        _texts(part.gtid for part in parts),
        _texts(part.at.file if part.at else "" for part in parts),
        _numbers(part.at.offset if part.at else 0 for part in parts),
        pa.array(np.zeros(count, np.int32)),
        pa.nulls(count, pa.int64()),
        pa.nulls(count, pa.string()),
    )
    fields = block.fields(prefix, version, TableId("", ""))
    named = {"db": _texts(part.statement.database for part in parts), "table": _texts(map(_named, parts))}
    return {**fields, **named}


def _named(part: StatementPart) -> str | None:
    """Returns Debezium's `source.table`: the tables that it finds changed, null for a statement without tables."""
    match part.statement.what:
        case SchemaObject.DATABASE:
            return None
        case SchemaObject.INDEX | SchemaObject.DATABASE_OPTIONS:
            return ""
        case SchemaObject.TABLE | SchemaObject.DROPPED_TABLE:
            return ",".join(part.statement.named)
        case _:
            assert_never(part.statement.what)


def _table_changes(parts: Sequence[StatementPart]) -> BlockList:
    dropped = [part.statement.what is SchemaObject.DROPPED_TABLE for part in parts]
    tables = [part.statement.tables[0] for part, is_one in zip(parts, dropped, strict=True) if is_one]
    items = Block({"type": "DROP", "id": _texts(map(_quoted, tables)), "table": None})
    ends = np.concatenate([[0], np.cumsum(dropped)]).astype(np.int32)
    return BlockList(items, ends, np.ones(len(parts), np.bool_))


def _quoted(table: TableId) -> str:
    """Returns a table's name in the form of Debezium's `tableChanges`."""
    return ".".join(f'"{name}"' for name in (table.database, table.name))


def _texts(texts: Iterable[str | None]) -> pa.Array:
    return pa.array(list(texts), pa.string())


def _numbers(numbers: Iterable[int]) -> pa.Array:
    return pa.array(list(numbers), pa.int64())
