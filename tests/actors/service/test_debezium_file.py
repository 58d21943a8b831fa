"""A connector's JSON, as it was sent to Kafka Connect or comes from there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.runtime.supervisor import ExitCode
from actors.service.cli import main
from actors.service.debezium_file import properties
from pipeline.errors import Definite
from tests.pipeline.config.debezium.connectors import CONNECTORS


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


def test_the_configuration_is_printed_and_the_report_beside_it() -> None:
    told = CliRunner().invoke(main, ["import-debezium", str(CONNECTORS / "tutorial.json")])
    assert told.exit_code == ExitCode.CLEAN
    assert told.stdout == (CONNECTORS / "tutorial.toml").read_text()
    assert told.stderr == (CONNECTORS / "tutorial.txt").read_text()


def test_a_connector_that_keeps_data_back_gives_no_configuration() -> None:
    told = CliRunner().invoke(main, ["import-debezium", str(CONNECTORS / "masked.json")])
    assert told.exit_code == ExitCode.DEFINITE
    assert told.stdout == ""
    assert "table.exclude.list" in told.stderr


def test_a_file_that_is_not_there() -> None:
    told = CliRunner().invoke(main, ["import-debezium", "nowhere.json"])
    assert told.exit_code == ExitCode.DEFINITE
    assert "nowhere.json can't be read" in told.output
