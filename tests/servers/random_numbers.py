"""Random numbers, dates and times of all of MySQL's types, as `Kind`s of columns."""

from decimal import Decimal as Number
from typing import Any, Final, Literal

import numpy as np
from hypothesis import strategies as st

from tests.servers.random_kinds import Kind, Reader, in_quotes, printed_bits, printed_integer, quoted, single


def between(least: int, most: int) -> st.SearchStrategy[str]:
    return st.one_of(st.integers(least, most), st.sampled_from([least, most, max(0, least)])).map(str)


def integers() -> st.SearchStrategy[Kind]:
    def kind(name: str, size: int, sign: str) -> Kind:
        bits = 8 * size
        least, most = (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        read: Reader = Number if sign and size == 8 else int
        text = "CAST({c} AS CHAR)"
        return Kind(f"{name}{sign}", between(least, most), text, read, text, int, printed_integer(bool(sign)))

    sizes = {"TINYINT": 1, "SMALLINT": 2, "MEDIUMINT": 3, "INT": 4, "BIGINT": 8}
    signs = st.sampled_from(["", " UNSIGNED", " UNSIGNED ZEROFILL"])
    return st.builds(lambda name, sign: kind(name, sizes[name], sign), st.sampled_from(list(sizes)), signs)


@st.composite
def decimals(draw: st.DrawFn) -> Kind:
    precision = draw(st.integers(1, 65) | st.sampled_from([9, 18, 38, 39, 65]))
    scale = draw(st.integers(0, min(30, precision)))
    top = 10**precision - 1
    numbers = st.one_of(st.integers(-top, top), st.sampled_from([top, -top, 0, 1, -1]))
    literals = numbers.map(lambda n: _scaled(n, scale))
    read: Reader = Number if precision <= 38 else str
    text = "CAST({c} AS CHAR)"
    return Kind(f"DECIMAL({precision},{scale})", literals, text, read, text, str)


def _scaled(number: int, scale: int) -> str:
    digits = f"{abs(number):0{scale + 1}}"
    whole = len(digits) - scale
    return f"{'-' if number < 0 else ''}{digits[:whole]}{'.' + digits[whole:] if scale else ''}"


# The largest, the least that isn't subnormal, and the least of all, for each width.
_FLOATS: Final = [0.0, -0.0, 3.4028234663852886e38, 1.1754943508222875e-38, 1.401298464324817e-45, 16777217.0]
_DOUBLES: Final = [0.0, -0.0, 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324, 9007199254740993.0]


def _floating(width: Literal[32, 64], edges: list[float]) -> st.SearchStrategy[str]:
    some = st.floats(width=width, allow_nan=False, allow_infinity=False)
    # An exponent makes it a floating number for the server; without one it'd be a DECIMAL, which has no -0.
    return st.one_of(some, st.sampled_from(edges)).map(lambda n: repr(n) if "e" in repr(n) else f"{n!r}e0")


def floats() -> st.SearchStrategy[Kind]:
    def kind(definition: str, values: st.SearchStrategy[str]) -> Kind:
        # Only the result of a computation is shown with all digits.
        told = "{c} * 1e0"
        return Kind(
            definition,
            values,
            told,
            lambda t: single(t).hex(),
            told,
            lambda t: f"{single(t):g}",
            lambda t: t.decode().strip(),
        )

    short = st.integers(-9_999_999, 9_999_999).map(lambda n: f"{n / 1000!r}")
    return st.sampled_from([kind("FLOAT", _floating(32, _FLOATS)), kind("FLOAT(7,3)", short)])


def doubles() -> st.SearchStrategy[Kind]:
    def kind(definition: str, values: st.SearchStrategy[str]) -> Kind:
        told = "{c} * 1e0"
        return Kind(definition, values, told, lambda t: float(t).hex(), told, float, float)

    short = st.integers(-(10**17), 10**17).map(lambda n: f"{n / 100!r}")
    return st.sampled_from([kind("DOUBLE", _floating(64, _DOUBLES)), kind("DOUBLE(20,2)", short)])


@st.composite
def bits(draw: st.DrawFn) -> Kind:
    width = draw(st.integers(1, 64))
    size = (width + 7) // 8

    def read(number: Any) -> object:
        return bool(int(number)) if width == 1 else int(number).to_bytes(size, "big")

    return Kind(f"BIT({width})", between(0, 2**width - 1), "{c} + 0", read, "{c} + 0", int, printed_bits)


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


def _two(most: int, least: int = 0) -> st.SearchStrategy[str]:
    return st.integers(least, most).map(lambda n: f"{n:02}")


# Zero, partial, and past the month's end as well: nothing but the month and the day by themselves is checked.
_DAYS: Final = st.one_of(
    st.builds("{:04}-{}-{}".format, st.integers(0, 9999), _two(12), _two(31)),
    st.sampled_from(["0000-00-00", "1000-01-01", "9999-12-31", "2024-02-29", "2023-02-29", "1969-12-31"]),
)
_FRACTIONS: Final = st.one_of(st.integers(0, 999_999), st.sampled_from([0, 1, 999_999])).map("{:06}".format)


def _fraction(digits: int) -> st.SearchStrategy[str]:
    return _FRACTIONS.map(lambda f: f".{f[:digits]}" if digits else "")


def dates() -> st.SearchStrategy[Kind]:
    text = "CAST({c} AS CHAR)"
    date = Kind("DATE", _DAYS.map(quoted), text, days, text, str, lambda t: in_quotes(t).replace(":", "-"))
    years = st.one_of(st.just("0"), st.integers(1901, 2155).map(str))
    # mysqlbinlog prints the year 0 as 1900, which isn't one.
    year = Kind("YEAR", years, "{c} + 0", int, "{c} + 0", lambda y: int(y) or 1900, int)
    return st.sampled_from([date, year])


def moments() -> st.SearchStrategy[Kind]:
    def datetime(digits: int) -> Kind:
        values = st.builds("{} {}:{}:{}{}".format, _DAYS, _two(23), _two(59), _two(59), _fraction(digits))
        text = "CAST({c} AS CHAR)"
        return Kind(f"DATETIME({digits})", values.map(quoted), text, microseconds, text, str, in_quotes)

    def timestamp(digits: int) -> Kind:
        seconds = st.one_of(st.integers(1, 2**31 - 1), st.sampled_from([1, 2**31 - 1]))
        instants = st.builds(lambda s, f: f"{np.datetime64(s, 's')}{f}", seconds, _fraction(digits))
        values = st.one_of(instants.map(lambda t: t.replace("T", " ")), st.just("0000-00-00 00:00:00"))
        unix = "UNIX_TIMESTAMP({c})"
        return Kind(
            f"TIMESTAMP({digits})",
            values.map(quoted),
            "CAST({c} AS CHAR)",
            microseconds,
            unix,
            Number,
            lambda t: Number(t.decode()),
        )

    def time(digits: int) -> Kind:
        hours = st.one_of(st.integers(0, 838), st.sampled_from([0, 838]))
        values = st.builds(
            lambda sign, h, m, s, f: f"{sign}{h:02}:{m}:{s}{f}" if h < 838 else f"{sign}838:59:59",
            st.sampled_from(["", "-"]), hours, _two(59), _two(59), _fraction(digits),
        )  # fmt: skip
        text = "CAST({c} AS CHAR)"
        return Kind(f"TIME({digits})", values.map(quoted), text, span, text, str, in_quotes)

    return st.builds(
        lambda kind, digits: kind(digits), st.sampled_from([datetime, timestamp, time]), st.integers(0, 6)
    )
