"""What goes wrong before a command does anything: each mistake is named, without a traceback."""

from pathlib import Path

import pytest

from actors.runtime.supervisor import ExitCode
from tests.actors.service.command_line import GOOD, tidemark


@pytest.mark.parametrize("command", ["run", "check", "status"])
def test_all_mistakes_of_a_configuration_are_told_without_a_traceback(command: str, config: Path) -> None:
    config.write_text(GOOD.replace('"shop"', '"Shop"').replace("server_id = 7", "server_id = 0"))
    told = tidemark(command, config)
    assert told.exit_code == ExitCode.DEFINITE
    assert "name: 'Shop'" in told.output
    assert "source.server_id: 0" in told.output
    assert "Traceback" not in told.output
