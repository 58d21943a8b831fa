"""What a statement is sure to make of a table's columns: names that change, and columns that go."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeline.schema.ddl.alter_table import (
    Alteration,
    ColumnChanges,
    alteration_of,
    column_changes,
    is_certain,
    shortens_key,
    uncertain_tables,
)
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.ddl.statement_kinds import parse_logged
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text

INT, TEXT = Integer(4, unsigned=False), Text("utf8mb4")
T = TableId("d", "t")
A, B, C = Column("a", INT, False), Column("B", TEXT, True), Column("c", INT, True)
SCHEMA = TableSchema(T, (A, B, C), (2, 0))


@pytest.mark.parametrize(
    ("text", "renamed", "dropped"),
    [
        ("ALTER TABLE t RENAME COLUMN a TO b", [("a", "b")], []),
        ("alter table d.t rename column `a``b` to `emoji \U0001f30a`;", [("a`b", "emoji \U0001f30a")], []),
        ("ALTER TABLE t CHANGE a b INT DEFAULT (1, 2), CHANGE COLUMN c d TEXT", [("a", "b"), ("c", "d")], []),
        ("ALTER TABLE t CHANGE a A INT", [("a", "A")], []),
        ("ALTER TABLE t CHANGE a b INT COMMENT 'x, DROP c' AFTER c", [("a", "b")], []),
        (
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            [("a", "b"), ("b", "a")],
            [],
        ),
        ("ALTER TABLE t DROP a, DROP COLUMN `index`, ADD b INT, ALGORITHM=INPLACE", [], ["a", "index"]),
        ("ALTER ONLINE TABLE `t` DROP a, RENAME COLUMN b TO a", [("b", "a")], ["a"]),
        ("/* why */ ALTER TABLE t -- it\n DROP a # all", [], ["a"]),
    ],
)
def test_what_is_renamed_and_what_goes(text: str, renamed: list[tuple[str, str]], dropped: list[str]) -> None:
    assert column_changes(parse_logged("d", text)) == (T, ColumnChanges(tuple(renamed), tuple(dropped)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ALTER TABLE t ADD a INT, MODIFY b INT, CHANGE c c BIGINT",
        "ALTER TABLE t DROP INDEX a, DROP KEY b, DROP PRIMARY KEY, DROP FOREIGN KEY x, DROP CONSTRAINT y, DROP CHECK z",
        "ALTER TABLE t RENAME u, RENAME INDEX a TO b",
        "ALTER TABLE t RENAME COLUMN a b",
        "ALTER TABLE t DROP COLUMN 'a'",
        "ALTER TABLE t DROP COLUMN t.a",
        "ALTER TABLE t DROP d.t.a",
        "ALTER TABLE t CHANGE a t.b INT",
        "ALTER TABLE t CHANGE t.a b INT",
        "ALTER TABLE t COMMENT 'RENAME COLUMN a TO b'",
        "DROP TABLE t",
        "ALTER VIEW t AS SELECT 1",
        # The string ends elsewhere with NO_BACKSLASH_ESCAPES, and only new servers execute the inside.
        r"ALTER TABLE t COMMENT 'x\', DROP a, COMMENT 'y'",
        "ALTER TABLE t ADD x INT /*!80000 , RENAME COLUMN a TO b */",
    ],
)
def test_nothing_is_told_that_is_not_sure(text: str) -> None:
    assert column_changes(parse_logged("d", text)) is None


def test_columns_that_come_with_constants() -> None:
    text = "ALTER TABLE t ADD x INT NOT NULL DEFAULT 7, ADD (y INT, z TEXT NOT NULL), ADD w INT DEFAULT (1)"
    added = (
        ConstantColumn(Column("x", INT, False), "7"),
        ConstantColumn(Column("z", TEXT, False), ""),
    )
    assert column_changes(parse_logged("d", text)) == (T, ColumnChanges(added=added))
    altered = alteration_of(SCHEMA, ColumnChanges((("c", "z"),), (), added[:1]), "ALTER TABLE")
    assert altered is not None
    assert [column.name for column in altered.schema.columns] == ["a", "B", "z", "x"]
    assert (altered.schema.key_names, altered.changes.added) == (("z", "a"), added[:1])
    # A column that's there isn't the one that came.
    for of in (
        ColumnChanges(added=(ConstantColumn(replace(C, name="b"), "1"),)),
        ColumnChanges((("c", "Z"),), (), added),
    ):
        told = alteration_of(SCHEMA, of, "ALTER TABLE")
        assert told is None or told.changes.added == ()
    # What a server after 8.0 gives to them, an older one doesn't.
    assert (
        column_changes(
            parse_logged("d", "ALTER TABLE t ADD x INT DEFAULT /*!80000 7, ADD y INT DEFAULT */ 8")
        )
        is None
    )


def test_only_names_change_and_indices_of_the_key() -> None:
    found = alteration_of(SCHEMA, ColumnChanges((("b", "n"), ("A", "id"), ("gone", "x")), ()), "ALTER TABLE")
    columns = (replace(A, name="id"), replace(B, name="n"), C)
    assert found == Alteration(
        TableSchema(T, columns, (2, 0)), "ALTER TABLE", ColumnChanges((("B", "n"), ("a", "id")))
    )
    found = alteration_of(SCHEMA, ColumnChanges((), ("b", "gone")), "ALTER TABLE")
    assert found == Alteration(TableSchema(T, (A, C), (1, 0)), "ALTER TABLE", ColumnChanges((), ("B",)))


def test_a_name_may_go_to_another_column() -> None:
    keyless = replace(SCHEMA, key=())
    swapped = alteration_of(keyless, ColumnChanges((("a", "c"), ("c", "a")), ()), "ALTER TABLE")
    assert swapped is not None
    assert [column.name for column in swapped.schema.columns] == ["c", "B", "a"]
    followed = alteration_of(keyless, ColumnChanges((("c", "a"),), ("a",)), "ALTER TABLE")
    assert followed is not None
    assert followed.schema.columns == (B, replace(C, name="a"))


def test_of_two_names_that_are_nearly_one_the_column_of_that_very_name_is_meant() -> None:
    sharp = TableSchema(T, (A, replace(B, name="ß"), replace(C, name="ss")), (0,))
    found = alteration_of(sharp, ColumnChanges((("ß", "x"),), ()), "ALTER TABLE")
    assert found is not None
    assert found.changes == ColumnChanges((("ß", "x"),))
    found = alteration_of(sharp, ColumnChanges((), ("ß",)), "ALTER TABLE")
    assert found is not None
    assert found.schema.columns == (A, replace(C, name="ss"))


@pytest.mark.parametrize(
    ("text", "uncertain"),
    [
        ("ALTER TABLE t DROP a, RENAME COLUMN b TO c", False),
        ("ALTER TABLE t DROP a /*!80012 , ALGORITHM=INSTANT */", False),
        ("ALTER TABLE t ADD x INT /*!80000 NOT NULL */", False),
        ("ALTER TABLE t /*!80000 DROP a */", True),
        ("ALTER TABLE t DROP t.a", True),
        ("ALTER TABLE t RENAME COLUMN a b", True),
        ("DROP TABLE t", False),
        ("ALTER TABLE t ADD x INT /*!80000 , RENAME COLUMN a TO b */", True),
        (r"ALTER TABLE t COMMENT 'x\', DROP a, COMMENT 'y'", True),
    ],
)
def test_a_text_that_can_be_read_in_two_ways_may_change_columns(text: str, uncertain: bool) -> None:
    assert uncertain_tables(parse_logged("d", text)) == ({T} if uncertain else set())


@pytest.mark.parametrize(
    ("changes", "certain"),
    [
        (ColumnChanges((("A", "x"),), ("b", "gone")), True),
        (ColumnChanges((("a", "c"), ("c", "a"))), True),
        (ColumnChanges((("c", "ä"),), ("Äpfel",)), True),
        # MySQL takes İ for i, and not ß for ss: Unicode folds them otherwise.
        (ColumnChanges((), ("ii",)), False),
        (ColumnChanges((), ("ss",)), False),
        (ColumnChanges((("STRASSE", "x"),)), True),
        # It found a table without B.
        (ColumnChanges((("c", "b"),)), False),
    ],
)
def test_a_name_that_may_be_a_columns_is_not_certain(changes: ColumnChanges, certain: bool) -> None:
    others = (replace(C, name=name) for name in ("Äpfel", "İi", "ß"))
    assert is_certain(TableSchema(T, (A, B, C, *others), (2, 0)), changes) is certain


def test_a_column_of_the_key_that_goes_shortens_it() -> None:
    assert shortens_key(SCHEMA, ColumnChanges((), ("A",)))
    assert not shortens_key(SCHEMA, ColumnChanges((("a", "x"),), ("b", "gone")))


def test_what_says_nothing_of_the_known_columns_is_no_alteration() -> None:
    assert alteration_of(SCHEMA, ColumnChanges((("x", "y"), ("a", "a")), ("z",)), "ALTER TABLE") is None


def test_a_column_of_the_key_does_not_go() -> None:
    """Rows that it told apart can't stay, so the verification of the next schema has to miss it."""
    assert alteration_of(SCHEMA, ColumnChanges((), ("a",)), "ALTER TABLE") is None


class CountedColumns(tuple[Column, ...]):
    """A table's columns, which count how often they were all walked."""

    __slots__ = ()
    walks = 0

    def __iter__(self) -> Iterator[Column]:
        CountedColumns.walks += 1
        return super().__iter__()


def test_columns_are_walked_as_often_for_many_names_as_for_few() -> None:
    columns = CountedColumns(Column(f"c{i}", INT, True) for i in range(200))
    schema = TableSchema(T, columns, (199,))

    def walks(names: int) -> int:
        CountedColumns.walks = 0
        changes = ColumnChanges(tuple((f"C{i}", f"n{i}") for i in range(names)), ("C198", "other"))
        assert is_certain(schema, changes)
        assert not shortens_key(schema, changes)
        assert alteration_of(schema, changes, "ALTER TABLE") is not None
        return CountedColumns.walks

    assert walks(100) == walks(1) > 0
