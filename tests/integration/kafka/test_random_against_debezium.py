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
from pipeline.types.charset_tables import code_tables
from tests.integration.kafka.test_against_debezium import account, comparable, ours, server
from tests.servers.altered_tables import AlteredTable
from tests.servers.debezium_messages import PREFIX, LogStart, Message, debezium_messages, log_end
from tests.servers.value_tables import TWO_OF_EACH, Column, Table, some_tables

__all__ = ["account", "server"]

_TABLES: Final = 8
_ALTERATIONS: Final = 6
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "n": "\n"}
_REPLACED: Final = re.compile("\ufffd+")
_NEGATIVE: Final = re.compile(r'"-\d+:\d\d:\d\d(\.\d+)?"')
_WHOLE: Final = re.compile(r'"((?:\d{4}-\d\d-\d\d )?\d+:\d\d:\d\d)\.000000"')
_OPAQUE: Final = re.compile(r'"base64:type\d+:([^"]*)')
_GARBLED: Final = re.compile(r'"(?=[^"]*-)-?\d+:[\d-]+:[\d-]+(\.[\d-]+)?"')
_OF_A_DAY: Final = re.compile(r"'([01]\d|2[0-3]):")
_FLOATS: Final = ("FLOAT", "DOUBLE", "VECTOR")
_FLOAT: Final = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?|-?\d+(\.\d+)?(e[+-]?\d+)?")
_DAY: Final = re.compile(r"'(\d{4}-\d\d-\d\d)(?: \d\d:\d\d:\d\d(?:\.\d*)?)?'\Z")
# What Debezium reads character sets with that Java lacks.
_CHARSETS: Final = {
    **dict.fromkeys(("armscii8", "dec8", "geostd8", "hp8", "swe7"), "cp1252"),
    "keybcs2": "cp852",
}
_CHARSET: Final = re.compile(rf" CHARACTER SET ({'|'.join(_CHARSETS)})\b")


def real_day(literal: str) -> str:
    """A literal, with another day for one that Debezium can't write in each mode: it stops there."""
    if (found := _DAY.match(literal)) is None:
        return literal
    try:
        known = 1900 <= date.fromisoformat(found[1]).year <= 2200
    except ValueError:
        known = False
    return literal if known else literal.replace(found[1], "2000-01-01", 1)


# Of new columns, each with literals that Debezium takes in each mode.
_KINDS: Final = [(kind, [real_day(edge) for edge in kind.edges]) for kind in TWO_OF_EACH]


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
    return [
        replace(table, rows=tuple(tuple(map(taken, table.written, row)) for row in table.rows))
        for table in found
    ]


def taken(column: Column, literal: str) -> str:
    """A literal, with another for one at which Debezium stops in some mode."""
    if column.kind.definition.startswith("TIME(") and not column.nullable and not _OF_A_DAY.match(literal):
        return "'12:34:56'"
    return real_day(literal)


def modes_of(some: Random) -> tuple[dict[str, str], dict[str, Any]]:
    """Options of Debezium's, and ours that say the same."""
    decimal = some.choice(list(DecimalHandling))
    time = some.choice(list(TimePrecision))
    unsigned = some.choice(list(UnsignedBigintHandling))
    binary = some.choice(list(BinaryHandling))
    tombstones, transactions = some.random() < 0.5, some.random() < 0.5
    skipped = some.choice(("none", "t", "none", "u"))
    options = {
        "decimal.handling.mode": decimal.value,
        "time.precision.mode": time.value,
        "bigint.unsigned.handling.mode": unsigned.value,
        "binary.handling.mode": binary.value,
        "tombstones.on.delete": str(tombstones).lower(),
        "provide.transaction.metadata": str(transactions).lower(),
        "skipped.operations": skipped,
    }
    form = {
        "decimal_handling_mode": decimal,
        "time_precision_mode": time,
        "bigint_unsigned_handling_mode": unsigned,
        "binary_handling_mode": binary,
        "tombstones_on_delete": tombstones,
        "provide_transaction_metadata": transactions,
        "skipped_operations": (skipped,),
    }
    return options, form


def changed_at_random(server: MysqlServer, tables: Sequence[AlteredTable], some: Random) -> LogStart:
    """Make the tables, fill them, and change them in each way; returns where the log stood before.

    Where the log has all columns of a row, whatever `binlog_row_image` says, Debezium takes it.
    """
    start = log_end(server)
    for each in tables:
        hidden = each.table.key_at is None
        server.sql(
            f"SET SESSION sql_generate_invisible_primary_key = {int(hidden)}",
            each.table.create(each.name),
            each.table.insert(each.name),
        )
    for each in tables:
        updates = [each.table.update(each.name, key, {}) for key in range(1, len(each.table.rows) + 1)]
        server.sql("BEGIN", *updates, some.choice(["COMMIT", "ROLLBACK"]))
    for _ in range(_ALTERATIONS):
        for each in tables:
            altered = each.alter()
            images = ("NOBLOB", "FULL") if each.without_blobs else ("FULL",)
            server.sql(
                *altered,
                f"SET SESSION binlog_row_image = {some.choice(images)}",
                *(each.insert(), each.insert(), each.update(), each.delete()),
                f"SET SESSION binlog_row_image = {'MINIMAL' if each.names_all else 'FULL'}",
                each.insert(),
            )
            if some.random() < 0.2:
                server.sql(f"TRUNCATE {each.name}", each.insert())
        changed = some.sample(tables, 3)
        server.sql(
            "BEGIN", *(each.update() for each in changed), *(each.insert() for each in changed), "COMMIT"
        )
    return start


@pytest.mark.parametrize(
    "number", [10, 12, *(pytest.param(number, marks=pytest.mark.full) for number in range(13, 43))]
)
def test_random_tables_have_debeziums_messages(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, number: int
) -> None:
    some = Random(number)
    tables = [AlteredTable(f"shop.t{at}", table, some, _KINDS) for at, table in enumerate(tables_of(number))]
    start = changed_at_random(server, tables, some)
    # Debezium ignores CREATE TABLE where its first look at the source has found the table.
    server.sql("INSERT INTO marker.end VALUES (1)", *(f"DROP TABLE {each.name}" for each in tables))
    options, form = modes_of(some)
    theirs = debezium_messages(parts, server, account, start, "marker.end", tmp_path, options)
    definitions = {f"{PREFIX}.shop.t{at}": each.definitions for at, each in enumerate(tables)}
    mine = ours(server, account, start, **form)
    without_ends(mine)
    found = list(differences(mine, theirs, definitions))
    assert not found, "\n".join((str(options), *found[:12]))


def without_ends(mine: Mapping[str, list[Message]]) -> None:
    """Take away a truncate at a topic's end: the table was renamed or dropped. Rows follow each TRUNCATE."""
    for messages in mine.values():
        if (last := messages[-1].value) and json.loads(last).get("op") == "t":
            messages.pop()


def differences(
    mine: Mapping[str, list[Message]],
    theirs: Sequence[Message],
    definitions: Mapping[str, Mapping[str, Sequence[str]]],
) -> Iterator[str]:
    """Where messages differ, but for what's documented; each with the definitions that its column had."""
    for topic in sorted({message.topic for message in theirs} | mine.keys()):
        found = mine.get(topic, [])
        expected = [message for message in theirs if message.topic == topic]
        columns = definitions.get(topic.partition("_")[0], {})
        if topic == f"{PREFIX}.marker.end":
            continue
        if topic == f"{PREFIX}.transaction":
            expected = of_changes(expected[:-1])  # the last one is that of the marker
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


def of_changes(marks: Sequence[Message]) -> list[Message]:
    """BEGIN and END of the transactions that have a message."""
    empty = {mark.key for mark in marks if mark.value and json.loads(mark.value)["event_count"] == 0}
    return [mark for mark in marks if mark.key not in empty]


def parted(one: str | None, other: str | None, columns: Mapping[str, Sequence[str]]) -> Iterator[str]:
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
            several = columns.get(column, [column])
            if not any(excused(each, before[column], after[column]) for each in several):
                yield f"{name}: {str(several)[:100]}: {str(before[column])[:200]} {str(after[column])[:200]}"


def told(value: str) -> dict[str, Any]:
    """An envelope without what's of its making, numbers as they are written."""
    envelope: dict[str, Any] = json.loads(value, parse_float=str)
    if "source" not in envelope:  # of a transaction
        return envelope
    for name in ("ts_ms", "ts_us", "ts_ns"):
        del envelope[name]
    del envelope["source"]["version"]
    return envelope


def excused(definition: str, found: Any, expected: Any) -> bool:
    """Whether two values of a column are equal, or differ as docs/kafka.md says."""
    kind = definition.split(" ")[1].partition("(")[0] if " " in definition else definition
    if found == expected:
        return True
    if type(found) is not type(expected) or (kind in _FLOATS and not (floats(found) and floats(expected))):
        return False  # a value of another definition
    if isinstance(expected, str) and (lacking := _CHARSET.search(definition)) and kind not in ("ENUM", "SET"):
        return read_by_java(found, expected, lacking[1])
    if isinstance(expected, str) and " CHARACTER SET euckr" in definition:
        return _REPLACED.sub("\ufffd", found.encode("cp949").decode("euc_kr", "replace")) == (
            _REPLACED.sub("\ufffd", expected)
        )
    if isinstance(expected, str) and (filled(expected, found) or filled(found, expected)):
        return True
    match kind:
        case "JSON" if isinstance(expected, str):
            return same_document(found, expected)
        case "ENUM" | "SET" if isinstance(expected, str):
            return bool(found == _ESCAPED.sub(lambda each: _ESCAPES.get(each[1], each[1]), expected))
        case "BINARY" if " BINARY(0)" in definition:
            return found == "" and set(expected) <= set("0A=")
        case "POINT" if isinstance(expected, dict):
            return bool(found == {name: expected[name] for name in expected if name not in ("x", "y")})
        case "YEAR":
            return (found, expected) == (0, 1900) or (found, expected) == ("0", "1900")
        case "FLOAT":
            return bool(np.float32(found) == np.float32(expected))
        case "DECIMAL" if "E" in str(found) and "E" in str(
            expected
        ):  # as a double; no decimal has an exponent
            return float(found) == float(expected)
        case "DOUBLE":
            return float(found) == float(expected)
        case "VECTOR":
            return bool(np.array_equal(np.array(found, np.float32), np.array(expected, np.float32)))
    return False


def filled(some: str, whole: str) -> bool:
    """Whether a text is another one with U+FFFD in places."""
    known = (re.escape(part) for part in re.split("\ufffd+", some))
    return "\ufffd" in some and re.fullmatch(".+?".join(known), whole, re.DOTALL) is not None


def read_by_java(text: str, other: str, charset: str) -> bool:
    """Whether a text of one of the character sets that Java lacks is the other one as Debezium reads it.

    A set may have a character twice, as armscii8 has the parentheses.
    """
    points = code_tables(charset).one
    return len(text) == len(other) and all(
        read in bytes(np.flatnonzero(points == ord(character)).tolist()).decode(_CHARSETS[charset], "replace")
        for character, read in zip(text, other, strict=True)
    )


def floats(value: Any) -> bool:
    """Whether a value is a floating number, or a list of them."""
    return all(_FLOAT.fullmatch(str(each)) for each in (value if isinstance(value, list) else [value]))


def same_document(found: str, expected: str) -> bool:
    """Whether two texts are the same document of JSON, but for opaque values, and times below zero."""
    found = _WHOLE.sub(r'"\1"', found)
    found = _OPAQUE.sub(lambda each: '"' + each[1].replace("\\n", ""), found)
    try:
        return bool(
            json.loads(_NEGATIVE.sub('"time"', found)) == json.loads(_GARBLED.sub('"time"', expected))
        )
    except ValueError:
        return False
