"""What a statement is taken for, by its text, and what isn't taken for anything that's known."""

import pytest

from pipeline.schema.ddl import sql_lexer, statement_kinds
from pipeline.schema.table_schema import TableId

T = TableId("d", "t")


def meaning(text: str) -> statement_kinds.ParsedStatement:
    [reading] = sql_lexer.readings(text)
    return statement_kinds.read_statement(reading, "d")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", statement_kinds.ChangesNoTable()),
        ("# Dummy event", statement_kinds.ChangesNoTable()),
        ("CREATE TABLE IF NOT EXISTS t (a INT)", statement_kinds.CreatesTable(T, if_not_exists=True)),
        ("CREATE TABLE t SELECT 1 AS a", statement_kinds.CreatesTable(T, filled=True)),
        ("create table t (a int) ignore as (select 1)", statement_kinds.CreatesTable(T, filled=True)),
        ("CREATE TABLE t TABLE u", statement_kinds.CreatesTable(T, filled=True)),
        ("CREATE TABLE t (VALUES ROW(1))", statement_kinds.CreatesTable(T, filled=True)),
        (
            "CREATE TABLE t (`select` INT COMMENT 'TABLE') PARTITION BY LIST (`select`) (PARTITION p VALUES IN (1))",
            statement_kinds.CreatesTable(T),
        ),
        ("CREATE TABLE t (a INT) START TRANSACTION", statement_kinds.CreatesTable(T)),
        ("CREATE FULLTEXT INDEX i ON t (a)", statement_kinds.DefinesIndex(T)),
        ("DROP INDEX i ON t ALGORITHM INSTANT", statement_kinds.DefinesIndex(T, copies=False)),
        ("CREATE INDEX i ON t (a) LOCK=NONE ALGORITHM=COPY", statement_kinds.DefinesIndex(T)),
        ("CREATE SPATIAL REFERENCE SYSTEM 4120 NAME 'x'", statement_kinds.ChangesNoTable()),
        ("CREATE OR REPLACE SPATIAL REFERENCE SYSTEM 4 NAME 'x'", statement_kinds.ReplacesSpatialReference()),
        ("DROP SPATIAL REFERENCE SYSTEM IF EXISTS 4", statement_kinds.ReplacesSpatialReference()),
        ("CREATE UNDO TABLESPACE u ADD DATAFILE 'x.ibu'", statement_kinds.ChangesNoTable()),
        ("CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'x.so'", statement_kinds.ChangesNoTable()),
        ("CREATE OR REPLACE TABLE t (a INT)", statement_kinds.CreatesTable(T)),
        ("ALTER DATABASE e CHARACTER SET utf8mb4", statement_kinds.DefinesDatabase("e", created=False)),
        ("ALTER SCHEMA COLLATE utf8mb4_bin", statement_kinds.DefinesDatabase("d", created=False)),
        ("CREATE DATABASE IF NOT EXISTS e", statement_kinds.DefinesDatabase("e", created=True)),
        ("DROP TABLE IF EXISTS t, e.t", statement_kinds.DropsTables((T, TableId("e", "t")), if_exists=True)),
        (
            "ALTER DATABASE `#mysql50#a-b` UPGRADE DATA DIRECTORY NAME",
            statement_kinds.UnparsedStatement("ALTER"),
        ),
        ("DROP SCHEMA IF EXISTS d;", statement_kinds.DropsDatabase("d")),
        ("TRUNCATE t;", statement_kinds.EmptiesTable(T)),
        ("DELETE FROM `d`.`t`", statement_kinds.UnparsedStatement("DELETE")),
        ("DELETE FROM t LIMIT 1", statement_kinds.UnparsedStatement("DELETE")),
        ("RENAME TABLE t TO u", statement_kinds.RenamesTables(((T, TableId("d", "u")),))),
        ("RENAME USER a TO b", statement_kinds.ChangesNoTable()),
        ("OPTIMIZE LOCAL TABLES t, d.t;", statement_kinds.RebuildsTables(frozenset({T}))),
        ("RENAME t TO u", statement_kinds.UnparsedStatement("RENAME")),
        ("SET PASSWORD FOR a = 'x'", statement_kinds.ChangesNoTable()),
        (
            "SET STATEMENT lock_wait_timeout = 5 FOR TRUNCATE t",
            statement_kinds.UnparsedStatement("SET"),
        ),
        ("LOAD DATA INFILE 'x' INTO TABLE t", statement_kinds.UnparsedStatement("LOAD")),
        ("(SELECT 1)", statement_kinds.UnparsedStatement("(")),
    ],
)
def test_what_a_statement_is(text: str, wanted: statement_kinds.ParsedStatement) -> None:
    assert meaning(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("TRUNCATE t", statement_kinds.UnparsedStatement("TRUNCATE TABLE")),
        ("ALTER TABLE t DROP COLUMN a", statement_kinds.UnparsedStatement("ALTER TABLE")),
        ("CREATE TEMPORARY TABLE t LIKE u", statement_kinds.ChangesNoTable()),
        ("DROP TABLE t", statement_kinds.DropsTables((T,))),
    ],
)
def test_a_temporary_table_may_hide_the_one_that_is_named(
    text: str, wanted: statement_kinds.ParsedStatement
) -> None:
    assert statement_kinds.parse_logged("d", text, thread_specific=True).ways == (wanted,)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("DELETE FROM `d`.`t`", T),
        ("DELETE FROM `d`.`a\\b`", None),
        ("DELETE FROM d.t WHERE a = 1", None),
        ("DELETE FROM d.t /*!99999 WHERE a = 1 */", None),
        ("TRUNCATE TABLE d.t", None),
        (f"DELETE FROM `{64 * '``'}`.`{64 * '``'}`", TableId(64 * "`", 64 * "`")),
        (f"DELETE FROM `d`.`t` /* {1000 * 'a'} */", None),
    ],
)
def test_what_a_server_says_of_a_memory_table(text: str, table: TableId | None) -> None:
    assert statement_kinds.emptied_memory_table(text) == table
