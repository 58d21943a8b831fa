"""Definitions of columns: what's certain of the existing rows; `test_unlogged.py` has complete statements."""

import pytest

from pipeline.schema.ddl.column_definitions import adds_nulls, converts_exactly
from pipeline.schema.ddl.sql_lexer import lexemes
from pipeline.schema.table_traits import TextColumn, Traits


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
