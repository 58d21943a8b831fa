"""Our messages of random tables beside those of a real Debezium that reads the same log, in random modes.

Keys, values, headers, partitions and the order in each topic have to be equal, but for the differences that
docs/kafka.md lists.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    TimePrecision,
    UnsignedBigintHandling,
)
from tests.integration.kafka.test_against_debezium import account, comparable, ours, server
from tests.servers.debezium_messages import PREFIX, LogStart, Message, debezium_messages, log_end
from tests.servers.value_tables import Table, some_tables

__all__ = ["account", "server"]

_TABLES: Final = 8
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "n": "\n"}
_NEGATIVE: Final = re.compile(r'"-\d+:\d\d:\d\d(\.\d+)?"')
_OPAQUE: Final = re.compile(r'"base64:type\d+:')
_GARBLED: Final = re.compile(r'"(?=[^"]*-)-?\d+:[\d-]+:[\d-]+(\.[\d-]+)?"')
_DAY: Final = re.compile(r"'(\d{4}-\d\d-\d\d)(?: \d\d:\d\d:\d\d(?:\.\d*)?)?'\Z")


def tables_of(number: int) -> list[Table]:
    """The random tables of a seed."""
    found: list[Table] = []

    # The first example is the simplest one, and the second is random.
    @seed(number)
    @settings(max_examples=2, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.lists(some_tables((9, 7, 4)), min_size=_TABLES, max_size=_TABLES))
    def draw(tables: list[Table]) -> None:
        found[:] = tables

    draw()
    return [replace(table, rows=tuple(tuple(map(real_day, row)) for row in table.rows)) for table in found]


def real_day(literal: str) -> str:
    """A literal, with another day for one that Debezium can't write in each mode: it stops there."""
    if (found := _DAY.match(literal)) is None:
        return literal
    try:
        known = 1900 <= date.fromisoformat(found[1]).year <= 2200
    except ValueError:
        known = False
    return literal if known else literal.replace(found[1], "2000-01-01", 1)


def modes_of(some: Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Options of Debezium's, and ours that say the same."""
    decimal = some.choice(list(DecimalHandling))
    time = some.choice(list(TimePrecision))
    unsigned = some.choice(list(UnsignedBigintHandling))
    binary = some.choice(list(BinaryHandling))
    tombstones, transactions = some.random() < 0.5, some.random() < 0.5
    options = {
        "decimal.handling.mode": decimal.value,
        "time.precision.mode": time.value,
        "bigint.unsigned.handling.mode": unsigned.value,
        "binary.handling.mode": binary.value,
        "tombstones.on.delete": str(tombstones).lower(),
        "provide.transaction.metadata": str(transactions).lower(),
    }
    form = {
        "decimal_handling_mode": decimal,
        "time_precision_mode": time,
        "bigint_unsigned_handling_mode": unsigned,
        "binary_handling_mode": binary,
        "tombstones_on_delete": tombstones,
        "provide_transaction_metadata": transactions,
    }
    return options, form


def changed_at_random(server: MysqlServer, tables: Sequence[Table], some: Random) -> LogStart:
    """Fill the tables, and change them in each way; returns where the log stood before."""
    names = [f"shop.t{number}" for number in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        hidden = table.key_at is None
        server.sql(f"SET SESSION sql_generate_invisible_primary_key = {int(hidden)}", table.create(name))
    start = log_end(server)
    for name, table in zip(names, tables, strict=True):
        server.sql(table.insert(name))
    for name, table in zip(names, tables, strict=True):
        rows = range(1, len(table.rows) + 1)
        updates = [table.update(name, key, {}) for key in rows]
        server.sql("BEGIN", *updates, some.choice(["COMMIT", "ROLLBACK"]))
        if table.key_at is not None:
            server.sql(f"UPDATE {name} SET id = id + 100 WHERE id = {some.choice(rows)}")
        if some.random() < 0.3:
            server.sql(f"TRUNCATE {name}", table.insert(name))
        server.sql(f"DELETE FROM {name} ORDER BY {table.key} LIMIT 2")
    return start


@pytest.mark.parametrize("number", [3, *(pytest.param(number, marks=pytest.mark.full) for number in (1, 2))])
def test_random_tables_have_debeziums_messages(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, number: int
) -> None:
    some = Random(number)
    tables = tables_of(number)
    start = changed_at_random(server, tables, some)
    server.sql("INSERT INTO marker.end VALUES (1)")
    options, form = modes_of(some)
    theirs = debezium_messages(parts, server, account, start, "marker.end", tmp_path, options)
    definitions = {
        f"{PREFIX}.shop.t{at}": {column.name: column.sql for column in table.columns}
        for at, table in enumerate(tables)
    }
    found = list(differences(ours(server, account, start, **form), theirs, definitions))
    assert not found, "\n".join((str(options), *found[:40]))


def differences(
    mine: Mapping[str, list[Message]], theirs: Sequence[Message], definitions: Mapping[str, Mapping[str, str]]
) -> Iterator[str]:
    """Where messages differ, but for what's documented; each with the definition of its column."""
    for topic in sorted({message.topic for message in theirs} | mine.keys()):
        found = mine.get(topic, [])
        expected = [message for message in theirs if message.topic == topic]
        columns = definitions.get(topic, {})
        if topic.endswith((".marker.end", ".transaction")):
            continue
        for at, (one, other) in enumerate(zip_longest(found, expected)):
            place = f"{topic} {at}"
            if one is None or other is None:
                yield f"{place}: {one} {other}"
                break
            beside = [
                (each.key, each.headers, each.partition, each.at_ms) for each in map(comparable, (one, other))
            ]
            if beside[0] != beside[1]:
                yield f"{place}: {beside}"
            if comparable(one).value != comparable(other).value:
                yield from (f"{place} {each}" for each in parted(one.value, other.value, columns))


def parted(one: str | None, other: str | None, columns: Mapping[str, str]) -> Iterator[str]:
    """Where two values differ."""
    if one is None or other is None:
        yield f"{one} {other}"
        return
    found, expected = told(one), told(other)
    if found == expected or [*found] != [*expected]:
        yield f"{one} {other}"
    for name in found.keys() & expected.keys():
        before, after = found[name], expected[name]
        if before == after:
            continue
        if name not in ("before", "after") or before is None or after is None or [*before] != [*after]:
            yield f"{name}: {before} {after}"
            continue
        for column in before:
            definition = columns.get(column, column)
            if not excused(definition, before[column], after[column]):
                yield f"{name}: {definition[:100]}: {str(before[column])[:200]} {str(after[column])[:200]}"


def told(value: str) -> dict[str, Any]:
    """An envelope without what's of its making, numbers as they are written."""
    envelope: dict[str, Any] = json.loads(value, parse_float=str)
    for name in ("ts_ms", "ts_us", "ts_ns"):
        del envelope[name]
    del envelope["source"]["version"]
    return envelope


def excused(definition: str, found: Any, expected: Any) -> bool:
    """Whether two values of a column are equal, or differ as docs/kafka.md says."""
    kind = definition.split(" ")[1].partition("(")[0] if " " in definition else definition
    if found == expected:
        return True
    if found is None or expected is None:
        return False
    match kind:
        case "JSON":
            return same_document(found, expected)
        case "ENUM" | "SET":
            return bool(found == _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), expected))
        case "POINT":
            return bool(found == {name: expected[name] for name in expected if name not in ("x", "y")})
        case "YEAR":
            return (found, expected) == (0, 1900) or (found, expected) == ("0", "1900")
        case "FLOAT":
            return bool(np.float32(found) == np.float32(expected))
        case "DOUBLE":
            return float(found) == float(expected)
        case "VECTOR":
            return bool(np.array_equal(np.array(found, np.float32), np.array(expected, np.float32)))
    return False


def same_document(found: str, expected: str) -> bool:
    """Whether two texts are the same document of JSON, but for opaque values, and times below zero."""
    found = _OPAQUE.sub('"', found)
    try:
        return bool(
            json.loads(_NEGATIVE.sub('"time"', found)) == json.loads(_GARBLED.sub('"time"', expected))
        )
    except ValueError:
        return False
