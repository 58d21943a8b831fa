"""`tidemark check` without a source. With one, and `tidemark run`: tests/integration/service/test_run.py."""

from pathlib import Path

import pytest

from tests.actors.service.command_line import tidemark


def test_a_check_goes_on_where_the_source_cannot_be_reached(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    told = tidemark("check", config)
    assert told.exit_code == 1
    assert "127.0.0.1:1" in told.output
    assert "Java" in told.output
    assert "delta-spark_" in told.output
