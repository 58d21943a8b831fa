"""Fixtures for all tests, and the rule that a test leaves nothing running."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import cache
from inspect import isasyncgenfunction, iscoroutinefunction
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

import actors  # noqa: F401 - it says how numba keeps machine code, and has to before numba is imported
from actors.runtime import measuring
from tests.servers.gate import hold
from tests.servers.kafka import kafka
from tests.servers.mysql import (
    database,
    database56,
    either,
    module_mysql_factory,
    mysql,
    mysql56,
    mysql56_factory,
    mysql_factory,
    mysql_lender,
    own_mysql,
    parts,
)
from tests.servers.mysql_lender import Lender
from tests.servers.prometheus import prometheus
from tests.servers.s3 import s3, s3_lake, s3_server
from tests.servers.schema_registry import schema_registry
from tests.servers.service import small_ranges
from tests.servers.shop import open_shop
from tests.servers.spark import shared_spark, spark, spark_settings
from tests.servers.spark_cluster import spark_cluster

__all__ = [
    "database",
    "database56",
    "either",
    "hold",
    "kafka",
    "module_mysql_factory",
    "mysql",
    "mysql56",
    "mysql56_factory",
    "mysql_factory",
    "mysql_lender",
    "open_shop",
    "own_mysql",
    "parts",
    "prometheus",
    "s3",
    "s3_lake",
    "s3_server",
    "schema_registry",
    "shared_spark",
    "small_ranges",
    "spark",
    "spark_cluster",
    "spark_settings",
]

# The time of an example says more about other work on the machine than about the code. `make test` tries the same
# examples each time, so that a failure comes from the change. `make test-full` looks further, and at more of them.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True, max_examples=50)
settings.register_profile("further", deadline=None, print_blob=True, max_examples=200)
settings.load_profile("same")


# Else rich prints every local of each frame: a second or two of processor time for an exception that is logged.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback


# With several processes these come first, after the files on Spark, the longest before the others, so that no long one
# runs last and alone. Then come the tests in these folders.
_LONGEST = (
    "chaos/test_chaos.py",
    "chaos/test_soak.py",
    "histories/test_histories.py",
    "integration/service/test_demo.py",
    "grafana/test_queries.py",
    "simulation/test_simulation.py",
    "simulation/test_small_model.py",
    "integration/lake/test_verify_command.py",
    "integration/lake/test_spark_sink.py",
    "integration/kafka/test_both_sinks.py",
    "integration/service/test_conformance.py",
    "fuzz/test_bad_bytes.py",
    "integration/service/test_snapshot.py",
    "chaos/test_kill.py",
    "integration/kafka/test_lost_markers.py",
    "integration/service/test_consistent.py",
)
_LONG = ("chaos", "deploy", "integration")

_HERE = Path(__file__).parent
_SPARK = "spark"


@cache
def _borrows_spark(file: Path) -> bool:
    """Whether tests in this file borrow their process's Spark (`tests.servers.spark`), and none ends it."""
    text = file.read_text(encoding="utf-8")
    return "spark: Spark" in text and "spark_settings" not in text


class _Distribution(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Each file on one process, and all files that borrow a Spark on the same one.

    So it starts once, and what it has loaded and compiled for one file serves the next.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return _SPARK if _borrows_spark(_HERE.parent / file) else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Distribute files as `--dist=loadfile` does, but for those on Spark."""
    return _Distribution(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files whose tests take longest before the others, each in the order that it has."""
    order = {place: number for number, place in enumerate((*_LONGEST, *_LONG))}

    def turn(item: pytest.Item) -> int:
        if _borrows_spark(item.path):
            return -1
        path = item.path.relative_to(_HERE)
        return order.get(str(path), order.get(path.parts[0], len(order)))

    items.sort(key=turn)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Have the collector of garbage leave out all modules and tests, which stay to the end.

    Else it looks through half a million objects each time, and through more and more of them while they come.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# Both come before a test's own fixtures and so end after them. Fixtures of a wider scope come earlier still:
# a server that is started for the session is none of the test's.


@pytest.fixture(autouse=True)
def _no_process_left_behind(mysql_lender: Lender) -> Iterator[None]:
    before = _children()
    yield
    left = {pid: _command(pid) for pid in _children() - before - mysql_lender.pids()}
    assert not left, f"the test left processes behind: {left}"


@pytest.fixture(autouse=True)
def _no_task_left_behind(request: pytest.FixtureRequest) -> None:
    """Only if something of the test is async: an event loop for each of the others takes its time."""
    fixtures = request.session._fixturemanager
    defined = (fixtures.getfixturedefs(name, request.node) or () for name in request.fixturenames)
    functions = [request.function, *(each.func for several in defined for each in several)]
    if any(iscoroutinefunction(each) or isasyncgenfunction(each) for each in functions):
        request.getfixturevalue("_tasks_end")


@pytest.fixture
async def _tasks_end() -> AsyncIterator[None]:
    yield
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"the test left tasks behind: {left}"


@pytest.fixture(autouse=True)
def _nothing_fails_to_measure(request: pytest.FixtureRequest) -> Iterator[None]:
    """What only measures fails no actor, so it has to fail the test; who breaks it on purpose is marked."""
    before = measuring.failure_count()
    yield
    if request.node.get_closest_marker("measuring_fails") is None:
        assert measuring.failure_count() == before, "measuring failed: the log says where"


def _children() -> set[int]:
    """Each test looks twice, and a process has dozens of threads: so each look takes as little time as it can."""
    found: set[int] = set()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # there are none
        return found
    for thread in os.scandir("/proc/self/task"):
        with suppress(FileNotFoundError):  # the thread has ended; children that it left have another parent
            file = os.open(f"{thread.path}/children", os.O_RDONLY)
            try:
                while part := os.read(file, 4096):
                    found.update(map(int, part.split()))
            finally:
                os.close(file)
    return found


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
