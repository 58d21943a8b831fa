"""Rows that become messages together: a table's parts of several segments, in one Kafka transaction.

A part has costs beside its rows, for the messages and for the broker. So many small segments share these costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from actors.kafka.segment_rows import TOGETHER, TOGETHER_BYTES
from pipeline.kafka.debezium.transactions import TransactionBlocks
from pipeline.schema.table_schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows of a table that become messages, and their `transaction` blocks if the settings want them."""

    schema: TableSchema
    rows: pa.RecordBatch
    blocks: TransactionBlocks | None = None


class GatheredRows:
    """Holds rows until they are many, a table's in their order. TOGETHER and TOGETHER_BYTES bound all of them."""

    def __init__(self) -> None:
        self._parts: dict[TableId, list[MessageRows]] = {}
        self._rows = 0
        self._bytes = 0

    def add(self, part: MessageRows) -> list[MessageRows]:
        """Takes rows, and returns those to send now: earlier rows of the table, or all if they are many."""
        table = part.schema.table
        held = self._parts.get(table, [])
        due = self.all() if held and not _alike(held[0], part) else []
        self._parts.setdefault(table, []).append(part)
        self._rows += part.rows.num_rows
        self._bytes += part.rows.nbytes
        if self._rows >= TOGETHER or self._bytes >= TOGETHER_BYTES:
            due += self.all()
        return due

    def all(self) -> list[MessageRows]:
        """Returns all rows, and holds none any more."""
        gathered = [_joined(parts) for parts in self._parts.values()]
        self._parts, self._rows, self._bytes = {}, 0, 0
        return gathered


def _alike(one: MessageRows, other: MessageRows) -> bool:
    return one.schema == other.schema and bool(one.rows.schema.equals(other.rows.schema))


def _joined(parts: Sequence[MessageRows]) -> MessageRows:
    if len(parts) == 1:
        return parts[0]
    blocks = [part.blocks for part in parts if part.blocks is not None]
    rows = pa.concat_batches([part.rows for part in parts])
    return MessageRows(parts[0].schema, rows, TransactionBlocks.joined(blocks) if blocks else None)
