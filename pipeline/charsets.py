"""MySQL's character sets into UTF-8.

Source: MySQL 9.7 Reference Manual, chapter "Character Sets, Collations, Unicode".
"""

from typing import Final

import pyarrow as pa

from pipeline.errors import Definite


class TextError(Definite):
    """Text that isn't of its column's character set, or of one that Tidemark has no exact table of."""


# Their bytes are UTF-8 already.
_UTF_8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8", "ascii"})


def to_strings(values: pa.Array, charset: str, column: str) -> pa.Array:
    """pa.binary() values in MySQL's `charset` as pa.string(). Raises TextError, which names `column`."""
    if charset not in _UTF_8:
        raise TextError(f"{column}: the character set {charset} isn't supported")
    text = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise TextError(f"{column}: a value isn't {charset}: {error}") from error
    return text


def to_text(value: bytes, charset: str) -> str:
    """One value in MySQL's `charset`. Raises TextError."""
    return str(to_strings(pa.array([value], pa.binary()), charset, "a label")[0].as_py())
