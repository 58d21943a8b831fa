"""Numbers, dates and times of all of MySQL's types, as `Kind`s of columns: their edges, and random ones."""

import random
import re
from datetime import date, datetime, timedelta
from decimal import Decimal as Number
from itertools import product
from typing import Any, Final, Literal

import numpy as np
from hypothesis import strategies as st

from tests.servers.value_kinds import Kind, Reader, in_quotes, printed_bits, printed_integer, quoted, single

_SIZES: Final = {"TINYINT": 1, "SMALLINT": 2, "MEDIUMINT": 3, "INT": 4, "BIGINT": 8}
_SIGNS: Final = ("", " UNSIGNED", " UNSIGNED ZEROFILL")


def between(least: int, most: int) -> st.SearchStrategy[str]:
    return st.one_of(st.integers(least, most), st.sampled_from([least, most, max(0, least)])).map(str)


def integer(name: str, sign: str) -> Kind:
    bits = 8 * _SIZES[name]
    least, most = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    some = (
        0,
        1,
        -1,
        7,
        127,
        -128,
        200,
        least,
        least + 1,
        most,
        most - 1,
        most // 2,
        most // 2 + 1,
        most // 3,
    )
    return Kind(
        f"{name}{sign}", tuple(str(n) for n in dict.fromkeys(some) if least <= n <= most), between(least, most),
        "CAST({c} AS CHAR)", Number if sign and bits == 64 else int,
        "CAST({c} AS CHAR)", int, printed_integer(bool(sign)),
        library=lambda mine, theirs: mine == theirs,
    )  # fmt: skip


def decimal(precision: int, scale: int, zerofill: str = "") -> Kind:
    top = 10**precision - 1
    # Without the zeros before it that ZEROFILL shows.
    plain: Reader = (lambda t: re.sub("^0+(?=[0-9])", "", t)) if zerofill else str
    whole = precision - scale
    some = [0, 1, int("1" * precision), top, top - 1, 10**scale % (top + 1), 10 ** (precision - 1)]
    some += [int(("1234567890" * 7)[:precision]), 10**scale // 2, 2**64 % (top + 1)]
    signed = (*some, *(-n for n in some)) if not zerofill else some
    random_ones = st.one_of(st.integers(-top, top), st.sampled_from(signed)).map(lambda n: _scaled(n, scale))
    assert whole >= 0
    return Kind(
        f"DECIMAL({precision},{scale}){zerofill}", tuple(_scaled(n, scale) for n in dict.fromkeys(signed)), random_ones,
        "CAST({c} AS CHAR)", Number if precision <= 38 else plain,
        "CAST({c} AS CHAR)", plain,
        library=lambda mine, theirs: mine == (theirs if precision <= 38 else f"{theirs:f}"),
    )  # fmt: skip


def _scaled(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}}"
    whole = len(digits) - scale
    return f"{'-' if number < 0 else ''}{digits[:whole]}{'.' + digits[whole:] if scale else ''}"


def _literal(number: float) -> str:
    """With an exponent: without one it'd be a DECIMAL for the server, which has no -0."""
    return repr(number) if "e" in repr(number) else f"{number!r}e0"


def _floats(width: type[np.float32 | np.float64]) -> list[float]:
    """The ends of what is zero, subnormal, normal and exact, short decimals, and numbers of random bits."""
    info = np.finfo(width)
    least, normal, most = (float(each) for each in (info.smallest_subnormal, info.smallest_normal, info.max))
    edges = [0.0, least, float(np.nextafter(width(normal), width(0))), normal, most]
    edges += [0.1, 1 / 3, 0.1 + 0.2, 3.3333333, 1.5, 1e22, 1e-7, 1e-300, 16777217.0, 9007199254740993.0]
    bits = np.frombuffer(random.Random(7).randbytes(1000 * info.bits // 8), width)
    return [float(width(n)) for n in (*edges, *(-edge for edge in edges), *bits[np.isfinite(bits)].tolist())]


def floating(definition: str, width: Literal[32, 64], short: int = 0) -> Kind:
    """FLOAT or DOUBLE; `short`: with so many digits after the point at the most."""
    some: st.SearchStrategy[float] = st.floats(width=width, allow_nan=False, allow_infinity=False)
    edges = _floats(np.float32 if width == 32 else np.float64)
    values = st.one_of(some, st.sampled_from(edges)).map(_literal)
    literals = tuple(map(_literal, edges))
    if short:
        top = 9_999_999 if width == 32 else 10**17
        values = st.integers(-top, top).map(lambda n: f"{n / 10**short!r}")
        literals = ("1234.567", "-0.001", "0.07", "0", f"{top / 10**short!r}", f"{-top / 10**short!r}")
    read: Reader = (lambda t: single(t).hex()) if width == 32 else (lambda t: float(t).hex())
    # Only the result of a computation is shown with all digits; mysqlbinlog shows six of a FLOAT's.
    as_printed: Reader = (lambda t: f"{single(t):g}") if width == 32 else float
    printed: Reader = (lambda t: t.decode().strip()) if width == 32 else float
    return Kind(
        definition, literals, values, "{c} * 1e0", read, "{c} * 1e0", as_printed, printed,
        library=lambda mine, theirs: mine == float(theirs).hex(),
    )  # fmt: skip


def bit(width: int) -> Kind:
    size = (width + 7) // 8

    def read(number: Any) -> object:
        return bool(int(number)) if width == 1 else int(number).to_bytes(size, "big")

    some = dict.fromkeys([0, 1, 258 % 2**width, 2**width - 1, 2 ** (width - 1)])
    return Kind(
        f"BIT({width})", tuple(map(str, some)), between(0, 2**width - 1),
        "{c} + 0", read, "{c} + 0", int, printed_bits,
        library=lambda mine, theirs: mine == read(int(theirs, 2)),
    )  # fmt: skip


# Dates and times


def days(text: str) -> int | None:
    """Days since 1970, None where no calendar has such a day."""
    try:
        return int(np.datetime64(text, "D").astype(int))
    except ValueError:
        return None


def microseconds(text: str) -> int | None:
    """Microseconds since 1970 of a date and a time of day."""
    day, _, clock = text.partition(" ")
    since = days(day)
    return None if since is None else since * 86_400_000_000 + span(clock)


def span(text: str) -> int:
    """Microseconds of a time that may be negative."""
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole = (int(hours) * 60 + int(minutes)) * 60_000_000 + int(Number(seconds) * 1_000_000)
    return -whole if text.startswith("-") else whole


# Python's own days begin with the year 1: before it, the library has none.
_FIRST_DAY: Final = -719162


def _same_day(mine: Any, theirs: date | None) -> bool:
    return bool(mine < _FIRST_DAY if theirs is None else mine == (theirs - date(1970, 1, 1)).days)


def _same_moment(mine: Any, theirs: datetime | None) -> bool:
    if theirs is None:
        return bool(mine < _FIRST_DAY * 86_400_000_000)
    return bool((mine or 0) == int(np.datetime64(theirs, "us").astype(int)))


def _same_span(mine: Any, theirs: timedelta) -> bool:
    """The library adds the fraction of a negative time, from which it has to be taken away."""
    return bool(mine == theirs // timedelta(microseconds=1) or (mine < 0 and mine % 1_000_000 != 0))


def _two(most: int) -> st.SearchStrategy[str]:
    return st.integers(0, most).map(lambda n: f"{n:02}")


# Zero, partial, and past the month's end as well: nothing but the month and the day by themselves is checked.
_EDGE_DAYS: Final = (
    "0000-00-00", "2024-00-00", "2024-05-00", "0000-01-01", "0001-01-01", "1000-01-01", "1582-10-10", "1600-02-29",
    "1899-12-31", "1900-02-28", "1900-03-01", "1969-12-31", "1970-01-01", "2000-02-29", "2023-02-29", "2024-02-29",
    "2024-04-31", "2038-01-19", "9999-12-31",
)  # fmt: skip
_DAYS: Final = st.one_of(
    st.builds("{:04}-{}-{}".format, st.integers(0, 9999), _two(12), _two(31)), st.sampled_from(_EDGE_DAYS)
)
_EDGE_FRACTIONS: Final = (
    ".0",
    ".1",
    ".12",
    ".123",
    ".1234",
    ".12345",
    ".123456",
    ".999999",
    ".000001",
    ".9",
    ".99",
)
_FRACTIONS: Final = st.one_of(st.integers(0, 999_999), st.sampled_from([0, 1, 999_999])).map("{:06}".format)
_EDGE_TIMES: Final = (
    "00:00:00", "-00:00:00", "00:00:01", "-00:00:01", "24:00:00", "-24:00:01", "838:59:58", "-838:59:58", "100:59:59",
)  # fmt: skip


def _fraction(digits: int) -> st.SearchStrategy[str]:
    return _FRACTIONS.map(lambda f: f".{f[:digits]}" if digits else "")


def day() -> Kind:
    text = "CAST({c} AS CHAR)"
    return Kind(
        "DATE", tuple(map(quoted, _EDGE_DAYS)), _DAYS.map(quoted),
        text, days, text, str, lambda t: in_quotes(t).replace(":", "-"), library=_same_day,
    )  # fmt: skip


def year() -> Kind:
    """Both mysqlbinlog and the library show the year 0 as 1900, which isn't one."""
    years = st.one_of(st.just("0"), st.integers(1901, 2155).map(str))
    return Kind(
        "YEAR", ("0", "1901", "2155", "'2024'"), years, "{c} + 0", int, "{c} + 0", lambda y: int(y) or 1900, int,
        library=lambda mine, theirs: (mine or 1900) == theirs,
    )  # fmt: skip


def moment(digits: int) -> Kind:
    values = st.builds("{} {}:{}:{}{}".format, _DAYS, _two(23), _two(59), _two(59), _fraction(digits))
    edges = [f"{on} {at}" for on, at in product(_EDGE_DAYS, ("00:00:00", "23:59:59", "12:34:56"))]
    edges += [f"2024-02-28 23:59:58{fraction}" for fraction in _EDGE_FRACTIONS]
    edges += ["1000-01-01 00:00:00.000001", "9999-12-31 23:59:59"]
    text = "CAST({c} AS CHAR)"
    return Kind(
        f"DATETIME({digits})", tuple(map(quoted, edges)), values.map(quoted),
        text, microseconds, text, str, in_quotes, library=_same_moment,
    )  # fmt: skip


def instant(digits: int) -> Kind:
    seconds = st.one_of(st.integers(1, 2**31 - 1), st.sampled_from([1, 2**31 - 1]))
    instants = st.builds(lambda s, f: f"{np.datetime64(s, 's')}{f}", seconds, _fraction(digits))
    values = st.one_of(instants.map(lambda t: t.replace("T", " ")), st.just("0000-00-00 00:00:00"))
    first, last = "1970-01-01 00:00:01", "2038-01-19 03:14:06"
    edges = [f"{at}{fraction}" for at, fraction in product((first, last), _EDGE_FRACTIONS)]
    edges += ["0000-00-00 00:00:00", "2024-02-29 12:34:56", "2038-01-19 03:14:07"]
    return Kind(
        f"TIMESTAMP({digits})", tuple(map(quoted, edges)), values.map(quoted), "CAST({c} AS CHAR)", microseconds,
        "UNIX_TIMESTAMP({c})", Number, lambda t: Number(t.decode()), library=_same_moment,
    )  # fmt: skip


def time(digits: int) -> Kind:
    hours = st.one_of(st.integers(0, 838), st.sampled_from([0, 838]))
    values = st.builds(
        lambda sign, h, m, s, f: f"{sign}{h:02}:{m}:{s}{f}" if h < 838 else f"{sign}838:59:59",
        st.sampled_from(["", "-"]), hours, _two(59), _two(59), _fraction(digits),
    )  # fmt: skip
    edges = [f"{at}{fraction}" for at, fraction in product(_EDGE_TIMES, ("", *_EDGE_FRACTIONS))]
    text = "CAST({c} AS CHAR)"
    return Kind(
        f"TIME({digits})", tuple(map(quoted, (*edges, "838:59:59", "-838:59:59"))), values.map(quoted),
        text, span, text, str, in_quotes, library=_same_span,
    )  # fmt: skip


_SHAPES: Final = (
    *(
        (1, 0),
        (1, 1),
        (5, 0),
        (5, 2),
        (9, 9),
        (10, 0),
        (10, 2),
        (12, 2),
        (18, 9),
        (19, 10),
        (20, 0),
        (27, 13),
    ),
    *((30, 10), (30, 30), (37, 5), (38, 0), (38, 19), (38, 30), (39, 0), (50, 20), (65, 0), (65, 30)),
)
INTEGERS: Final = [integer(name, sign) for name, sign in product(_SIZES, _SIGNS)]
DECIMALS: Final = [
    *(decimal(*shape) for shape in _SHAPES),
    decimal(12, 4, " ZEROFILL"),
    decimal(50, 20, " ZEROFILL"),
]
FLOATS: Final = [
    *(floating("FLOAT", 32), floating("FLOAT(7,3)", 32, 3)),
    *(floating("DOUBLE", 64), floating("DOUBLE(20,2)", 64, 2)),
]
BITS: Final = [bit(width) for width in (1, 2, 7, 8, 9, 10, 17, 63, 64)]
DATES: Final = [day(), year()]
MOMENTS: Final = [kind(digits) for kind, digits in product((moment, instant, time), range(7))]


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    precision = draw(st.integers(1, 65) | st.sampled_from([9, 18, 38, 39, 65]))
    return decimal(precision, draw(st.integers(0, min(30, precision))))


def numbers() -> list[st.SearchStrategy[Kind]]:
    """A strategy for each family."""
    families = [st.sampled_from(family) for family in (INTEGERS, FLOATS, DATES, MOMENTS)]
    return [*families, decimals(), st.integers(1, 64).map(bit)]
