"""A connector's JSON, as it was sent to Kafka Connect or comes from there."""

import json
from pathlib import Path

import pytest

from actors.service.debezium_file import java_properties, properties
from pipeline.errors import Definite


@pytest.mark.parametrize(
    "document",
    [
        {"name": "a", "config": {"tasks.max": 1, "read.only": True, "x": "y"}},
        {"name": "a", "config": {"tasks.max": 1, "read.only": True, "x": "y"}, "tasks": [], "type": "source"},
        {"name": "a", "tasks.max": "1", "read.only": "true", "x": "y"},
    ],
)
def test_a_connector_with_its_name_inside_or_beside(document: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "connector.json"
    path.write_text(json.dumps(document))
    assert properties(path) == {"name": "a", "tasks.max": "1", "read.only": "true", "x": "y"}


@pytest.mark.parametrize("text", ["", "[]", '"text"', '{"config": []}', "\ud800"])
def test_what_is_no_connector_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "connector.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(Definite, match=r"connector\.json"):
        properties(path)


SERVER = r"""# Debezium Server
debezium.sink.type=kafka
debezium.source.connector.class = io.debezium.connector.mysql.MySqlConnector
debezium.source.database.hostname: db.internal
debezium.source.database.server.id=7
debezium.source.topic.prefix=Shop EU
debezium.source.table.include.list=shop\\.orders,\
    shop\\.customers
! a comment
debezium.transforms=Reroute
quarkus.log.level=INFO
"""


def test_the_properties_of_debezium_server(tmp_path: Path) -> None:
    path = tmp_path / "application.properties"
    path.write_text(SERVER)
    assert properties(path) == {
        "name": "shop-eu",
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.hostname": "db.internal",
        "database.server.id": "7",
        "topic.prefix": "Shop EU",
        "table.include.list": r"shop\.orders,shop\.customers",
        "transforms": "Reroute",
    }
    path.write_text("quarkus.log.level=INFO\n")
    with pytest.raises(Definite, match="isn't Debezium Server's"):
        properties(path)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=b", "a", "b"),
        (" a : b c ", "a", "b c "),
        ("a b=c", "a", "b=c"),
        (r"a\=b=c", "a=b", "c"),
        (r"a=\u00e4\t\\x", "a", "ä\t\\x"),
        ("a", "a", ""),
        ("a=b\\\n   c", "a", "bc"),
        ("a=b\\\\\nd=e", "a", "b\\"),
    ],
)
def test_a_property_as_java_reads_it(line: str, name: str, value: str) -> None:
    assert java_properties(line)[name] == value
