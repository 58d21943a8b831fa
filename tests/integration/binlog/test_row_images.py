"""Row images that leave columns out, and JSON that is logged in part, as sessions of a live server log them."""

import json
import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.errors import UndecodableError
from pipeline.messages.row_images import ImageKind, TableImages
from pipeline.schema.table_map import FullMetadata
from tests.integration.logging_session import Session
from tests.servers.random_json_parts import partly_changed, value
from tests.servers.value_kinds import quoted

ROW_IMAGES = ("FULL", "NOBLOB", "MINIMAL")


@pytest.fixture
def session(mysql: MysqlServer, database: str) -> Iterator[Session]:
    with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
        yield Session(mysql, cursor)


def given_of(table: TableImages) -> list[tuple[ImageKind, dict[str, Any]]]:
    """Of each row image its kind and the columns that are there, by name."""
    assert table.rows.validate(full=True) is None
    assert isinstance(table.map.metadata, FullMetadata)
    names = table.map.metadata.names
    shown = []
    for kind, bits, row in zip(
        table.images["kind"].to_pylist(),
        table.images["absent"].to_pylist(),
        table.rows.to_pylist(),
        strict=True,
    ):
        there = [bits is None or not bits[i // 8] >> i % 8 & 1 for i in range(len(names))]
        values = list(row.values())
        assert all(value is None for value, is_there in zip(values, there, strict=True) if not is_there)
        shown.append(
            (ImageKind(kind), {n: v for n, v, is_there in zip(names, values, there, strict=True) if is_there})
        )
    return shown


COLUMNS = "a INT, b BLOB, t TEXT, d DATE DEFAULT '2024-05-06', j JSON"
TABLES = {
    "with a key": f"id INT PRIMARY KEY, {COLUMNS}",
    "with unique keys only": f"id INT NOT NULL UNIQUE, {COLUMNS}",
    "with a unique key that may be null": f"id INT UNIQUE, {COLUMNS}",
    "without a key": f"id INT, {COLUMNS}",
}
NAMES = ("id", "a", "b", "t", "d", "j")


@pytest.mark.parametrize("definition", TABLES.values(), ids=TABLES)
def test_what_is_there_of_random_changes_is_what_the_server_had(session: Session, definition: str) -> None:
    """Each change by a session with any binlog_row_image; the server shows the rows before and after it."""
    dice = random.Random(definition)
    session.run(f"CREATE TABLE t ({definition})")
    seen = set()
    for n in range(60):
        row_image = dice.choice(ROW_IMAGES)
        session.run(f"SET binlog_row_image = {row_image}")
        statement, of = change(dice, n)
        before = rows_of(session, of)
        tables = session.logged(statement)
        after = rows_of(session, of)
        if not tables:
            assert before == after
            continue
        (table,) = tables
        for kind, values in given_of(table):
            meant = (after if kind in (ImageKind.INSERT, ImageKind.UPDATE_AFTER) else before)[0]
            assert values == {name: meant[name] for name in values}, (row_image, statement, kind)
            left_out = set(NAMES) - set(values)
            seen.add((row_image, kind, bool(left_out)))
            if kind == ImageKind.UPDATE_AFTER:
                changed = {name for name in NAMES if before[0][name] != after[0][name]}
                assert not left_out & changed, (row_image, statement)
            if row_image == "FULL":
                assert not left_out
    keyed = "PRIMARY KEY" in definition or "NOT NULL UNIQUE" in definition
    assert (("NOBLOB", ImageKind.UPDATE_BEFORE, True) in seen) == keyed, (
        "else a row is told by all of its columns"
    )
    assert ("MINIMAL", ImageKind.INSERT, True) in seen


def change(dice: random.Random, n: int) -> tuple[str, int]:
    """A statement that changes at most one row, and the id of it."""
    of = dice.randrange(1, n // 4 + 2)
    values = {
        "a": str(dice.choice(["NULL", dice.randrange(100)])),
        "b": dice.choice(["NULL", "x'00FF'", "REPEAT('b', 300)"]),
        "t": dice.choice(["NULL", "''", "'naïve'", "REPEAT('é', 500)"]),
        "d": dice.choice(["NULL", "'2020-02-29'", "DEFAULT"]),
        "j": dice.choice(["NULL", "'{\"a\": 1.5}'", "'[]'"]),
    }
    chosen = {name: value for name, value in values.items() if dice.random() < 0.4}
    if n % 4 == 0:
        names = ", ".join(["id", *chosen])
        return (
            f"INSERT INTO t ({names}) VALUES ({', '.join([str(n // 4 + 1), *chosen.values()])})",
            n // 4 + 1,
        )
    if n % 11 == 0:
        return f"DELETE FROM t WHERE id = {of}", of
    return (
        f"UPDATE t SET {', '.join(f'{k} = {v}' for k, v in chosen.items()) or 'id = id'} WHERE id = {of}",
        of,
    )


def rows_of(session: Session, of: int) -> list[dict[str, Any]]:
    return [
        dict(zip(NAMES, row, strict=True))
        for row in session.run(f"SELECT id, a, b, t, d, CAST(j AS CHAR) FROM t WHERE id = {of}")
    ]


def test_an_update_has_from_its_before_image_what_it_leaves_out(session: Session) -> None:
    session.run("CREATE TABLE t (a INT, b TEXT, c INT DEFAULT 5)")
    session.run("INSERT INTO t VALUES (1, 'text', 2)")
    session.run("SET binlog_row_image = MINIMAL")
    (updated,) = session.logged("UPDATE t SET c = 3")
    assert given_of(updated) == [
        (ImageKind.UPDATE_BEFORE, {"a": 1, "b": "text", "c": 2}),
        (ImageKind.UPDATE_AFTER, {"a": 1, "b": "text", "c": 3}),
    ]


def test_what_neither_image_has_is_absent(session: Session) -> None:
    session.run("CREATE TABLE t (a INT PRIMARY KEY, b TEXT, c INT DEFAULT 5)")
    session.run("INSERT INTO t VALUES (1, 'text', 2)")
    session.run("SET binlog_row_image = MINIMAL")
    (updated,) = session.logged("UPDATE t SET c = 3")
    assert given_of(updated) == [
        (ImageKind.UPDATE_BEFORE, {"a": 1}),
        (ImageKind.UPDATE_AFTER, {"a": 1, "c": 3}),
    ]
    (moved,) = session.logged("UPDATE t SET a = 2, b = NULL")
    assert given_of(moved) == [
        (ImageKind.UPDATE_BEFORE, {"a": 1}),
        (ImageKind.UPDATE_AFTER, {"a": 2, "b": None}),
    ]
    (deleted,) = session.logged("DELETE FROM t")
    assert given_of(deleted) == [(ImageKind.DELETE, {"a": 2})]


def test_an_insert_of_nothing_but_defaults(session: Session) -> None:
    session.run("CREATE TABLE t (a INT DEFAULT 1, b INT)")
    session.run("SET binlog_row_image = MINIMAL")
    (inserted,) = session.logged("INSERT INTO t () VALUES ()", "INSERT INTO t (b) VALUES (2), (3)")
    assert given_of(inserted) == [
        (ImageKind.INSERT, {}),
        (ImageKind.INSERT, {"b": 2}),
        (ImageKind.INSERT, {"b": 3}),
    ]


# -- JSON in part


@pytest.fixture
def partial(session: Session) -> Session:
    session.run("SET binlog_row_value_options = PARTIAL_JSON")
    return session


@pytest.mark.parametrize("seed", range(2))
def test_documents_changed_in_part_are_the_servers_own(partial: Session, seed: int) -> None:
    dice = random.Random(seed)
    partial.run("CREATE TABLE t (id INT PRIMARY KEY, i JSON, n INT, j JSON, k JSON)")
    in_part = 0
    for n in range(40):
        document = value(dice)
        if not isinstance(document, dict | list):
            document = {"a": document, "b": [document, "x" * 200]}
        text = json.dumps(document, ensure_ascii=False)
        partial.run(f"REPLACE INTO t VALUES (1, '[1]', 0, {quoted(text)}, '{{\"k\": 1}}')")
        for m in range(5):
            (before,) = partial.run("SELECT CAST(j AS CHAR), CAST(k AS CHAR) FROM t")
            change = f"UPDATE t SET j = {partly_changed(dice, 'j', json.loads(before[0]))}, n = {m + 1}"
            change += dice.choice(["", f", k = JSON_SET(k, '$.k', {m})", ", k = '[1, 2]'", ", k = NULL"])
            (table,) = partial.logged(change)
            in_part += partial.codes.count(39)
            (after,) = partial.run("SELECT CAST(j AS CHAR), CAST(k AS CHAR) FROM t")
            assert table.rows["3"].to_pylist() == [before[0], after[0]], change
            assert table.rows["4"].to_pylist() == [before[1], after[1]], change
            assert table.rows["1"].to_pylist() == ["[1]", "[1]"]
            if after[0] is None:
                break
        assert n < 39 or in_part > 40


def test_diffs_of_many_rows_beside_whole_documents(partial: Session) -> None:
    partial.run("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    rows = (f"({n}, JSON_OBJECT('n', {n}, 's', REPEAT('x', 99)))" for n in range(500))
    partial.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    (table,) = partial.logged(
        "UPDATE t SET j = IF(id % 3 = 0, NULL, JSON_SET(j, '$.n', -id))",
        "UPDATE t SET j = JSON_SET(j, '$.n', id * 1.5e0)",
    )
    printed = [
        text for (text,) in partial.run("SELECT CAST(j AS CHAR) FROM t WHERE j IS NOT NULL ORDER BY id")
    ]
    assert table.rows["1"].to_pylist()[-2 * len(printed) :][1::2] == printed


def test_diffs_beside_noblob_images_have_the_document_before(partial: Session) -> None:
    """It was read to be changed, and so it's in the before image, BLOB or not."""
    partial.run("CREATE TABLE t (id INT PRIMARY KEY, b BLOB, j JSON)")
    partial.run("INSERT INTO t VALUES (1, 'b', JSON_OBJECT('n', 1, 's', REPEAT('x', 99)))")
    partial.run("SET binlog_row_image = NOBLOB")
    (table,) = partial.logged("UPDATE t SET j = JSON_SET(j, '$.n', 2)")
    assert partial.codes == [39]
    assert [set(values) for _, values in given_of(table)] == [{"id", "j"}, {"id", "j"}]
    assert table.rows["2"].to_pylist()[1] == f'{{"n": 2, "s": "{"x" * 99}"}}'


def test_diffs_without_the_document_before_are_refused_by_name(partial: Session, database: str) -> None:
    partial.run("CREATE TABLE t (id INT PRIMARY KEY, j JSON)")
    partial.run("INSERT INTO t VALUES (1, JSON_OBJECT('n', 1, 's', REPEAT('x', 99)))")
    partial.run("SET binlog_row_image = MINIMAL")
    with pytest.raises(UndecodableError, match=rf"^{database}\.t\.j: .*binlog_row_value_options=''"):
        partial.logged("UPDATE t SET j = JSON_SET(j, '$.n', 2)")
