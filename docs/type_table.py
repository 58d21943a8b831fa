"""Writes the table of types into docs/types.md, from the functions that the product itself calls.

    python -m docs.type_table

A row begins with a column's type as information_schema spells it; `pipeline.types.column_types` and
`pipeline.lake.tables.spark_sql` say the rest. A test holds the document against them, and that no type is left out.
"""

from pathlib import Path
from typing import Final

from docs.draw import replaced
from pipeline.lake.tables.spark_sql import spark_type
from pipeline.source.information_schema import column_type
from pipeline.types.column_types import ColumnType, arrow_type

DOCUMENT: Final = Path(__file__).parent / "types.md"
BEGIN: Final = "<!-- types: begin (python -m docs.type_table) -->"
END: Final = "<!-- types: end -->"

# COLUMN_TYPE, and what may surprise in the lake.
ROWS: Final = (
    ("tinyint", "BOOLEAN is this type: 0 and 1; no value has a display width or ZEROFILL"),
    ("tinyint unsigned", ""),
    ("smallint", ""),
    ("smallint unsigned", ""),
    ("mediumint", ""),
    ("mediumint unsigned", ""),
    ("int", ""),
    ("int unsigned", ""),
    ("bigint", ""),
    ("bigint unsigned", "Spark has no unsigned integers, and a signed one of 64 bits is too small"),
    ("decimal(38,10)", "any precision up to 38, also UNSIGNED"),
    ("decimal(65,30)", "any precision from 39: the text that the server prints"),
    (
        "float",
        "exact to the bit, also -0 and subnormal numbers; also FLOAT(m,d); MySQL has no NaN and no infinity",
    ),
    ("double", "exact to the bit; also DOUBLE(m,d) and REAL"),
    ("bit(1)", ""),
    ("bit(64)", "any width from 2: as few bytes as hold it, the most significant first"),
    ("year", "0 for the year 0000"),
    ("date", "from the year 0000 to 9999; null, and counted, for a day that no calendar has"),
    ("time(6)", "signed microseconds for any number of digits, within ±838:59:59"),
    (
        "datetime(6)",
        "a local time, for any number of digits; null, and counted, for a day that no calendar has",
    ),
    ("timestamp(6)", "an instant, for any number of digits; null, and counted, for the zero timestamp"),
    ("char(10)", "without trailing spaces, which the server removes"),
    ("varchar(10)", "with trailing spaces, if it has any"),
    ("longtext", "also the smaller TEXTs; from each column's own character set into UTF-8"),
    ("binary(16)", "padded with zero bytes to its width"),
    ("varbinary(16)", "unchanged"),
    ("longblob", "also the smaller BLOBs"),
    ("enum('a','b')", "the label; empty text for the invalid value, whose number is 0"),
    (
        "set('a','b')",
        "labels in their declared order with commas between, none after only empty labels; empty text for none",
    ),
    ("json", "the text that the server prints, byte for byte"),
    ("geometry", "also its subtypes: the SRID (4 bytes, little-endian), then WKB"),
    ("vector(3)", "exact to the bit; as many numbers as the value has, which may be fewer than declared"),
)


def kinds() -> tuple[ColumnType, ...]:
    """The type of each row. Raises ValueError where Tidemark doesn't know it."""
    found = tuple(column_type(text, "utf8mb4") for text, _ in ROWS)
    if None in found:
        raise ValueError(f"{ROWS[found.index(None)][0]} isn't a type that Tidemark knows")
    return tuple(kind for kind in found if kind is not None)


def table() -> str:
    """The table in Markdown."""
    lines = ["| MySQL | Arrow, in the journal | Spark, in the lake | |", "|---|---|---|---|"]
    for (text, remark), kind in zip(ROWS, kinds(), strict=True):
        name, bracket, arguments = text.partition("(")
        arrow = arrow_type(kind)
        lines.append(
            f"| `{name.upper()}{bracket}{arguments}` | `{arrow}` | `{spark_type(arrow)}` | {remark} |"
        )
    return "\n".join(lines)


def written(document: str) -> str:
    """The document with the present table."""
    return replaced(document, BEGIN, END, table())


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
