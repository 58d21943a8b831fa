"""What compiled loops may rely on."""

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
        cells.walk_cells,
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
