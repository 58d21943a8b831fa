"""Values that go back to the server beside a statement, in a form that compares like the column's own values.

A key is exactly what the server sent. It has to equal itself when it returns, and the server has to compare it by the
column's type and collation, which order the index. By the manual a comparison might use another type: for example a
DECIMAL and a string compare as DOUBLE, which makes neighbours equal. Hence the casts.

*Text* is a literal to the server, weaker than a column (coercibility 4 against 2). The server converts it to the
column's character set and compares it by the column's collation. If that conversion loses something, the stored bytes
go back and are only declared: `CONVERT(bytes USING charset)` leaves them alone, and needs the collation.

*ENUM and SET* are ordered by number and printed by label, so they're read and bound by number. MySQL uses an index for
`=` on such a column, and none for `<` (Field_enum::optimize_range). So a comparison is written as the list of numbers
that satisfy it, each of which is a position in the index. If a SET has so many members that the list gets too long,
it's compared plainly. That's right, and reads the index from its beginning.

*FLOAT(M,D) and DOUBLE(M,D)* round what they are compared with (`pipeline.source.rounding`).

*A day past its month's end*, which a column has with ALLOW_INVALID_DATES, is NULL once it's cast, and no row compares
with NULL: rows would be skipped. So it's refused. Zero and partial dates are cast as they are.

Sources: MySQL 9.7 Reference Manual, "Type Conversion in Expression Evaluation", "Collation Coercibility in
Expressions", "The ENUM Type", "The SET Type".
"""

import re
from datetime import date
from typing import Final

from pipeline.errors import Definite
from pipeline.schema.row_keys import KeyPart
from pipeline.source.rounding import Rounding
from pipeline.types import column_types as t

# The character sets that lose nothing on the way to Unicode and back (an integration test tries every byte). In the
# others two texts can print alike, or one can print as another that sorts elsewhere: rows would be skipped.
EXACT_CHARSETS: Final = frozenset(
    {
        "ascii",
        "cp850",
        "cp852",
        "cp866",
        "keybcs2",
        "koi8r",
        "koi8u",
        "latin1",
        "latin2",
        "latin5",
        "latin7",
        "macce",
        "macroman",
        "ucs2",
        "utf16",
        "utf16le",
        "utf32",
        "utf8mb3",
        "utf8mb4",
    }
)

# The longest list of numbers in place of a comparison: a SET of ten members has so many values.
LONGEST_LIST: Final = 1 << 10

_ALL_BITS: Final = 64

# The place of a text that is cast. A bare parameter there takes the type that it's cast to before its value is known,
# TIME without fractions for one (MySQL 9.7), and so compares as another value than it is.
AS_TEXT: Final = "CAST(%s AS CHAR)"

_DAY: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_PAST_THE_MONTH: Final = (
    "a key's column {name} has a day past its month's end (ALLOW_INVALID_DATES), with which the source can't compare"
    " rows; correct these dates, or name another index as surrogate-key"
)

# A piece of SQL with its parameters.
Fragment = tuple[str, tuple[KeyPart, ...]]


def placeholder(name: str, kind: t.ColumnType, value: KeyPart, collation: str | None) -> str:
    """The text in whose place the value of such a column is bound; `name` is quoted.

    Raises Definite for a day past its month's end.
    """
    if isinstance(kind, t.Date | t.DateTime) and isinstance(value, str) and _is_past_the_month(value):
        raise Definite(_PAST_THE_MONTH.format(name=name))
    match kind:
        case t.Decimal(precision, scale):
            return f"CAST({AS_TEXT} AS DECIMAL({precision}, {scale}))"
        case t.Date():
            return f"CAST({AS_TEXT} AS DATE)"
        case t.Time(digits):
            return f"CAST({AS_TEXT} AS TIME({digits}))"
        case t.DateTime(digits) | t.Timestamp(digits):
            return f"CAST({AS_TEXT} AS DATETIME({digits}))"
        case t.Text(charset) if isinstance(value, bytes):
            return f"CONVERT(CAST(%s AS BINARY) USING {charset}) COLLATE {collation}"
        case _:
            return "%s"


def _is_past_the_month(moment: str) -> bool:
    """Whether it's a date, with a time or without, that the server casts to NULL. Its year 0 has no February 29."""
    if (found := _DAY.match(moment)) is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        date(year or 1, month or 1, day or 1)
    except ValueError:
        return True
    return False


def comparison(
    name: str,
    kind: t.ColumnType,
    operator: str,
    value: KeyPart,
    collation: str | None,
    rounded: Rounding | None = None,
) -> Fragment:
    """The condition `name operator value` for a column of this type; `name` is quoted.

    `rounded`: how the column rounds what it is compared with. Raises Definite for a day past its month's end.
    """
    # A text comes of a request from before the column's type was altered.
    if rounded is not None and not isinstance(value, str | bytes) and not rounded.keeps(value):
        return rounded.comparison(name, operator, value)
    numbers, name = label_numbers(kind), compared_name(name, kind)
    if numbers is None or operator == "=":
        return f"{name} {operator} {placeholder(name, kind, value, collation)}", (value,)
    assert isinstance(value, int)
    listed = {
        "<": numbers[:value],
        "<=": numbers[: value + 1],
        ">": numbers[value + 1 :],
        ">=": numbers[value:],
    }[operator]
    if not listed:
        return "FALSE", ()
    return f"{name} IN ({', '.join(['%s'] * len(listed))})", tuple(listed)


def compared_name(name: str, kind: t.ColumnType) -> str:
    """The column as it's compared with a number or a text; `name` is quoted."""
    if isinstance(kind, t.Set) and len(kind.labels) == _ALL_BITS:
        return f"CAST({name} AS UNSIGNED)"  # which MySQL takes for negative if it has the highest bit
    return name


def label_numbers(kind: t.ColumnType) -> range | None:
    """All numbers that a value of an ENUM or SET can have, if they are few enough to be listed."""
    match kind:
        case t.Enum(labels):
            size = len(labels) + 1  # 0 is what a wrong value became
        case t.Set(labels):
            size = 1 << len(labels)
        case _:
            return None
    return range(size) if size <= LONGEST_LIST else None


def key_storage(kind: t.ColumnType) -> t.ColumnType:
    """As what type a key's part is read where it isn't the column's own: bytes for text that isn't all of Unicode."""
    match kind:
        case t.Text(charset) if charset not in EXACT_CHARSETS:
            return t.Binary()
        case _:
            return kind
