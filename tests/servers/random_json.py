"""Random JSON documents as SQL literals, with all the kinds of values that MySQL's binary form knows."""

import json
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

_TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# Where the form changes from one width to the next.
_EDGES: Final = tuple(
    edge + step for bits in (15, 16, 31, 32, 63) for edge in (1 << bits, -(1 << bits)) for step in (-1, 0)
)
_NUMBERS: Final = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from(_EDGES),
    st.floats(allow_nan=False, allow_infinity=False),
)
_LEAVES: Final = st.one_of(
    st.none(), st.booleans(), _NUMBERS, _TEXTS, st.sampled_from(["x" * 127, "y" * 128])
)
_DOCUMENTS: Final[st.SearchStrategy[Any]] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(_TEXTS, inner, max_size=5)),
    max_leaves=12,
)

# Values that SQL has types for and JSON has not, and texts that make a document large.
_OPAQUE: Final = (
    "CAST(-12.3400 AS DECIMAL(10,4))", "CAST(REPEAT('9', 65) AS DECIMAL(65,0))", "CAST('2024-02-29' AS DATE)",
    "CAST('0000-00-00' AS DATE)", "CAST('-838:59:58.9' AS TIME(6))",
    "CAST('2024-02-29 23:59:59.000001' AS DATETIME(6))", "b'101'", "x'00FF'",
    "CAST(REPEAT('x', 58) AS BINARY)", "CAST('' AS BINARY)", "CAST(2024 AS YEAR)",
    "REPEAT('é', 9000)", "REPEAT('x', 70000)",
)  # fmt: skip


def literals(quoted: Callable[[str], str]) -> st.SearchStrategy[str]:
    """SQL expressions of documents; `quoted` makes a literal of a text."""
    written = _DOCUMENTS.map(lambda document: quoted(json.dumps(document, ensure_ascii=False)))
    opaque = st.lists(st.sampled_from(_OPAQUE), max_size=4).map(
        lambda values: f"JSON_ARRAY({', '.join(values)})"
    )
    return st.one_of(written, opaque)
