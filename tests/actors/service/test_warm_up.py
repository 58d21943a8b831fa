"""A start that has to compile says so, and one that needn't doesn't."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import numba
import pytest

from actors.service import warm_up


def test_what_has_to_be_compiled_is_told_once_and_that_it_is_done() -> None:
    told: list[str] = []
    with warm_up.log_compilation(told.append):
        numba.njit("int64(int64)")(lambda number: number + 1)
        numba.njit("int64(int64)")(lambda number: number + 2)
    assert [line.split()[0] for line in told] == ["compiling", "compiled"]


CACHED = """
import numba
import pytest

@numba.njit("int64(int64)", cache=True)
def next_number(number):
    return number + 1
"""


def test_what_is_in_the_cache_is_not_told(tmp_path: Path) -> None:
    source = tmp_path / "kernels.py"
    source.write_text(CACHED)
    for expected in (2, 0):
        told: list[str] = []
        with warm_up.log_compilation(told.append):
            exec(
                compile(source.read_text(), source, "exec"), {"__name__": "kernels", "__file__": str(source)}
            )
        assert len(told) == expected


@pytest.fixture
def _thawed() -> Iterator[None]:
    gc.unfreeze()
    threshold = gc.get_threshold()
    yield
    gc.freeze()  # as `conftest` has it
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("_thawed")
def test_what_is_loaded_is_looked_at_by_the_collector_no_more() -> None:
    warm_up.import_all()
    assert "actors.service.assembly" in sys.modules
    assert gc.isenabled() and gc.get_freeze_count() > 10_000
    assert gc.get_threshold()[0] == 10_000
