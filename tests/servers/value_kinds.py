"""What a column can be, and what others than us say of its values.

A `Kind` is one type of column. For its values it has SQL literals, and three ways to hear of them that have nothing to
do with our decoders: what the server answers to an expression, what mysqlbinlog prints, and what mysql-replication
decodes. The first is read into Python values of the canonical form of docs/types.md, the second into mysqlbinlog's own
form, which for FLOAT has six digits only.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from hypothesis import strategies as st
from pymysql.converters import escape_string

# A value, as the server or mysqlbinlog shows it.
Reader = Callable[[Any], object]
# Whether a value of ours in its canonical form, and mysql-replication's own for the same one, agree.
Agrees = Callable[[Any, Any], bool]


@dataclass(frozen=True)
class Kind:
    """A column's type, and how others show one of its values (`{c}` is the column).

    `edges` are literals of values at which decoders fail, `values` draws others. `told` is the expression for the
    server, and `read` brings its answer into the canonical form. `logged` is the expression to compare with what
    mysqlbinlog prints, and `printed` reads that print as `as_printed` reads the answer to it. `library` is None if
    mysql-replication can't read the type. `attribute` is what follows GENERATED in a definition; `since` the first
    version that has all of it, `before` the first that no longer has; `generable` whether such a column can be a
    generated one.
    """

    definition: str
    edges: tuple[str, ...]
    values: st.SearchStrategy[str]
    told: str
    read: Reader
    logged: str
    as_printed: Reader
    printed: Reader = bytes.decode
    since: tuple[int, ...] = (5, 6)
    before: tuple[int, ...] = (100,)
    attribute: str = ""
    generable: bool = True
    library: Agrees | None = None

    def __repr__(self) -> str:
        return self.definition


def quoted(text: str) -> str:
    """A literal of this text."""
    return f"'{escape_string(text)}'"


def hexed(value: bytes) -> str:
    return f"x'{value.hex()}'"


def single(text: Any) -> float:
    return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])


# mysqlbinlog doesn't know the type, and stops at it.
UNPRINTED: Final = "NULL"

_ESCAPE: Final = re.compile(rb"\\(?:x..|.)", re.DOTALL)
_CONTROLS: Final = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def printed_bytes(text: bytes) -> bytes:
    """Returns a quoted string, with a backslash before control characters, quotes and backslashes."""
    assert text[:1] == text[-1:] == b"'", text
    return _ESCAPE.sub(lambda match: _unescaped(match[0]), text[1:-1])


@cache
def _unescaped(escape: bytes) -> bytes:
    code = escape[2:]
    return bytes.fromhex(code.decode()) if code else _CONTROLS.get(escape[1:], escape[1:])


def printed_bits(text: bytes) -> int:
    return int(text[2:-1], 2)


def printed_set(text: bytes) -> int:
    """Its bytes are printed as they lie in the log, the lowest one first."""
    digits = text[2:-1]
    return int.from_bytes(int(digits, 2).to_bytes(len(digits) // 8, "little"), "big")


def printed_integer(unsigned: bool) -> Callable[[bytes], int]:
    """A negative number has the unsigned one after it, because the log needn't say which it is."""

    def read(text: bytes) -> int:
        signed, _, other = text.decode().partition(" ")
        return int(other[1:-1]) if unsigned and other else int(signed)

    return read


def in_quotes(text: bytes) -> str:
    return text.decode()[1:-1]
