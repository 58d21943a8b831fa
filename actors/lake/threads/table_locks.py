"""Locks for what mustn't happen to a table at the same time, in several threads."""

from threading import Lock, RLock

from pipeline.schema.table_schema import TableId


class TableLocks:
    """A lock for each table. The thread that holds it may take it again."""

    def __init__(self) -> None:
        self._making = Lock()
        self._locks: dict[TableId, RLock] = {}

    def __call__(self, table: TableId) -> RLock:
        """Returns the table's lock."""
        with self._making:
            return self._locks.setdefault(table, RLock())
