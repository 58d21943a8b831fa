"""The live view. SQLite, which shares its SQL, evaluates it on thousands of histories."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Definite
from pipeline.lake_tables import Tier, location, quoted
from pipeline.live_view import Reached, Versions, live_view_sql
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import Date, Integer, Text

INT = Integer(8, unsigned=False)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (Column("id", INT, False), Column("part", Text("utf8mb4"), False), Column("v", INT, True)),
    (1, 0),
)
MIRROR, CHANGELOG = (location("lake", ORDERS.table, tier) for tier in (Tier.MIRROR, Tier.CHANGELOG))

KEYS = st.tuples(st.integers(1, 3), st.sampled_from(["a", "A", ""]))
# A change: its key, and its value or None for a delete. A transaction: some of these.
CHANGES = st.tuples(KEYS, st.none() | st.integers(0, 9))
HISTORIES = st.lists(st.lists(CHANGES, min_size=1, max_size=4), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("ATTACH ':memory:' AS delta")
    connection.execute(f"CREATE TABLE delta.{quoted(MIRROR)} (id, part, v)")
    connection.execute(
        f"CREATE TABLE delta.{quoted(CHANGELOG)} (__op, __scn, __ordinal, __segment, id, part, v)"
    )
    yield connection
    connection.close()


def put(database: sqlite3.Connection, path: str, rows: list[tuple[object, ...]]) -> None:
    database.execute(f"DELETE FROM delta.{quoted(path)}")
    for row in rows:
        database.execute(f"INSERT INTO delta.{quoted(path)} VALUES ({', '.join('?' * len(row))})", row)


@given(history=HISTORIES, merged=st.integers(0, 8), known=st.integers(0, 8))
def test_the_live_view_is_the_source_whatever_was_merged_and_whatever_of_it_is_known(
    database: sqlite3.Connection,
    history: list[list[tuple[tuple[int, str], int | None]]],
    merged: int,
    known: int,
) -> None:
    source: dict[tuple[int, str], int] = {}
    mirror: dict[tuple[int, str], int] = {}
    log: list[tuple[object, ...]] = []
    for scn, transaction in enumerate(history, start=1):
        for ordinal, (key, value) in enumerate(transaction):
            log.append(("d" if value is None else "u", scn, ordinal, scn, *key, value))
            source.pop(key, None)
            if value is not None:
                source[key] = value
        if scn <= merged:
            mirror = dict(source)
    put(database, MIRROR, [(*key, value) for key, value in mirror.items()])
    put(database, CHANGELOG, log[::-1])
    reached = min(known, merged, len(history))
    found = database.execute(live_view_sql("lake", ORDERS, Reached(0, reached))).fetchall()
    assert sorted(found) == sorted((*key, value) for key, value in source.items())


@given(history=HISTORIES, chunks=st.lists(st.integers(0, 8), min_size=9, max_size=9))
def test_while_the_first_snapshot_fills_the_mirror_every_change_wins(
    database: sqlite3.Connection, history: list[list[tuple[tuple[int, str], int | None]]], chunks: list[int]
) -> None:
    keys = [(id_, part) for id_ in (1, 2, 3) for part in ("a", "A", "")]
    source = dict.fromkeys(keys, 99)
    emitted: dict[tuple[int, str], int] = {}
    log: list[tuple[object, ...]] = []
    for scn, transaction in enumerate([[], *history]):
        for ordinal, (key, value) in enumerate(transaction):
            log.append(("d" if value is None else "u", scn, ordinal, scn, *key, value))
            source.pop(key, None)
            if value is not None:
                source[key] = value
        emitted |= {k: source[k] for k, at in zip(keys, chunks, strict=True) if at == scn and k in source}
    covered = {k for k, at in zip(keys, chunks, strict=True) if at <= len(history)} | {
        (r[4], r[5]) for r in log
    }
    put(database, MIRROR, [(*key, value) for key, value in emitted.items()])
    put(database, CHANGELOG, log)
    found = database.execute(live_view_sql("lake", ORDERS, Reached())).fetchall()
    assert sorted(found) == sorted((*key, value) for key, value in source.items() if key in covered)


@given(history=HISTORIES, anew=st.integers(0, 8), merges=st.integers(0, 8))
def test_beside_a_mirror_that_began_anew_no_older_change_counts(
    database: sqlite3.Connection,
    history: list[list[tuple[tuple[int, str], int | None]]],
    anew: int,
    merges: int,
) -> None:
    """The table is emptied without a change, behind a transaction that may be in the middle of a segment."""
    anew = min(anew, len(history))
    source: dict[tuple[int, str], int] = {}
    mirror: dict[tuple[int, str], int] = {}
    merged = 0
    log: list[tuple[object, ...]] = []
    for scn, transaction in enumerate([[], *history]):
        segment = scn // 2 + 1
        for ordinal, (key, value) in enumerate(transaction):
            log.append(("d" if value is None else "u", scn, ordinal, segment, *key, value))
            source.pop(key, None)
            if value is not None:
                source[key] = value
        if scn == anew:
            source = {}
        if scn >= anew and scn % 2 and segment <= merges:
            mirror, merged = dict(source), segment
    put(database, MIRROR, [(*key, value) for key, value in mirror.items()])
    put(database, CHANGELOG, log[::-1])
    found = database.execute(live_view_sql("lake", ORDERS, Reached(anew, merged))).fetchall()
    assert sorted(found) == sorted((*key, value) for key, value in source.items())


def test_a_query_can_be_bound_to_versions() -> None:
    text = live_view_sql("lake", ORDERS, Reached(2, 7), Versions(mirror=3, changelog=5))
    assert f"{quoted(MIRROR)} VERSION AS OF 3" in text
    assert f"{quoted(CHANGELOG)} VERSION AS OF 5" in text
    assert text.index("mirror") > text.index("`__segment` > 7 AND `__scn` > 2")


def test_a_table_without_a_key_has_no_live_view() -> None:
    with pytest.raises(Definite, match=r"shop\.bag has no primary key"):
        live_view_sql("lake", TableSchema(TableId("shop", "bag"), ORDERS.columns, ()), Reached())


def test_a_key_that_may_be_null_here_is_compared_so_that_null_equals_null() -> None:
    days = TableSchema(
        TableId("shop", "days"), (Column("day", Date(), False), Column("id", INT, False)), (0, 1)
    )
    assert "m.`day` <=> c.`day` AND m.`id` = c.`id`" in live_view_sql("lake", days, Reached())
