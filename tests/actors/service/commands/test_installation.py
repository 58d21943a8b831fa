"""`tidemark import-debezium`: what it prints, writes and refuses. `setup`: tests/actors/service/installation. `init`:
tests/integration/service/test_first_look.py."""

from pathlib import Path

from click.testing import CliRunner

from actors.runtime.supervisor import ExitCode
from actors.service.cli import main
from tests.pipeline.config.debezium.connectors import CONNECTORS


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


def test_a_refusal_leaves_no_file(tmp_path: Path) -> None:
    into = tmp_path / "shop.toml"
    refused = CliRunner().invoke(main, ["import-debezium", "nowhere.json", "-o", str(into)])
    assert refused.exit_code == ExitCode.DEFINITE
    assert not into.exists()
    taken = CliRunner().invoke(main, ["import-debezium", str(CONNECTORS / "tutorial.json"), "-o", str(into)])
    assert taken.exit_code == ExitCode.CLEAN
    assert "[source]" in into.read_text() and "spark.jars" in taken.output
    into.write_text("mine")
    again = CliRunner().invoke(main, ["import-debezium", str(CONNECTORS / "tutorial.json"), "-o", str(into)])
    assert again.exit_code == ExitCode.DEFINITE
    assert "shop.toml is there already, and isn't overwritten" in again.output
    assert into.read_text() == "mine"


def test_where_there_is_no_terminal_what_has_a_default_is_not_asked(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    asked = ["init", "--password-file", str(password), "--output", "-"]
    nowhere = CliRunner().invoke(main, [*asked, "--host", "127.0.0.1", "--port", "1"])
    assert nowhere.exit_code == ExitCode.DEFINITE and "connecting to 127.0.0.1:1" in nowhere.stderr
    assert nowhere.stdout == ""  # what it asks is not part of what it prints
    lacking = CliRunner().invoke(main, asked)
    assert lacking.exit_code == ExitCode.DEFINITE
    assert "there's no terminal to ask at: give --host" in lacking.stderr
