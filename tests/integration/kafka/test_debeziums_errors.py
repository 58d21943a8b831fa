"""What `docs/kafka.md` says that Debezium does wrong, shown on a real one beside our messages."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from tests.integration.kafka.test_against_debezium import account, ours, server
from tests.servers.debezium_messages import PREFIX, LogStart, Message, debezium_messages, log_end

__all__ = ["account", "server"]

TOPIC = f"{PREFIX}.shop.t"


def logged(server: MysqlServer, *statements: str) -> LogStart:
    """Execute the statements, then the end's; returns where the log stood before. The table is dropped at the end."""
    start = log_end(server)
    server.sql(*statements, "INSERT INTO marker.end VALUES (1)", "DROP TABLE shop.t")
    return start


def rows(messages: Sequence[Message]) -> list[Any]:
    """The rows after each change of the table."""
    return [json.loads(each.value)["after"] for each in messages if each.topic == TOPIC and each.value]


def test_a_first_column_beside_a_generated_key(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    start = logged(
        server,
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE shop.t (a INT)",
        "ALTER TABLE shop.t ADD COLUMN b INT FIRST",
        "INSERT INTO shop.t VALUES (7, 8)",
    )
    theirs = debezium_messages(parts, server, account, start, "marker.end", tmp_path)
    assert rows(theirs) == [{"b": 1, "my_row_id": 7, "a": 8}]
    assert rows(ours(server, account, start)[TOPIC]) == [{"my_row_id": 1, "b": 7, "a": 8}]


def test_characters_that_java_does_not_have(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path
) -> None:
    charsets = ("latin1", "armscii8", "dec8", "geostd8", "hp8", "keybcs2", "swe7")
    columns = ", ".join(f"{name} VARCHAR(9) CHARACTER SET {name}" for name in charsets)
    start = logged(
        server,
        f"CREATE TABLE shop.t (id INT PRIMARY KEY, {columns})",
        "INSERT INTO shop.t VALUES (1, x'419042', x'b2', x'a8', x'e5', x'b3', x'80', x'5b')",
    )
    theirs = debezium_messages(parts, server, account, start, "marker.end", tmp_path)
    [other], [one] = rows(theirs), rows(ours(server, account, start)[TOPIC])
    assert [other[name] for name in charsets] == ["A\ufffdB", "²", "¨", "å", "³", "Ç", "["]
    assert [one[name] for name in charsets] == ["A\x90B", "Ա", "¤", "ჵ", "°", "Č", "Ä"]


def test_a_binary_of_no_bytes(parts: Parts, server: MysqlServer, account: Account, tmp_path: Path) -> None:
    start = logged(
        server,
        "CREATE TABLE shop.t (id INT PRIMARY KEY, e BINARY(0))",
        "INSERT INTO shop.t VALUES (1, '')",
    )
    theirs = debezium_messages(parts, server, account, start, "marker.end", tmp_path)
    assert rows(theirs) == [{"id": 1, "e": "AAAAAAAAAAAAAA=="}]
    assert rows(ours(server, account, start)[TOPIC]) == [{"id": 1, "e": ""}]


@pytest.mark.parametrize("image", ["NOBLOB", "MINIMAL"])
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
        debezium_messages(parts, server, account, start, "marker.end", tmp_path)
    unavailable = "__debezium_unavailable_value"
    changed = rows(ours(server, account, start)[TOPIC])[1]
    assert changed == {"id": 1, "v": "w", "x": unavailable}
