"""What `docs/kafka.md` says that Debezium does wrong, shown on a real one beside our messages."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from tests.integration.kafka.test_against_debezium import account, ours, server
from tests.servers.debezium_differences import part_of
from tests.servers.debezium_messages import (
    PREFIX,
    LogStart,
    Message,
    debezium_messages,
    debezium_variants,
    log_end,
)
from tests.servers.debezium_modes import Modes

__all__ = ["account", "server"]

TOPIC = f"{PREFIX}.shop.t"


def logged(server: MysqlServer, *statements: str) -> LogStart:
    """Execute the statements, then the end's; returns where the log stood before. The table is dropped at the end."""
    start = log_end(server)
    server.sql(*statements, "INSERT INTO marker.end VALUES (1)", "DROP TABLE shop.t")
    return start


def rows(messages: Sequence[Message], topic: str = TOPIC) -> list[Any]:
    """The rows after each change of a table."""
    return [json.loads(each.value)["after"] for each in messages if each.topic == topic and each.value]


def test_what_debezium_reads_or_writes_otherwise(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    """All in one log: a first column beside a generated key, characters that Java lacks, BINARY(0), defaults."""
    charsets = ("latin1", "armscii8", "dec8", "geostd8", "hp8", "keybcs2", "swe7")
    columns = ", ".join(f"{name} VARCHAR(9) CHARACTER SET {name}" for name in charsets)
    start = logged(
        server,
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE shop.t (a INT)",
        "ALTER TABLE shop.t ADD COLUMN b INT FIRST",
        "INSERT INTO shop.t VALUES (7, 8)",
        f"CREATE TABLE shop.texts (id INT PRIMARY KEY, {columns})",
        "INSERT INTO shop.texts VALUES (1, x'419042', x'b2', x'a8', x'e5', x'b3', x'80', x'5b')",
        "CREATE TABLE shop.none (id INT PRIMARY KEY, e BINARY(0))",
        "INSERT INTO shop.none VALUES (1, '')",
        "CREATE TABLE shop.defaults (id INT PRIMARY KEY, a INT DEFAULT 5, b VARCHAR(9) DEFAULT 'some', c DATE)",
        "INSERT INTO shop.defaults VALUES (1, NULL, NULL, NULL), (2, 1, 'b', '2000-01-01')",
        "DROP TABLE shop.texts, shop.none, shop.defaults",
    )
    variants = {"plain": {}, "kept": {"nulls": "kept"}, "avro": {"converter": "avro"}}
    theirs = debezium_variants(parts, server, account, start, "marker.end", tmp_path, {}, variants)
    mine = ours(server, account, start)

    def both(table: str) -> tuple[list[Any], list[Any]]:
        topic = f"{PREFIX}.shop.{table}"
        return rows(mine[topic], topic), rows(theirs["plain"], topic)

    assert both("t") == ([{"my_row_id": 1, "b": 7, "a": 8}], [{"b": 1, "my_row_id": 7, "a": 8}])
    [one], [other] = both("texts")
    assert [one[name] for name in charsets] == ["A\x90B", "Ա", "¤", "ჵ", "°", "Č", "Ä"]
    assert [other[name] for name in charsets] == ["A\ufffdB", "²", "¨", "å", "³", "Ç", "["]
    assert both("none") == ([{"id": 1, "e": ""}], [{"id": 1, "e": "AAAAAAAAAAAAAA=="}])
    found, expected = both("defaults")
    assert found == [{"id": 1, "a": None, "b": None, "c": None}, {"id": 2, "a": 1, "b": "b", "c": 10957}]
    assert expected == [{"id": 1, "a": 5, "b": "some", "c": None}, found[1]]
    assert rows(theirs["kept"], f"{PREFIX}.shop.defaults") == found
    of_avro = [each for each in theirs["avro"] if each.topic == f"{PREFIX}.shop.defaults"]
    values = [part_of(each.value, Modes(variant=variants["avro"])).payload for each in of_avro]
    assert [value["after"] for value in values] == expected


@pytest.mark.parametrize("image", [pytest.param("NOBLOB", marks=pytest.mark.full), "MINIMAL"])
def test_columns_that_the_log_leaves_out(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, image: str
) -> None:
    start = logged(
        server,
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v VARCHAR(9), x TEXT)",
        "INSERT INTO shop.t VALUES (1, 'v', 'x')",
        f"SET SESSION binlog_row_image = {image}",
        "UPDATE shop.t SET v = 'w'",
    )
    with pytest.raises(AssertionError, match="internal schema size 3, but row size"):
        debezium_messages(parts, server, account, start, tmp_path)
    unavailable = "__debezium_unavailable_value"
    changed = rows(ours(server, account, start)[TOPIC])[1]
    assert changed == {"id": 1, "v": "w", "x": unavailable}
