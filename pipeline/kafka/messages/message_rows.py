"""Rows that become messages together: a table's parts of several segments, in one Kafka transaction.

A part has costs beside its rows, for the messages and for the broker. So many small segments share these costs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pipeline.kafka.debezium.changed_rows import message_bytes
from pipeline.kafka.debezium.transactions import TransactionBlocks
from pipeline.kafka.rows_in_step import ROWS_CONVERTED_TOGETHER, TOGETHER_BYTES
from pipeline.schema.table_schema import TableId, TableSchema

# No more bytes are joined, since a column of texts has less than 2 GiB. One row may have more.
MOST_JOINED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows of a table that become messages, and their `transaction` blocks if the settings want them."""

    schema: TableSchema
    rows: pa.RecordBatch
    blocks: TransactionBlocks | None = None


# Rows of tables that may share a topic. Their messages are put into the order of the stream.
Gathered = tuple[MessageRows, ...]


class GatheredRows:
    """Holds rows, a table's in their order, until they are ROWS_CONVERTED_TOGETHER or TOGETHER_BYTES."""

    def __init__(self) -> None:
        self._parts: dict[str, list[MessageRows]] = {}
        self._rows = 0
        self._bytes = 0

    def add(self, sharing: str, parts: Iterable[MessageRows]) -> list[Gathered]:
        """Takes rows of tables that may share a topic, all through a place. Returns those to send now: all if they are
        many."""
        held = self._parts.setdefault(sharing, [])
        for part in parts:
            held.append(part)
            self._rows += part.rows.num_rows
            self._bytes += message_bytes(part.rows)
        return self.all() if self._rows >= ROWS_CONVERTED_TOGETHER or self._bytes >= TOGETHER_BYTES else []

    def all(self) -> list[Gathered]:
        """Returns all rows, and holds none any more."""
        gathered = [_joined_alike(parts) for parts in self._parts.values()]
        self._parts, self._rows, self._bytes = {}, 0, 0
        return gathered


def _joined_alike(parts: Iterable[MessageRows]) -> Gathered:
    """Returns each table's parts as one, or as several where their form changes or they have too many bytes."""
    of_tables: dict[TableId, list[list[MessageRows]]] = {}
    sizes: dict[TableId, int] = {}
    for part in parts:
        table, size = part.schema.table, part.rows.nbytes
        of_table = of_tables.setdefault(table, [])
        joined = sizes.get(table, 0) + size
        if of_table and _alike(of_table[-1][0], part) and joined <= MOST_JOINED:
            of_table[-1].append(part)
            sizes[table] = joined
        else:
            of_table.append([part])
            sizes[table] = size
    return tuple(_joined(alike) for of_table in of_tables.values() for alike in of_table)


def _alike(one: MessageRows, other: MessageRows) -> bool:
    return one.schema == other.schema and bool(one.rows.schema.equals(other.rows.schema))


def _joined(parts: Sequence[MessageRows]) -> MessageRows:
    if len(parts) == 1:
        return parts[0]
    blocks = [part.blocks for part in parts if part.blocks is not None]
    rows = pa.concat_batches([part.rows for part in parts])
    return MessageRows(parts[0].schema, rows, TransactionBlocks.joined(blocks) if blocks else None)
