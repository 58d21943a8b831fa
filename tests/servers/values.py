"""Columns of every type with values at their edges, and how the server shows each value in another way."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal as Number
from typing import Any


@dataclass(frozen=True)
class Case:
    """A column, values for it, and how the server shows one of them (`c`) in words that Python reads."""

    column: str
    told: str
    read: Callable[[Any], object]
    literals: tuple[str, ...]


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def utf8(text: str) -> str:
    return bytes.fromhex(text).decode()


def single(text: str) -> float:
    return float(struct.unpack("<f", struct.pack("<f", float(text)))[0])


TEXT = "HEX(CONVERT(c USING utf8mb4))"
MICROSECONDS = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', c)"
CASES = [
    *(
        Case(
            f"{name} {sign}",
            "CAST(c AS CHAR)",
            Number if name + sign[:8] == "BIGINTUNSIGNED" else int,
            tuple(map(str, (0, 1, least, most))),
        )
        for name, bits in (("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64))
        for sign, least, most in (
            ("", -(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
            ("UNSIGNED", 0, 2**bits - 1),
            ("UNSIGNED ZEROFILL", 7, 2**bits - 1),
        )
    ),
    Case("DECIMAL(10,2)", "CAST(c AS CHAR)", Number, ("0", "-0.01", "99999999.99", "-99999999.99", "1.5")),
    Case("DECIMAL(38,0)", "CAST(c AS CHAR)", Number, ("9" * 38, "-" + "9" * 38, "18446744073709551616")),
    Case("DECIMAL(38,30)", "CAST(c AS CHAR)", Number, ("0." + "9" * 30, "-12345678." + "1" * 30)),
    Case("DECIMAL(12,4) ZEROFILL", "CAST(c AS CHAR)", Number, ("1.5", "0")),
    Case("DECIMAL(65,30)", "CAST(c AS CHAR)", str, ("9" * 35 + "." + "9" * 30, "-0." + "0" * 29 + "1")),
    Case("FLOAT", "c * 1e0", single, ("0.1", "-3.4028234e38", "16777217", "1e-45", "3.3333333", "0")),
    Case("FLOAT(7,3)", "c * 1e0", single, ("1234.567", "-0.001")),
    Case("DOUBLE", "c", float, ("0.1", "0.1e0 + 0.2e0", "1.7976931348623157e308", "5e-324", "-1e-7", "1e22")),
    Case("DOUBLE(20,2)", "c * 1e0", float, ("123456789012345678.91", "0.07")),
    Case("BIT(1)", "c + 0", bool, ("0", "1")),
    Case("BIT(10)", "HEX(c + 0)", lambda t: bytes.fromhex(t.rjust(4, "0")), ("0", "1", "1023")),
    Case("BIT(64)", "HEX(c + 0)", lambda t: bytes.fromhex(t.rjust(16, "0")), ("0", "18446744073709551615")),
    Case("YEAR", "c + 0", int, ("0", "1901", "2155", "'2024'")),
    Case("DATE", "DATEDIFF(c, '1970-01-01')", int, ("'1000-01-01'", "'9999-12-31'", "'2024-02-29'")),
    Case("DATE", "NULL", int, ("0", "'2024-00-00'", "'2024-01-00'", "'0000-00-00'")),
    *(
        Case(
            f"{name}({digits})",
            MICROSECONDS,
            int,
            ("'1971-01-01'", "'2024-02-29 23:59:59.999999'", "'2037-12-31 00:00:00.1'"),
        )
        for name in ("DATETIME", "TIMESTAMP")
        for digits in range(7)
    ),
    Case("DATETIME(6)", MICROSECONDS, int, ("'1000-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'")),
    Case("DATETIME(3)", "NULL", int, ("0", "'2024-00-01 10:00:00'", "'2024-01-00 10:00:00.5'")),
    Case("TIMESTAMP", MICROSECONDS, int, ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'")),
    Case("TIMESTAMP(6)", "NULL", int, ("0",)),
    *(
        Case(
            f"TIME({digits})",
            "CAST(TIME_TO_SEC(c) * 1000000 + IF(c < 0, -1, 1) * MICROSECOND(c) AS SIGNED)",
            int,
            ("0", "'-838:59:59'", "'838:59:59'", "'-00:00:00.000001'", "'99:00:00.5'", "'100:00:00.123456'"),
        )
        for digits in range(7)
    ),
    Case("CHAR(5) CHARACTER SET latin1", TEXT, utf8, ("'ü€  '", "''", "'abc'")),
    Case("VARCHAR(5) COLLATE utf8mb4_bin", TEXT, utf8, ("'😀 '", "'\\0a'", "'\\\\'")),
    Case("VARCHAR(5) CHARACTER SET utf16", TEXT, utf8, ("'😀ü'",)),
    Case("VARCHAR(5) CHARACTER SET cp932", TEXT, utf8, ("'カタ'",)),
    *(
        Case(f"{size}TEXT", TEXT, utf8, ("'ä'", "''", "REPEAT('ab', 120)"))
        for size in ("TINY", "", "MEDIUM", "LONG")
    ),
    Case("LONGTEXT", "HEX(c)", utf8, ("REPEAT('ab', 40000)", "REPEAT('x', 17000000)")),
    Case("BINARY(4)", "HEX(c)", unhex, ("'a'", "''", "x'00ff00ff'")),
    Case("VARBINARY(4)", "HEX(c)", unhex, ("'a'", "''", "x'00ff00ff'", "x'fb'")),
    *(
        Case(f"{size}BLOB", "HEX(c)", unhex, ("x'fffe'", "''", "REPEAT(x'ff', 250)"))
        for size in ("TINY", "", "MEDIUM", "LONG")
    ),
    Case("ENUM('a','b''c','d,e','ü😀','')", TEXT, utf8, ("'a'", "'b''c'", "'d,e'", "'ü😀'", "5", "0")),
    Case("ENUM('é') CHARACTER SET latin1", TEXT, utf8, ("'é'",)),
    Case("SET('p','q''r','ß')", TEXT, utf8, ("'p'", "''", "7", "'p,ß'")),
    Case("JSON", "HEX(CAST(c AS CHAR))", utf8, ('\'{"b": [1, 1.0, 1e10, null], "a": "ü😀\\\\n"}\'', "'[]'")),
    *(
        Case(
            f"{kind} SRID {srid}",
            "CONCAT(LPAD(HEX(ST_SRID(c)), 8, '0'), HEX(ST_AsBinary(c, 'axis-order=long-lat')))",
            lambda t: bytes.fromhex(t[:8])[::-1] + bytes.fromhex(t[8:]),
            (f"ST_GeomFromText('{text}', {srid}, 'axis-order=long-lat')",),
        )
        for srid in (0, 4326)
        for kind, text in (
            ("POINT", "POINT(1 2)"),
            ("GEOMETRY", "LINESTRING(0 0,1 2,3 4)"),
            ("POLYGON", "POLYGON((0 0,10 0,10 10,0 0))"),
            ("GEOMETRYCOLLECTION", "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))"),
        )
    ),
    Case("VECTOR(3)", "VECTOR_TO_STRING(c)", json.loads, ("TO_VECTOR('[1,-2.5,1e10]')", "TO_VECTOR('[0]')")),
]
