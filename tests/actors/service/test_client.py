"""The command line's side of HTTP, where no service answers, or something else does."""

import json
import socket
from pathlib import Path

import pytest

from actors.runtime.supervisor import ExitCode
from actors.service.client import NotRunning, address_file, get
from actors.service.config_file import load
from tests.actors.service.command_line import answering, tidemark


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["signal", "pause"]])
def test_without_a_service_it_says_how_to_start_it(arguments: list[str], config: Path) -> None:
    command, *rest = arguments
    told = tidemark(command, config, *rest)
    assert told.exit_code == ExitCode.DEFINITE
    assert "start it with `tidemark run`" in told.output


def test_an_address_that_nobody_listens_on_any_more_is_no_service(config: Path) -> None:
    settings = load(config, {})
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    address_file(settings).parent.mkdir()
    address_file(settings).write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
    with pytest.raises(NotRunning):
        get(settings, "/status")


@pytest.mark.parametrize(
    ("status", "body", "code", "words"),
    [
        (200, '"a page of something else"', ExitCode.DEFINITE, "start it with `tidemark run`"),
        (200, "no JSON at all", ExitCode.DEFINITE, "start it with `tidemark run`"),
        (500, '{"error": "internal error"}', ExitCode.GAVE_UP, "failed to answer: internal error"),
    ],
)
def test_an_answer_that_is_no_status_is_told_without_a_traceback(
    status: int, body: str, code: ExitCode, words: str, config: Path
) -> None:
    file = address_file(load(config, {}))
    file.parent.mkdir()
    with answering(status, body) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("status", config)
    assert told.exit_code == code
    assert words in told.output
