"""Watermarks as rows of the signal table: all that Tidemark ever writes to a source, and only if the settings say so.

A row is inserted in a separate transaction, on the connection that reads the chunk: one before the SELECT and one after
it. `pipeline.snapshot.watermark` says why that's enough.

A row's id is never used twice, not even when a chunk is read again. A window may close only at the row that was written
after the SELECT of its rows. `data` names the chunk or the table of the row. A value that its column would cut off is
refused, with any sql_mode of the server.

Source: Debezium 3.6's documentation, "Watermarking", for the table and the types of its rows; MySQL 9.7 Reference
Manual, "SET TRANSACTION Statement", for the one transaction of a session that may write.
"""

import uuid
from typing import Final

from actors.source.connection import Source
from pipeline.errors import Definite
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.watermark import CLOSE_MARKER, OPEN_MARKER, MarkerRow
from pipeline.source.statement import Statement, quoted_table

_WRITE: Final = Statement("SET TRANSACTION READ WRITE")
_INSERT: Final = "INSERT /*+ SET_VAR(sql_mode = 'STRICT_ALL_TABLES') */ INTO {table} VALUES (%s, %s, %s)"

# As long as any name of a chunk: that of a snapshot, a database and a table, and a number.
_LONGEST_DATA: Final = 300


class SignalTable:
    """The table, and the writing of watermarks into it."""

    def __init__(self, table: TableId) -> None:
        self.id = table
        self._insert = _INSERT.format(table=quoted_table(table))

    async def open(self, source: Source, what: str) -> None:
        """Write the low watermark: when this returns, all that had been in the log before can be seen."""
        await self._write(source, OPEN_MARKER, what)

    async def close(self, source: Source, what: str) -> MarkerRow:
        """Write the high watermark: all that could be seen before is before it in the log."""
        return await self._write(source, CLOSE_MARKER, what)

    async def refusal(self, source: Source) -> str | None:
        """Why no watermark can be written; None if one can. It's tried, and taken back."""
        try:
            await source.ask(Statement("START TRANSACTION READ WRITE"))
            await source.ask(self._row(str(uuid.uuid4()), CLOSE_MARKER, "x" * _LONGEST_DATA))
        except Definite as refusal:
            return str(refusal)
        finally:
            await source.ask(Statement("ROLLBACK"))
        return None

    async def _write(self, source: Source, kind: str, data: str) -> MarkerRow:
        row = MarkerRow(str(uuid.uuid4()))
        await source.ask(_WRITE)
        await source.ask(self._row(row.id, kind, data))
        return row

    def _row(self, id_: str, kind: str, data: str) -> Statement:
        return Statement(self._insert, (id_, kind, data))
