"""The size of a message: the bytes of its rows.

A slice of many small transactions and one row of 64 MiB are both one message. So the edges of the flow with rows are
bounded in bytes too (`pipeline.messages.topology`).

Row images say what they take (`TableImages.bytes`): counting it costs 40 µs for 11 columns, for each message that they
pass in. A chunk's rows have their buffers for themselves. So their size is that of complete buffers, which Arrow knows
at once.
"""

from collections.abc import Iterable

import pyarrow as pa

from pipeline.messages.binlog import TransactionPartRead, TransactionsRead
from pipeline.messages.changes import ChangesVerified, TransactionPartVerified
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart
from pipeline.messages.row_images import TableChanges, TableImages, TableUnreadable


def weight(message: object) -> int:
    """The bytes of the message's rows out of the log, and of those on their way to the journal; 0 for all others."""
    match message:
        case TransactionsRead(tables=read) | TransactionPartRead(tables=read):
            return _of_tables(read)
        case ChangesVerified(tables=verified) | TransactionPartVerified(tables=verified):
            return _of_tables(verified)
        case Append(parts=parts) | AppendRows(parts=parts):
            return sum(map(of_part, parts))
        case _:
            return 0


def of_part(part: ChangePart | ChunkPart) -> int:
    """Returns the bytes of its rows, and of the description of each."""
    if isinstance(part, ChangePart):
        return _of_tables([part.changes])
    return bytes_held(part.rows) + (0 if part.gone is None else bytes_held(part.gone))


def bytes_held(rows: pa.RecordBatch) -> int:
    """The bytes of the buffers that these rows keep in memory."""
    return int(rows.get_total_buffer_size())


def _of_tables(tables: Iterable[TableImages | TableUnreadable | TableChanges]) -> int:
    whole = (table for table in tables if not isinstance(table, TableUnreadable))
    return sum(table.bytes for table in whole)
