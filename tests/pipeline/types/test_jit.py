"""What compiled loops may rely on."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from pipeline.binlog.rows import cells
from pipeline.binlog.rows.json import diff_kernels, document_kernels, doubles, opaque_values, text_kernels
from pipeline.types import byte_kernels, value_kernels
from pipeline.types.jit import compiled, inlined


@compiled("int64(int64)")
def _doubled(number: int) -> int:
    return number + number


def test_a_compiled_function_gives_what_the_plain_one_does() -> None:
    assert _doubled(21) == 42
    with pytest.raises(TypeError, match="No matching definition"):
        _doubled("a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "loop",
    [
        cells.locate_cells,
        byte_kernels.copy_words,
        value_kernels.join_values,
        text_kernels.quote_json,
        opaque_values.opaque,
        document_kernels.texts,
        diff_kernels.apply,
        doubles._fill,
    ],
    ids=lambda loop: loop.__name__,
)
def test_a_compiled_loop_counts_no_references_and_keeps_its_code(loop: object) -> None:
    options = loop.targetoptions  # type: ignore[attr-defined]
    assert (options["nogil"], options["_nrt"]) == (True, False)
    assert loop._cache.cache_path  # type: ignore[attr-defined]


@inlined
def _twice(value: int) -> int:
    return 2 * value


@compiled("int64(int64)")
def _quadrupled(value: int) -> int:
    return _twice(_twice(value))


def test_a_part_is_compiled_into_what_calls_it() -> None:
    assert _quadrupled(3) == 12


TENFOLD = """
from pipeline.types.jit import compiled

@compiled("int64(int64)")
def tenfold(number):
    return number * 10
"""
RAISED = """
from pipeline.types.jit import compiled

@compiled("int64(int32)")
def raised(number):
    return tenfold(number) + 1
"""


def imported(file: Path, source: str, **names: object) -> dict[str, Any]:
    """What a module of this text has, each time as a new process would import it."""
    file.write_text(source)
    module = {"__name__": file.stem, "__file__": str(file), **names}
    exec(compile(source, file, "exec"), module)
    return module


@pytest.fixture
def _on_disk(tmp_path: Path) -> None:
    """Code that an earlier import has compiled."""
    assert imported(tmp_path / "tenfold.py", TENFOLD)["tenfold"].nopython_signatures


@pytest.fixture
def tenfold(tmp_path: Path, _on_disk: None) -> Any:
    """A function whose code is on disk."""
    return imported(tmp_path / "tenfold.py", TENFOLD)["tenfold"]


def test_code_on_disk_is_loaded_with_the_first_call(tenfold: Any) -> None:
    assert not tenfold.nopython_signatures
    assert tenfold(2) == 20
    assert tenfold.nopython_signatures and sum(tenfold.stats.cache_hits.values()) == 1


def test_arguments_of_the_first_call_are_checked(tenfold: Any) -> None:
    with pytest.raises(TypeError, match="No matching definition"):
        tenfold("a")


def test_the_first_calls_may_come_at_once(tenfold: Callable[[int], int]) -> None:
    together = Barrier(8)

    def called(number: int) -> int:
        together.wait()
        return tenfold(number)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(called, range(8))) == list(range(0, 80, 10))


def test_what_calls_code_on_disk_can_be_compiled(tmp_path: Path, tenfold: Any) -> None:
    assert imported(tmp_path / "raised.py", RAISED, tenfold=tenfold)["raised"](np.int32(2)) == 21
    assert [str(signature) for signature in tenfold.nopython_signatures] == ["(int64,) -> int64"]


@pytest.mark.usefixtures("_on_disk")
def test_code_that_is_gone_is_compiled_before_any_call(tmp_path: Path) -> None:
    for code in tmp_path.rglob("*.nbc"):
        code.unlink()
    assert imported(tmp_path / "tenfold.py", TENFOLD)["tenfold"].nopython_signatures
