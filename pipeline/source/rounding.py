"""How a FLOAT(M,D) or DOUBLE(M,D) rounds what it is compared with.

The server rounds a constant to the column's D digits, and limits it to M digits, before it looks for it in an index.
The column's own values need not be rounded: MySQL alters a DOUBLE to a DOUBLE(10,2) in place and keeps its values. A
key of such a column doesn't equal itself when it returns, and a range that it ends would end before it.

`column + 0e0` is the value that is kept, and no index has it. So the exact comparison is of that, and two bounds of the
column beside it say where in the index to look. They are so far from the value that they also contain it if they are
rounded. All rows that the server shows with one value lie between them, and are read for each of these rows. A constant
that the server leaves as it is, as most are, needs none of that.

Sources: MySQL 9.7 Reference Manual, "Floating-Point Types (Approximate Value) - FLOAT, DOUBLE"; MySQL 9.7,
sql/field.cc, Field_real::truncate, which rounds the part of a value after its greatest whole number.
"""

import struct
from dataclasses import dataclass
from math import floor
from typing import Final

from pipeline.source.result_columns import UNSIGNED, ResultColumn
from pipeline.types import column_types as t

# What a result says of a column without digits (DECIMAL_NOT_SPECIFIED).
_NO_DIGITS: Final = 31

# How inexactly the server rounds: a few units in the last place of the column's type, as a part of the value.
_INEXACT_SINGLE: Final = 2.0**-21
_INEXACT_DOUBLE: Final = 2.0**-48


@dataclass(frozen=True, slots=True)
class Rounding:
    """A column of `digits` digits (M), of which `decimals` come after the point (D)."""

    digits: int
    decimals: int
    unsigned: bool
    single: bool

    def keeps(self, value: float) -> bool:
        """Returns whether the server compares with this constant as it is."""
        if not self._holds(value):
            return False
        whole, power = floor(value), float(f"1e{self.decimals}")
        found = whole + round((value - whole) * power) / power
        return value == (_as_single(found) if self.single else found)

    def comparison(self, name: str, operator: str, value: float) -> tuple[str, tuple[float, ...]]:
        """Returns the condition `name operator value`, with its parameters, for a constant that isn't kept."""
        bounds = {
            ">=": self.least_bound(value) if operator[0] != "<" else None,
            "<=": self.greatest_bound(value) if operator[0] != ">" else None,
        }
        found = [(f"{name} {side} %s", bound) for side, bound in bounds.items() if bound is not None]
        conditions = [*found, (f"{name} + 0e0 {operator} %s", float(value))]
        return f"({' AND '.join(sql for sql, _ in conditions)})", tuple(bound for _, bound in conditions)

    def least_bound(self, value: float) -> float | None:
        """Returns a constant that is less than the value, rounded or not. None if the column can't have it."""
        bound = value - self._room(value)
        return bound if self._holds(bound) else None

    def greatest_bound(self, value: float) -> float | None:
        """Returns a constant that is greater than the value, rounded or not. None if the column can't have it."""
        bound = value + self._room(value)
        return bound if self._holds(bound) else None

    def _room(self, value: float) -> float:
        inexact = _INEXACT_SINGLE if self.single else _INEXACT_DOUBLE
        return 10.0**-self.decimals + max(1.0, abs(value)) * inexact

    def _holds(self, bound: float) -> bool:
        """Whether the server keeps the constant within the column's own limits, and so doesn't move it to them."""
        most = 10.0 ** (self.digits - self.decimals) - 2 * 10.0**-self.decimals
        return (0 if self.unsigned else -most) <= bound <= most


def _as_single(value: float) -> float:
    single: float = struct.unpack("f", struct.pack("f", value))[0]
    return single


# Of each of a table's columns in their order, or nothing.
Roundings = tuple[Rounding | None, ...]


def rounding(kind: t.ColumnType, told: ResultColumn) -> Rounding | None:
    """Returns how a column rounds, by what a result says of it. None if it doesn't."""
    if not isinstance(kind, t.Float | t.Double) or told.decimals >= _NO_DIGITS:
        return None
    unsigned = bool(told.flags & UNSIGNED)
    return Rounding(told.length, told.decimals, unsigned, isinstance(kind, t.Float))
