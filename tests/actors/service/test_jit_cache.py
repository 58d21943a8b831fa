"""Machine code is compiled again when any of its sources has changed, also in another file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import actors
from actors.service import jit_cache
from pipeline.binlog.rows import row_events

CALLED = """
from numba import njit

@njit("int64(int64)", cache=True)
def raised(number):
    return number + {}
"""
CALLING = """
from numba import njit
from pipeline.called import (
    raised,
)

@njit("int64(int64)", cache=True)
def tenfold(number):
    return raised(number) * 10
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    """A product of its own: two kernels of which one calls the other, and the package that looks after them."""
    shutil.copytree(
        Path(actors.__file__).parent, tmp_path / "actors", ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "pipeline").mkdir()
    (tmp_path / "pipeline" / "calling.py").write_text(CALLING)
    return tmp_path


def run(product: Path) -> str:
    program = (
        "import actors; from pipeline.calling import tenfold; "
        "print(tenfold(1), sum(tenfold.stats.cache_hits.values()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=product, text=True, capture_output=True, check=True
    )
    return done.stdout.strip()


def test_a_kernel_in_another_file_that_changes_changes_its_callers(product: Path) -> None:
    (product / "pipeline" / "called.py").write_text(CALLED.format(1))
    assert run(product) == "20 0"
    assert run(product) == "20 1"  # from the cache
    (product / "pipeline" / "called.py").write_text(CALLED.format(2))
    assert run(product) == "30 0"


def test_what_a_module_imports_is_followed_to_the_end() -> None:
    reached = {file.name for file in jit_cache._reachable(Path(row_events.__file__))}
    assert {
        "row_events.py",
        "cells.py",
        "value_kernels.py",
        "table_map.py",
        "table_schema.py",
        "errors.py",
    } <= reached
    assert "step.py" not in reached


def test_what_was_kept_is_used_where_it_can_only_be_read(
    product: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an image, whose root is only read. (Who runs this may be root, whom no mode keeps from writing.)"""
    kept = product / "machine-code"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(kept))
    monkeypatch.setenv("HOME", "/nowhere")
    (product / "pipeline" / "called.py").write_text(CALLED.format(1))
    assert run(product) == "20 0"
    program = (
        "import tempfile; tempfile.TemporaryFile = lambda **_: open('/nowhere/at/all'); "
        "import actors; from pipeline.calling import tenfold; "
        "print(tenfold(1), sum(tenfold.stats.cache_hits.values()))"
    )
    command = [sys.executable, "-B", "-c", program]
    done = subprocess.run(command, cwd=product, text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "20 1"
    shutil.rmtree(kept)
    gone = subprocess.run(command, cwd=product, text=True, capture_output=True, check=False)
    assert "no locator available" in gone.stderr
