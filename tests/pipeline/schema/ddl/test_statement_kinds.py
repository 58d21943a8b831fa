"""What a statement is taken for, by its text, and what isn't taken for anything that's known."""

import pytest

from pipeline.schema.ddl.sql_lexer import readings
from pipeline.schema.ddl.statement_kinds import (
    ChangesNoTable,
    DefinesTable,
    DropsDatabase,
    EmptiesTable,
    ParsedStatement,
    RenamesTables,
    UnparsedStatement,
    emptied_memory_table,
    read_statement,
)
from pipeline.schema.table_schema import TableId

T = TableId("d", "t")


def meaning(text: str) -> ParsedStatement:
    [reading] = readings(text)
    return read_statement(reading, "d")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ChangesNoTable()),
        ("# Dummy event", ChangesNoTable()),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", DefinesTable(T)),
        ("CREATE FULLTEXT INDEX i ON t (a)", DefinesTable(T)),
        ("CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'", ChangesNoTable()),
        ("CREATE UNDO TABLESPACE u ADD DATAFILE 'x.ibu'", ChangesNoTable()),
        ("CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x.so'", ChangesNoTable()),
        ("CREATE OR REPLACE TABLE t (a INT)", DefinesTable(T)),
        ("ALTER DATABASE d CHARACTER SET utf8mb4", ChangesNoTable()),
        ("ALTER DATABASE `#mysql50#a-b` UPGRADE DATA DIRECTORY NAME", UnparsedStatement("ALTER")),
        ("DROP SCHEMA IF EXISTS d;", DropsDatabase("d")),
        ("TRUNCATE t;", EmptiesTable(T)),
        ("DELETE FROM `d`.`t`", UnparsedStatement("DELETE")),
        ("DELETE FROM t LIMIT 1", UnparsedStatement("DELETE")),
        ("RENAME TABLE t TO u", RenamesTables(((T, TableId("d", "u")),))),
        ("RENAME USER a TO b", ChangesNoTable()),
        ("RENAME t TO u", UnparsedStatement("RENAME")),
        ("LOAD DATA INFILE 'x' INTO TABLE t", UnparsedStatement("LOAD")),
        ("(SELECT 1)", UnparsedStatement("(")),
    ],
)
def test_what_a_statement_is(text: str, wanted: ParsedStatement) -> None:
    assert meaning(text) == wanted


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("DELETE FROM `d`.`t`", T),
        ("DELETE FROM `d`.`a\\b`", None),
        ("DELETE FROM d.t WHERE a = 1", None),
        ("DELETE FROM d.t /*!99999 WHERE a = 1 */", None),
        ("TRUNCATE TABLE d.t", None),
    ],
)
def test_what_a_server_says_of_a_memory_table(text: str, table: TableId | None) -> None:
    assert emptied_memory_table(text) == table
