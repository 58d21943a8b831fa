"""Random texts, bytes, labels, documents, shapes and vectors of all of MySQL's types, as `Kind`s of columns."""

import struct
from functools import cache
from typing import Final

import numpy as np
from hypothesis import strategies as st

from pipeline.types.charset_tables import TABLED, code_tables
from tests.servers import random_json
from tests.servers.random_kinds import UNPRINTED, Kind, Reader, hexed, printed_bytes, printed_set, quoted
from tests.servers.random_numbers import between


def utf8(text: str) -> str:
    return bytes.fromhex(text).decode()


@cache
def _codes(charset: str) -> list[bytes]:
    """All codes of one of the sets that have a table."""
    one, two, three, four = code_tables(charset)
    codes = [bytes([code]) for code in np.flatnonzero(one >= 0).tolist()]
    codes += [code.to_bytes(2, "big") for code in np.flatnonzero(two >= 0).tolist()]
    codes += [b"\x8f" + code.to_bytes(2, "big") for code in np.flatnonzero(three >= 0).tolist()]
    return codes + [chr(point).encode("gb18030") for point in four[four >= 0].tolist()]


_UNICODE: Final = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be",
                   "utf16le": "utf-16-le", "utf32": "utf-32-be", "ascii": "ascii"}  # fmt: skip
_LAST: Final = {"utf8mb3": 0xFFFF, "ucs2": 0xFFFF, "ascii": 0x7F}
CHARSETS: Final = (*_UNICODE, *sorted(TABLED))


def texts_in(charset: str, longest: int) -> st.SearchStrategy[str]:
    """Literals of texts in the set, with so many characters at most."""
    if charset in _UNICODE:
        alphabet = st.characters(max_codepoint=_LAST.get(charset, 0x10FFFF), exclude_categories=["Cs"])
        coded = st.text(alphabet, max_size=min(longest, 30)).map(lambda text: text.encode(_UNICODE[charset]))
    else:
        codes = st.sampled_from(_codes(charset))
        coded = st.lists(codes, max_size=min(longest, 30)).map(b"".join)
    lengths = st.integers(0, longest).map(lambda n: f"REPEAT('x', {n})")
    return st.one_of(coded.map(lambda code: f"_{charset} {hexed(code)}" if code else "''"), lengths)


@st.composite
def texts(draw: st.DrawFn) -> Kind:
    charset = draw(st.sampled_from(CHARSETS))
    name, longest = draw(
        st.one_of(
            st.sampled_from([0, 1, 20, 63, 64, 127, 128, 255]).map(lambda n: (f"CHAR({n})", n)),
            st.sampled_from([0, 1, 20, 63, 64, 255, 256, 300]).map(lambda n: (f"VARCHAR({n})", n)),
            st.sampled_from([("TINYTEXT", 60), ("TEXT", 300), ("MEDIUMTEXT", 300), ("LONGTEXT", 70_000)]),
        )
    )
    collation = draw(st.sampled_from(["", f" COLLATE {charset}_bin"]))
    return Kind(
        f"{name} CHARACTER SET {charset}{collation}",
        texts_in(charset, longest),
        "HEX(CONVERT({c} USING utf8mb4))", utf8,
        "HEX(CAST({c} AS BINARY))", bytes.fromhex, printed_bytes,
        since=(5, 7) if charset == "gb18030" else (5, 6),
    )  # fmt: skip


@st.composite
def binaries(draw: st.DrawFn) -> Kind:
    name, longest = draw(
        st.one_of(
            st.sampled_from([0, 1, 16, 255]).map(lambda n: (f"BINARY({n})", n)),
            st.sampled_from([0, 1, 16, 255, 256, 300]).map(lambda n: (f"VARBINARY({n})", n)),
            st.sampled_from([("TINYBLOB", 255), ("BLOB", 300), ("MEDIUMBLOB", 300), ("LONGBLOB", 70_000)]),
        )
    )
    some = st.binary(max_size=min(longest, 40)).map(lambda value: hexed(value) if value else "''")
    values = st.one_of(some, st.integers(0, longest).map(lambda n: f"REPEAT(x'fb', {n})"))
    # The log has no zero bytes at the end of a BINARY, and mysqlbinlog doesn't know how many there were.
    stripped: Reader = (
        (lambda t: bytes.fromhex(t).rstrip(b"\0")) if name.startswith("BINARY") else bytes.fromhex
    )
    return Kind(name, values, "HEX({c})", bytes.fromhex, "HEX({c})", stripped, printed_bytes)


@st.composite
def choices(draw: st.DrawFn) -> Kind:
    """ENUM and SET; a number before each label keeps them apart in every collation.

    MySQL 5.6 prints the labels of wide characters wrongly by itself: ENUM('0') CHARACTER SET utf16 as '' or half of it.
    """
    name = draw(st.sampled_from(["ENUM", "SET"]))
    charset = draw(st.sampled_from(["utf8mb4", "latin1", "utf16", "cp1250"]))
    count = draw(st.integers(1, 12) | st.sampled_from([255, 256, 300] if name == "ENUM" else [8, 9, 33, 64]))
    suffix = draw(st.text("aé'\\\"%\n\0;" if name == "SET" else "aé'\\\"%\n\0,", max_size=3))
    labels = ", ".join(quoted(f"{i}{suffix}") for i in range(count))
    values = between(0, count) if name == "ENUM" else between(0, 2**count - 1)
    return Kind(
        f"{name}({labels}) CHARACTER SET {charset}",
        values,
        "HEX(CONVERT({c} USING utf8mb4))", utf8,
        "CAST({c} AS UNSIGNED)", int, int if name == "ENUM" else printed_set,
        since=(8,) if charset == "utf16" else (5, 6),
    )  # fmt: skip


def documents() -> st.SearchStrategy[Kind]:
    """mysqlbinlog prints a document that's one text without JSON's quotes."""
    text = "HEX(CAST({c} AS CHAR))"
    return st.just(
        Kind(
            "JSON", random_json.literals(quoted), text, utf8,
            "HEX(JSON_UNQUOTE({c}))", utf8, lambda t: printed_bytes(t).decode(),
            since=(5, 7, 8),
        )
    )  # fmt: skip


_PLACE: Final = st.builds("{} {}".format, st.integers(-80, 80), st.integers(-80, 80))
_SHAPES: Final = {
    "POINT": _PLACE.map("POINT({})".format),
    "LINESTRING": st.lists(_PLACE, min_size=2, max_size=4).map(lambda p: f"LINESTRING({','.join(p)})"),
    "POLYGON": st.integers(1, 80).map(lambda n: f"POLYGON((0 0,{n} 0,{n} {n},0 0))"),
    "MULTIPOINT": st.lists(_PLACE, min_size=1, max_size=3).map(lambda p: f"MULTIPOINT({','.join(p)})"),
    "GEOMETRYCOLLECTION": _PLACE.map("GEOMETRYCOLLECTION(POINT({}),POLYGON((0 0,10 0,10 10,0 0)))".format),
}


def geometries() -> st.SearchStrategy[Kind]:
    """A reference system is an attribute of the column since MySQL 8.0, and before that only one of the value."""

    def kind(name: str, srid: int, new: bool) -> Kind:
        shapes = st.one_of(*_SHAPES.values()) if name == "GEOMETRY" else _SHAPES[name]
        srid_of = "ST_SRID({c})" if new else "SRID({c})"
        binary = "ST_AsBinary({c}, 'axis-order=long-lat')" if new else "AsWKB({c})"
        return Kind(
            name, shapes.map(lambda shape: f"ST_GeomFromText('{shape}', {srid})"),
            f"CONCAT(LPAD(HEX({srid_of}), 8, '0'), HEX({binary}))",
            lambda t: bytes.fromhex(t[:8])[::-1] + bytes.fromhex(t[8:]),
            UNPRINTED, str,
            since=(8,) if new else (5, 6), before=(100,) if new else (8,), attribute=f"SRID {srid}" if new else "",
        )  # fmt: skip

    names = st.sampled_from(["GEOMETRY", *_SHAPES])
    return st.builds(kind, names, st.sampled_from([0, 4326]), st.booleans())


@st.composite
def vectors(draw: st.DrawFn) -> Kind:
    width = draw(st.integers(1, 20))
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    values = st.lists(number, min_size=1, max_size=width).map(lambda v: hexed(struct.pack(f"<{len(v)}f", *v)))

    def parts(text: str) -> tuple[float, ...]:
        return struct.unpack(f"<{len(text) // 8}f", bytes.fromhex(text))

    return Kind(
        f"VECTOR({width})", values,
        "HEX({c})", lambda t: [part.hex() for part in parts(t)],
        "HEX({c})", lambda t: f"[{','.join(f'{part:.5e}' for part in parts(t))}]",
        since=(9,), generable=False,
    )  # fmt: skip
