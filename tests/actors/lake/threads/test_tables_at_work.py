"""Whether work beside the batches is at a lake table."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from actors.lake.threads.tables_at_work import TablesAtWork


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


def is_alone(tables: TablesAtWork, path: str) -> bool:
    with tables.without(path) as alone:
        return alone


def test_a_table_is_alone_unless_a_work_is_at_it() -> None:
    tables = TablesAtWork()
    with tables.work(["changes", "mirror"]):
        with tables.work(["mirror"]):
            assert [is_alone(tables, path) for path in ("changes", "mirror", "other")] == [False, False, True]
        assert not is_alone(tables, "mirror")
    assert is_alone(tables, "changes")
    assert is_alone(tables, "mirror")


def test_a_work_that_fails_ends() -> None:
    tables = TablesAtWork()
    with pytest.raises(OSError, match="full"), tables.work(["mirror"]):
        raise OSError("full")
    assert is_alone(tables, "mirror")


def test_a_work_begins_after_the_commit_that_counts_on_none(beside: ThreadPoolExecutor) -> None:
    tables, begun = TablesAtWork(), Event()

    def work() -> None:
        with tables.work(["mirror"]):
            begun.set()

    with tables.without("mirror") as alone:
        assert alone
        working = beside.submit(work)
        # A pause: that it waits can only be seen by waiting.
        assert not begun.wait(0.2)
    working.result()
    assert begun.is_set()
