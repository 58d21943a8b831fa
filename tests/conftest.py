"""Fixtures for all tests, and the rule that a test leaves nothing running."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from inspect import isasyncgenfunction, iscoroutinefunction
from pathlib import Path

import pytest
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
    mysql,
    mysql56,
    mysql56_factory,
    mysql_factory,
    parts,
)
from tests.servers.prometheus import prometheus
from tests.servers.s3 import s3, s3_server
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
    "mysql",
    "mysql56",
    "mysql56_factory",
    "mysql_factory",
    "open_shop",
    "parts",
    "prometheus",
    "s3",
    "s3_server",
    "schema_registry",
    "shared_spark",
    "small_ranges",
    "spark",
    "spark_cluster",
    "spark_settings",
]

# The time of an example says more about other work on the machine than about the code. `make test` tries the same
# examples each time, so that a failure comes from the change. `make test-full` looks further.
settings.register_profile("same", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("further", deadline=None, print_blob=True)
settings.load_profile("same")


# With several processes these come first, the longest before the others, so that no long one runs last and alone. Then
# come the tests in these folders.
_LONGEST = (
    "chaos/test_chaos.py",
    "histories/test_histories.py",
    "integration/service/test_demo.py",
    "grafana/test_queries.py",
    "simulation/test_simulation.py",
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

# These borrow their process's Spark (`tests.servers.spark`). All of them run on one process, and before all others: it
# starts once, and what it has loaded and compiled for one of them serves the next.
_ON_SPARK = (
    "integration/lake/test_verification.py",
    "integration/lake/test_lake.py",
    "integration/lake/test_table_troubles.py",
    "integration/lake/test_live_view.py",
    "integration/lake/test_names.py",
    "integration/lake/test_read_your_writes.py",
    "integration/lake/test_live_view_text.py",
    "integration/lake/test_placed_files.py",
    "integration/lake/test_maintenance.py",
    "integration/lake/test_lake_schemas.py",
    "integration/lake/test_spark_authentication.py",
    "integration/lake/test_stall_detector.py",
    "integration/kafka/test_foreign_readers.py",
    "integration/spark/test_data_source.py",
    "integration/spark/test_spark_page.py",
    "pipeline/lake/test_parquet_files.py",
)
_HERE = Path(__file__).parent


class _Distribution(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """Each file on one process, and the files that borrow a Spark on the same one."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "spark" if file.removeprefix(f"{_HERE.name}/") in _ON_SPARK else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Distribute files as `--dist=loadfile` does, but for those on Spark."""
    return _Distribution(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files whose tests take longest before the others, each in the order that it has."""
    order = {place: number for number, place in enumerate((*_ON_SPARK, *_LONGEST, *_LONG))}

    def turn(item: pytest.Item) -> int:
        path = item.path.relative_to(_HERE)
        return order.get(str(path), order.get(path.parts[0], len(order)))

    borrow = {str(each.path.relative_to(_HERE)) for each in items if "spark" in _fixtures(each)}
    if unknown := sorted(borrow - set(_ON_SPARK)):
        raise pytest.UsageError(f"{', '.join(unknown)} borrow Spark: name them in _ON_SPARK of {__file__}")
    items.sort(key=turn)


def _fixtures(item: pytest.Item) -> list[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else []


# Both come before a test's own fixtures and so end after them. Fixtures of a wider scope come earlier still:
# a server that is started for the session is none of the test's.


@pytest.fixture(autouse=True)
def _no_process_left_behind() -> Iterator[None]:
    before = _children()
    yield
    left = {pid: _command(pid) for pid in _children() - before}
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
    found: set[int] = set()
    for children in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # the thread has ended; children that it left have another parent
            found.update(map(int, children.read_text().split()))
    return found


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
