"""Which tables get the rows of which others by a statement."""

import pytest

from pipeline.schema.ddl.moved_rows import moved_rows
from pipeline.schema.ddl.statement_kinds import parse_logged


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("RENAME TABLE a TO b", "d.a>d.b"),
        ("RENAME TABLE a TO e.b, c TO a", "d.a>e.b d.c>d.a"),
        ("RENAME TABLE a TO t, b TO a, t TO b", "d.a>d.b d.b>d.a"),
        ("RENAME TABLE a TO t, t TO a", ""),
        ("ALTER TABLE a RENAME TO b", "d.a>d.b"),
        ("ALTER TABLE a ADD c int, RENAME AS `e`.`b`", "d.a>e.b"),
        ("ALTER TABLE a RENAME b", "d.a>d.b"),
        ("ALTER TABLE a RENAME = b", "d.a>d.b"),
        ("ALTER TABLE a RENAME COLUMN b TO c, RENAME INDEX i TO j, RENAME KEY k TO l", ""),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b WITHOUT VALIDATION", "d.a>d.b d.b>d.a"),
        ("ALTER TABLE a EXCHANGE PARTITION", ""),
        ("CREATE TABLE b LIKE a", ""),
        ("DROP TABLE a", ""),
    ],
)
def test_rows_come_from_where_the_statement_takes_them(text: str, moved: str) -> None:
    found = {f"{old}>{new}" for old, new in moved_rows(parse_logged("d", text))}
    assert found == set(moved.split())
