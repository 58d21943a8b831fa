"""Definitions of columns: what's certain of the existing rows; `test_unlogged.py` has complete statements."""

import pytest

from pipeline.schema.ddl.column_definitions import (
    adds_nulls,
    constant_column,
    converts_exactly,
    converts_texts_exactly,
)
from pipeline.schema.ddl.sql_lexer import lexemes
from pipeline.schema.table_traits import TextColumn, Traits
from pipeline.types import column_types as t


@pytest.mark.parametrize(
    ("definition", "nulls", "exact"),
    [
        ("c INT", True, True),
        ("`c` INT NOT NULL", False, True),
        ("c INT DEFAULT (1 + (2))", False, True),
        ("c INT DEFAULT b'0' COMMENT 'x'", False, True),
        ("c DECIMAL(9,2) DEFAULT -1.5", False, True),
        ("c DATETIME DEFAULT NULL ON UPDATE NOW(6) AFTER d", True, True),
        ("c TIMESTAMP", False, False),
        ("c TIMESTAMP NULL", True, True),
        ("c FLOAT8", True, True),
        ("c FLOAT8(9,2)", True, False),
        ("c CHAR(9)", True, False),
        ("c TINYTEXT", True, True),  # a number, which the types decide
        ("c INT CONSTRAINT x CHECK (c > 0) NOT ENFORCED", True, True),
        ("c INT REFERENCES d.t (a) MATCH FULL ON DELETE NO ACTION", True, True),
        ("c INT AS (1)", False, False),
        ("c INT AUTO_INCREMENT", False, False),
        ("c INT PRIMARY KEY", False, False),
        ("c SERIAL", False, False),
        ("c UUID", False, False),
        ("c INT COMPRESSED", False, False),
        ("c INT DEFAULT", False, False),
        ("c INT CHECK (", False, False),
        ("c", False, False),
        ("", False, False),
    ],
)
def test_what_is_certain(definition: str, nulls: bool, exact: bool) -> None:
    found = list(lexemes(definition))
    number = Traits("innodb", columns={"c": None})
    assert (adds_nulls(found), converts_exactly(found, "c", number)) == (nulls, exact)


@pytest.mark.parametrize(("before", "exact"), [("c", True), ("", False), ("d", False)])
def test_a_column_that_was_numbered_keeps_its_zeros(before: str, exact: bool) -> None:
    found = list(lexemes("c BIGINT NOT NULL AUTO_INCREMENT"))
    numbered = Traits("innodb", columns={"c": None, "d": None}, auto_increment=before)
    assert converts_exactly(found, "c", numbered) is exact
    assert constant_column(found) is None


@pytest.mark.parametrize(
    ("definition", "exact"),
    [
        ("c VARCHAR(100)", True),
        ("c VARCHAR(99)", False),
        ("c TINYTEXT", False),
        ("c TEXT", True),
        ("c TINYTEXT CHARACTER SET latin1", True),
        ("c TINYTEXT CHARSET utf8mb4", False),
        ("c TINYTEXT COLLATE latin1_bin NOT NULL", True),
        ("c TEXT(100)", False),
        ("c LONGTEXT", True),
        ("c CHARACTER VARYING(100)", False),
    ],
)
def test_text_needs_the_room_that_it_had(definition: str, exact: bool) -> None:
    """Where the character set may be another one, a character may take more bytes than before."""
    before = Traits("innodb", charset="utf8mb4", columns={"c": TextColumn(100, 100, "latin1")})
    assert converts_exactly(list(lexemes(definition)), "c", before) is exact
    assert converts_exactly(list(lexemes("c INT")), "d", before) is False


@pytest.mark.parametrize(
    ("was", "clause", "exact"),
    [
        (TextColumn(255, 255, "gb18030"), "CHARACTER SET utf8mb4", False),
        (TextColumn(65_535, 65_535, "utf8mb4"), "CHARSET gb18030 COLLATE gb18030_bin", False),
        (TextColumn(255, 255, "ujis"), "CHARACTER SET utf8mb3", False),
        (TextColumn(127, 255, "utf16"), "CHARACTER SET 'utf8mb4'", False),
        (TextColumn(255, 255, "utf8mb4"), "CHARACTER SET DEFAULT", False),
        (TextColumn(255, 255, "utf8mb4"), "COLLATE utf8mb4_bin", False),
        (TextColumn(255, 255, "utf8mb4"), "", False),
        (TextColumn(255, 255, "gb18030"), "CHARACTER SET gb18030 COLLATE gb18030_bin", True),
        (TextColumn(255, 255, "utf8mb3"), "CHARACTER SET utf8mb4", True),
        (TextColumn(255, 255, "utf8mb4"), "CHARACTER SET utf8mb3", True),
        (TextColumn(255, 255, "latin1"), "CHARACTER SET UTF8MB4", True),
        (TextColumn(255, 255, "gbk"), "CHARACTER SET utf8mb4", True),
        (TextColumn(255, 255, "utf8mb4"), "CHARACTER SET latin1", True),
        (TextColumn(255, 1020, "gb18030"), "CHARACTER SET utf8mb4", True),  # a VARCHAR(255)
        (TextColumn(85, 255, "ujis"), "CHARACTER SET utf8mb3", True),  # a VARCHAR(85)
        (None, "CHARACTER SET utf8mb4", True),
    ],
)
def test_convert_to_needs_the_room_that_each_text_had(
    was: TextColumn | None, clause: str, exact: bool
) -> None:
    """What CONVERT TO is followed by; only a TEXT may have too few bytes for its characters."""
    before = Traits("innodb", charset="utf8mb4", columns={"id": None, "c": was})
    assert converts_texts_exactly(list(lexemes(clause)), before) is exact


@pytest.mark.parametrize(
    ("definition", "exact"),
    [
        ("c BLOB", True),
        ("c MEDIUMBLOB NOT NULL", True),
        ("c LONGBLOB", True),
        ("c TINYBLOB", False),
        ("c BLOB(9)", False),
    ],
)
def test_a_blob_needs_the_room_that_it_had(definition: str, exact: bool) -> None:
    """MySQL 5.6 cuts one that becomes shorter, whatever the sql_mode is."""
    before = Traits("innodb", charset="utf8mb4", columns={"c": TextColumn(65_535, 65_535, "binary")})
    assert converts_exactly(list(lexemes(definition)), "c", before) is exact


INT: t.ColumnType = t.Integer(4, unsigned=False)
TEXT: t.ColumnType = t.Text("utf8mb4")


@pytest.mark.parametrize(
    ("definition", "type_", "value"),
    [
        ("c INT DEFAULT 7", INT, "7"),
        ("c INT DEFAULT '-007' NOT NULL", INT, "-7"),
        ("c BOOL DEFAULT TRUE", t.Integer(1, unsigned=False), "1"),
        ("c INT ZEROFILL DEFAULT 4294967295", t.Integer(4, unsigned=True), "4294967295"),
        ("c INT1 DEFAULT -128", t.Integer(1, unsigned=False), "-128"),
        ("c DEC(5) DEFAULT 5.00", t.Decimal(5, 0), "5"),
        ("c DECIMAL DEFAULT 1234567890", t.Decimal(10, 0), "1234567890"),
        ("c DECIMAL(0) NOT NULL", t.Decimal(10, 0), "0"),
        ("c DECIMAL(0,0) DEFAULT 1234567890", t.Decimal(10, 0), "1234567890"),
        ("c DECIMAL(4,2) DEFAULT '-00.50'", t.Decimal(4, 2), "-0.5"),
        ("c DECIMAL(2,2) UNSIGNED DEFAULT .25", t.Decimal(2, 2), "0.25"),
        ("c FLOAT DEFAULT 16777216", t.Float(), "16777216"),
        ("c DOUBLE PRECISION NOT NULL", t.Double(), "0"),
        ("c VARCHAR(3) CHARACTER SET latin1 DEFAULT 'a b'", t.Text("latin1"), "a b"),
        ('c CHAR DEFAULT "x"', TEXT, "x"),
        ("c CHAR(2) DEFAULT ''", TEXT, ""),
        ("c LONGTEXT NOT NULL", TEXT, ""),
        ("c VARBINARY(3) DEFAULT ''", t.Binary(), ""),
        ("c DATE DEFAULT '2024-02-29'", t.Date(), "2024-02-29"),
        ("c DATETIME(6) DEFAULT '2024-02-29 00:00:01'", t.DateTime(6), "2024-02-29 00:00:01"),
        ("c DATETIME DEFAULT '2024-02-29'", t.DateTime(0), "2024-02-29 00:00:00"),
        ("c TIME(2) DEFAULT '01:00:02'", t.Time(2), "3602000000"),
        ("c YEAR DEFAULT '2155'", t.Year(), "2155"),
    ],
)
def test_a_constant_is_a_literal_that_is_a_value_of_the_type(
    definition: str, type_: t.ColumnType, value: str
) -> None:
    found = constant_column(list(lexemes(definition)))
    assert found is not None
    assert (found.column.type, found.value) == (type_, value)
    assert (found.column.name, found.column.nullable) == ("c", "NOT NULL" not in definition)


@pytest.mark.parametrize(
    "definition",
    [
        "c INT",
        "c INT DEFAULT NULL",
        "c INT DEFAULT (7)",
        "c INT DEFAULT 1.0",
        "c INT DEFAULT 1e3",
        "c INT DEFAULT 0x7",
        "c INT DEFAULT 2147483648",
        "c INT UNSIGNED DEFAULT -1",
        "c INT DEFAULT ' 7'",
        "c INT DEFAULT 1 DEFAULT 2",
        "c INT DEFAULT 1 DEFAULT NULL",
        "c INT DEFAULT NULL DEFAULT 1",
        "c INT NULL NOT NULL",
        "c INT AS (1)",
        "c INT DEFAULT '1' '2'",
        "c INT DEFAULT -'1'",
        "c INT DEFAULT abc",
        "c DECIMAL(4,2) DEFAULT 0.125",
        "c DECIMAL(4,2) DEFAULT 100",
        "c DECIMAL(4,2) DEFAULT '.'",
        "c DECIMAL(39) NOT NULL",
        "c DECIMAL(0,1) NOT NULL",
        "c DECIMAL(1,1,1) NOT NULL",
        "c DATETIME(7) DEFAULT '2024-01-01'",
        f"c INT({'0' * 5_000}10) NOT NULL",
        "c DECIMAL(4,2) UNSIGNED DEFAULT -1",
        "c FLOAT DEFAULT 16777217",
        "c DOUBLE DEFAULT 0.5",
        "c DOUBLE DEFAULT '-0'",
        "c FLOAT(7,2) NOT NULL",
        "c REAL NOT NULL",
        "c BIT NOT NULL",
        "c YEAR NOT NULL",
        "c YEAR DEFAULT 24",
        "c VARCHAR(9) DEFAULT 'a '",
        "c VARCHAR(9) DEFAULT 'a\\\\b'",
        "c VARCHAR(9) DEFAULT '~'",
        "c VARCHAR(9) DEFAULT 'ä'",
        "c VARCHAR(2) DEFAULT 'abc'",
        "c CHAR DEFAULT 'ab'",
        "c VARCHAR(9) DEFAULT 5",
        "c VARCHAR(9) DEFAULT N'a'",
        "c VARCHAR(9) DEFAULT 'a''b'",
        "c VARCHAR(9) CHARACTER SET binary NOT NULL",
        "c VARBINARY(9) DEFAULT 'a'",
        "c BINARY(2) NOT NULL",
        "c JSON NOT NULL",
        "c ENUM('a') NOT NULL",
        "c ENUM('a') DEFAULT 'a'",
        "c POINT NOT NULL",
        "c DATE NOT NULL",
        "c DATE DEFAULT '2023-02-29'",
        "c DATE DEFAULT '0000-00-00'",
        "c DATE DEFAULT '24-01-01'",
        "c DATE DEFAULT '2024-01-01 00:00:00'",
        "c DATE DEFAULT 20240101",
        "c DATETIME DEFAULT NOW()",
        "c DATETIME DEFAULT CURRENT_TIMESTAMP",
        "c DATETIME DEFAULT '2024-01-01 00:00:00.5'",
        "c TIME DEFAULT '1:2:3'",
        "c DATETIME DEFAULT '2024-01-01 24:00:00'",
        "c TIMESTAMP NOT NULL DEFAULT '2024-01-01 00:00:00'",
        "c INT PRIMARY KEY",
    ],
)
def test_anything_else_is_none(definition: str) -> None:
    assert constant_column(list(lexemes(definition))) is None


def test_a_literal_may_have_any_number_of_digits() -> None:
    """A server takes so many, and trying each place where zeros end would take days."""
    zeros = "0" * 300_000
    for literal in (f"{zeros}e5", f"{zeros}.{zeros}e5"):
        assert constant_column(list(lexemes(f"c DECIMAL(4,2) DEFAULT {literal}"))) is None
    column = constant_column(list(lexemes(f"c DECIMAL(4,2) DEFAULT '{zeros}7.5{zeros}'")))
    assert column is not None and column.value == "7.5"
