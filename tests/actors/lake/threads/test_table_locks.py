"""A table's lock keeps its other threads out, and no other table's."""

from concurrent.futures import ThreadPoolExecutor

from actors.lake.threads.table_locks import TableLocks
from pipeline.schema.table_schema import TableId

ORDERS, ITEMS = TableId("shop", "orders"), TableId("shop", "items")


def test_a_table_is_locked_for_other_threads_and_another_is_not() -> None:
    locks = TableLocks()

    def taken(table: TableId) -> bool:
        if came := locks(table).acquire(blocking=False):
            locks(table).release()
        return came

    with ThreadPoolExecutor(1) as other:
        with locks(ORDERS), locks(ORDERS):
            assert not other.submit(taken, ORDERS).result()
            assert other.submit(taken, ITEMS).result()
        assert other.submit(taken, ORDERS).result()
