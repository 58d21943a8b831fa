"""Texts, bytes, labels, documents, shapes and vectors of all of MySQL's types, as `Kind`s: their edges, and random
ones."""

import json
import random
import struct
from functools import cache
from itertools import product
from math import isfinite
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

from pipeline.types.text.charset_tables import TABLED, code_tables
from tests.servers import random_json
from tests.servers.number_kinds import between
from tests.servers.value_kinds import UNPRINTED, Kind, hexed, printed_bytes, printed_set, quoted


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

# What Python's codecs, and so mysql-replication, read as the server does.
_LIBRARYS_SETS: Final = ("utf8mb4", "ascii")
_TEXTS: Final = ("a", "naïve", "日本語 😀", " both ", "tail  ", "\\'\"\n\0\t", "\U0010ffff\x7f߿ࠀ")
# Around the ends of what one, two and three bytes of a length can say.
_LENGTHS: Final = (60, 255, 256, 300, 65_535, 65_536, 1_000_000)


def _coded(charset: str, text: str) -> bytes:
    allowed = "".join(c for c in text if ord(c) <= _LAST.get(charset, 0x10FFFF))
    return allowed.encode(_UNICODE[charset])


def _in_charset(charset: str, code: bytes) -> str:
    return f"_{charset} {hexed(code)}" if code else "''"


def _edge_texts(charset: str, longest: int) -> tuple[str, ...]:
    """Texts of few characters, and as long as one can be."""
    if charset in _UNICODE:
        codes = [_coded(charset, text[:longest]) for text in _TEXTS]
    else:
        every = _codes(charset)
        some = [*every[:: max(1, len(every) // 60)], every[-1]]
        codes = [b"".join(some[at : at + min(longest, 9)]) for at in range(0, len(some), 9)]
    filler = "é" if charset in ("utf8mb4", "latin1") else "x"
    lengths = [f"REPEAT('{filler}', {n})" for n in (*_LENGTHS, longest) if n <= longest]
    return tuple(dict.fromkeys(["''", *(_in_charset(charset, code) for code in codes), *lengths]))


def texts_in(charset: str, longest: int) -> st.SearchStrategy[str]:
    """Literals of texts in the set, with so many characters at most."""
    if charset in _UNICODE:
        alphabet = st.characters(max_codepoint=_LAST.get(charset, 0x10FFFF), exclude_categories=["Cs"])
        coded = st.text(alphabet, max_size=min(longest, 30)).map(lambda text: text.encode(_UNICODE[charset]))
    else:
        codes = st.sampled_from(_codes(charset))
        coded = st.lists(codes, max_size=min(longest, 30)).map(b"".join)
    lengths = st.integers(0, longest).map(lambda n: f"REPEAT('x', {n})")
    return st.one_of(coded.map(lambda code: _in_charset(charset, code)), lengths)


def text(charset: str, name: str, longest: int, collation: str = "") -> Kind:
    """`longest` is in characters, and at most what `name` can hold."""
    return Kind(
        f"{name} CHARACTER SET {charset}{collation}",
        _edge_texts(charset, longest), texts_in(charset, min(longest, 70_000)),
        "HEX(CONVERT({c} USING utf8mb4))", utf8,
        "HEX(CAST({c} AS BINARY))", bytes.fromhex, printed_bytes,
        since=(5, 7) if charset == "gb18030" else (5, 6),
        library=(lambda mine, theirs: mine == theirs) if charset in _LIBRARYS_SETS else None,
    )  # fmt: skip


def binary(name: str, longest: int) -> Kind:
    """The log has no zero bytes at the end of a BINARY, and mysqlbinlog doesn't know how many there were."""
    some = ("''", "'a'", "x'00'", "x'0001'", "x'0100'", "x'FF'", "x'FF00FE00'", "x'00ff00ff'", "x'2020'")
    lengths = [
        f"REPEAT(x'{byte}', {n})" for byte in ("ff", "00") for n in (*_LENGTHS, longest) if n <= longest
    ]
    short = st.binary(max_size=min(longest, 40)).map(lambda value: hexed(value) if value else "''")
    long = st.integers(0, min(longest, 70_000)).map(lambda n: f"REPEAT(x'fb', {n})")
    fixed = name.startswith("BINARY")
    return Kind(
        name, (*some, *lengths), st.one_of(short, long), "HEX({c})", bytes.fromhex,
        "HEX({c})", (lambda t: bytes.fromhex(t).rstrip(b"\0")) if fixed else bytes.fromhex, printed_bytes,
        library=None if fixed else lambda mine, theirs: mine == (theirs or b""),
    )  # fmt: skip


def choice(name: str, labels: tuple[str, ...], charset: str = "utf8mb4") -> Kind:
    """ENUM or SET.

    MySQL 5.6 prints the labels of wide characters wrongly by itself: ENUM('0') CHARACTER SET utf16 as '' or half of it.
    It has none beyond U+FFFF.
    """
    count = len(labels)
    last = count if name == "ENUM" else 2**count - 1
    edges = dict.fromkeys([0, 1, 2, 3, 5, 6, 7, 254, 255, 256, last // 2 + 1, last])
    wide = charset == "utf16" or any(ord(c) > 0xFFFF for label in labels for c in label)
    same = (
        (lambda mine, theirs: mine == theirs)
        if name == "ENUM"
        else (lambda mine, theirs: set(mine.split(",")) - {""} == set(theirs or ()))
    )
    return Kind(
        f"{name}({', '.join(map(quoted, labels))}) CHARACTER SET {charset}",
        tuple(str(n) for n in edges if n <= last), between(0, last),
        "HEX(CONVERT({c} USING utf8mb4))", utf8,
        "CAST({c} AS UNSIGNED)", int, int if name == "ENUM" else printed_set,
        since=(8,) if wide else (5, 6),
        library=same if charset == "utf8mb4" and len("".join(labels)) == count else None,
    )  # fmt: skip


_DOCUMENTS: Final = (
    "'null'", "'true'", "'false'", "'0'", "'-1'", "'32767'", "'32768'", "'-32768'", "'-32769'", "'65535'", "'65536'",
    "'2147483648'", "'-2147483649'", "'4294967295'", "'9223372036854775807'", "'9223372036854775808'",
    "'-9223372036854775808'", "'18446744073709551615'", "'18446744073709551616'",
    "'[32767, 32768, 65535, 65536, 2147483647, 4294967295, 4294967296, true, null, false]'",
    "'{}'", "'[]'", "'[[], {}, [[]], {\"\": {}}]'", "'\"\"'", "'{\"b\": 1, \"a\": 2, \"aa\": [1, \"x\", 1.5, null]}'",
    "'{\"b\": [1, 1.0, 1e10, null], \"a\": \"ü😀\\\\n\"}'",
    "JSON_ARRAY('\\\"', '\\\\', '/', '\\b\\f\\n\\r\\t', CHAR(1, 31, 127 USING utf8mb4), 'é😀', UNHEX('E280A8'))",
    "JSON_OBJECT('k\\n\\\"', 1)",
    "JSON_ARRAY(1125899906842624.25e0, -1125899906842173.2e0, 1125899906842624e0, 1e14, 1e15, 1e-14, 1e-15)",
    "JSON_ARRAY(CAST(-12.3400 AS DECIMAL(10,4)), CAST(0 AS DECIMAL(1,0)), CAST(0.5 AS DECIMAL(3,3)))",
    "CAST(CAST(12.50 AS DECIMAL(10,2)) AS JSON)",
    "JSON_ARRAY(CAST(REPEAT('9', 65) AS DECIMAL(65,0)), CAST(-0.1 AS DECIMAL(65,30)))",
    "CAST(REPEAT('9', 65) AS JSON)",
    "JSON_ARRAY(CAST('2024-02-29' AS DATE), CAST('0000-00-00' AS DATE), CAST('9999-12-31' AS DATE))",
    "JSON_ARRAY(CAST('-838:59:58.9' AS TIME(6)), CAST('00:00:01' AS TIME), CAST('100:00:00' AS TIME))",
    "JSON_ARRAY(CAST('2024-02-29 23:59:59.000001' AS DATETIME(6)), CAST('1000-01-01' AS DATETIME))",
    "JSON_ARRAY(b'101', x'00FF', CAST('text' AS BINARY), CAST(REPEAT('x', 200) AS BINARY), CAST('' AS BINARY))",
    "JSON_ARRAY(CAST(REPEAT('x', 57) AS BINARY), CAST(REPEAT('x', 58) AS BINARY), CAST(2024 AS YEAR))",
    "CAST(ST_GeomFromText('POINT(1 2)') AS JSON)",
    "CAST(CONCAT(REPEAT('[', 100), REPEAT(']', 100)) AS JSON)",
    "JSON_ARRAY(REPEAT('x', 127), REPEAT('y', 128), REPEAT('z', 16383), REPEAT('é', 8192))",
    "JSON_OBJECT('s', REPEAT('x', 65000), 't', REPEAT('y', 65000), 'n', JSON_ARRAY(70000, -70000, 1, 1e100))",
    *(f"(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < {last}) SELECT {all_} FROM r)"
      for last, all_ in ((20000, "JSON_ARRAYAGG(n)"), (9000, "JSON_OBJECTAGG(n, n)"))),
)  # fmt: skip


def _doubles() -> str:
    """An array of doubles of all sizes and digits, some by their bits and some short in decimal."""
    dice = random.Random(7)
    numbers = [struct.unpack("<d", dice.randbytes(8))[0] for _ in range(2000)]
    numbers += [round(dice.uniform(-1e6, 1e6), dice.randrange(9)) for _ in range(500)]
    numbers += [float(f"{dice.randrange(1, 10 ** dice.randrange(1, 17))}e{e}") for e in range(-40, 40)]
    numbers += [10.0**e for e in range(-20, 25)] + [-0.0, 5e-324, 2.0**-44, 2.0**53 + 2, 9007199254740993.0]
    shown = (f"{n!r}e0" if "e" not in repr(n) else repr(n) for n in numbers if isfinite(n))
    return f"JSON_ARRAY({', '.join(shown)})"


def document() -> Kind:
    """mysqlbinlog prints a document that's one text without JSON's quotes."""
    shown = "HEX(CAST({c} AS CHAR))"
    return Kind(
        "JSON", (*_DOCUMENTS, _doubles()), random_json.literals(quoted), shown, utf8,
        "HEX(JSON_UNQUOTE({c}))", utf8, lambda t: printed_bytes(t).decode(),
        since=(5, 7, 8),
    )  # fmt: skip


def plain_document() -> Kind:
    """Documents of JSON's own types, which are those that mysql-replication knows."""
    literals = ('\'{"a": [1, -2.5, null, true, "ü"], "b": {}}\'', "'[18446744073709551615, 1e3]'", "'[]'")
    same = document()
    return Kind(
        same.definition, literals, same.values, same.told, same.read, same.logged, same.as_printed, same.printed,
        since=same.since, library=lambda mine, theirs: json.loads(mine) == _texts(theirs),
    )  # fmt: skip


def _texts(value: Any) -> Any:
    """JSON whose texts are UTF-8 bytes."""
    match value:
        case bytes():
            return value.decode()
        case list():
            return [_texts(each) for each in value]
        case dict():
            return {_texts(name): _texts(each) for name, each in value.items()}
        case _:
            return value


_PLACE: Final = st.builds("{} {}".format, st.integers(-80, 80), st.integers(-80, 80))
_SHAPES: Final = {
    "POINT": ("POINT(1.5 -2)", _PLACE.map("POINT({})".format)),
    "LINESTRING": (
        "LINESTRING(0 0,1 2,3 4)",
        st.lists(_PLACE, min_size=2, max_size=4).map(lambda p: f"LINESTRING({','.join(p)})"),
    ),
    "POLYGON": (
        "POLYGON((0 0,10 0,10 10,0 0))",
        st.integers(1, 80).map(lambda n: f"POLYGON((0 0,{n} 0,{n} {n},0 0))"),
    ),
    "MULTIPOINT": (
        "MULTIPOINT(1 2,3 4)",
        st.lists(_PLACE, min_size=1, max_size=3).map(lambda p: f"MULTIPOINT({','.join(p)})"),
    ),
    "GEOMETRYCOLLECTION": (
        "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))",
        _PLACE.map("GEOMETRYCOLLECTION(POINT({}),POLYGON((0 0,10 0,10 10,0 0)))".format),
    ),
}


def geometry(name: str, srid: int, new: bool) -> Kind:
    """A reference system is an attribute of the column since MySQL 8.0, and before that only one of the value."""
    of = [name] if name != "GEOMETRY" else list(_SHAPES)
    edges, shapes = [_SHAPES[each][0] for each in of], st.one_of(*(_SHAPES[each][1] for each in of))
    srid_of = "ST_SRID({c})" if new else "SRID({c})"
    shape = "ST_AsBinary({c}, 'axis-order=long-lat')" if new else "AsWKB({c})"
    return Kind(
        name,
        tuple(f"ST_GeomFromText('{edge}', {srid})" for edge in edges),
        shapes.map(lambda drawn: f"ST_GeomFromText('{drawn}', {srid})"),
        f"CONCAT(LPAD(HEX({srid_of}), 8, '0'), HEX({shape}))",
        lambda t: bytes.fromhex(t[:8])[::-1] + bytes.fromhex(t[8:]),
        UNPRINTED, str,
        since=(8,) if new else (5, 6), before=(100,) if new else (8,), attribute=f"SRID {srid}" if new else "",
        library=lambda mine, theirs: mine == theirs,
    )  # fmt: skip


def vector(width: int) -> Kind:
    number = st.floats(width=32, allow_nan=False, allow_infinity=False)
    values = st.lists(number, min_size=1, max_size=width).map(lambda v: hexed(struct.pack(f"<{len(v)}f", *v)))

    def parts(told: str) -> tuple[float, ...]:
        return struct.unpack(f"<{len(told) // 8}f", bytes.fromhex(told))

    return Kind(
        f"VECTOR({width})", ("TO_VECTOR('[1]')", f"TO_VECTOR('[{','.join(['-2.5e10'] * width)}]')"), values,
        "HEX({c})", lambda t: [part.hex() for part in parts(t)],
        "HEX({c})", lambda t: f"[{','.join(f'{part:.5e}' for part in parts(t))}]",
        since=(9,), generable=False,
    )  # fmt: skip


_SIZES: Final = (
    *((f"CHAR({n})", n) for n in (0, 1, 20, 60, 63, 64, 127, 128, 255)),
    *((f"VARCHAR({n})", n) for n in (0, 1, 20, 63, 64, 255, 256, 300)),
    *(("TINYTEXT", 63), ("TEXT", 16_000), ("MEDIUMTEXT", 66_000), ("LONGTEXT", 1_000_000)),
)
_BINARIES: Final = (
    *((f"BINARY({n})", n) for n in (0, 1, 4, 16, 255)),
    *((f"VARBINARY({n})", n) for n in (0, 1, 4, 16, 255, 256, 300)),
    *(("TINYBLOB", 255), ("BLOB", 65_535), ("MEDIUMBLOB", 66_000), ("LONGBLOB", 1_000_000)),
)
TEXTS: Final = [
    *(text(charset, *size) for charset, size in product(("utf8mb4", "latin1"), _SIZES)),
    *(text(charset, f"{name}({n})", n) for charset in CHARSETS for name, n in (("CHAR", 9), ("VARCHAR", 99))),
    *(text(charset, "TEXT", 300) for charset in CHARSETS),
    *(text(charset, "VARCHAR(5)", 5, f" COLLATE {charset}_bin") for charset in ("utf8mb4", "utf16")),
]
BINARIES: Final = [binary(*size) for size in _BINARIES]
CHOICES: Final = [
    *(
        choice("ENUM", labels)
        for labels in (("x", "y", "é"), ("a", "b'c", "d,e", "ü😀", ""), ("a", "b", "c"))
    ),
    *(choice("ENUM", tuple(map(str, range(n)))) for n in (1, 255, 256, 1000)),
    *(choice("SET", tuple(map(str, range(n)))) for n in (1, 2, 8, 9, 17, 33, 64)),
    *(
        choice("SET", labels)
        for labels in (("p", "q'r", "ß"), ("x", "y", "z"), ("", "a", "b"), ("a", "", "b"))
    ),
    *(
        choice(name, ("é", "ü"), charset)
        for name in ("ENUM", "SET")
        for charset in ("latin1", "utf16", "cp1250")
    ),
]
GEOMETRIES: Final = [
    geometry(name, srid, new) for name, srid, new in product(("GEOMETRY", *_SHAPES), (0, 4326), (False, True))
]
VECTORS: Final = [vector(3)]


@st.composite
def texts(draw: st.DrawFn) -> Kind:
    charset = draw(st.sampled_from(CHARSETS))
    name, longest = draw(st.sampled_from(_SIZES))
    collation = draw(st.sampled_from(["", f" COLLATE {charset}_bin"]))
    return text(charset, name, min(longest, 70_000), collation)


@st.composite
def choices(draw: st.DrawFn) -> Kind:
    """A number before each label keeps them apart in every collation."""
    name = draw(st.sampled_from(["ENUM", "SET"]))
    charset = draw(st.sampled_from(["utf8mb4", "latin1", "utf16", "cp1250"]))
    count = draw(st.integers(1, 12) | st.sampled_from([255, 256, 300] if name == "ENUM" else [8, 9, 33, 64]))
    suffix = draw(st.text("aé'\\\"%\n\0;" if name == "SET" else "aé'\\\"%\n\0,", max_size=3))
    return choice(name, tuple(f"{i}{suffix}" for i in range(count)), charset)


def documents() -> st.SearchStrategy[Kind]:
    return st.just(document())


def others() -> list[st.SearchStrategy[Kind]]:
    """A strategy for each family."""
    families = [st.sampled_from(family) for family in (BINARIES, GEOMETRIES)]
    return [texts(), texts(), choices(), documents(), *families, st.integers(1, 20).map(vector)]
