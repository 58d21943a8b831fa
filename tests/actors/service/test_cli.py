"""The command line without a service: help, mistakes, and exit codes. With one:
tests/integration/service/test_run.py."""

import json
import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.journal.store import JournalStore
from actors.runtime.supervisor import ExitCode
from actors.service.cli import main
from actors.service.client import NotRunning, address_file, get
from actors.service.config_file import load

ROOT = Path(__file__).parents[3]

GOOD = """
name = "shop"
tables = ["shop\\\\..*"]
source = { host = "127.0.0.1", port = 1, user = "tidemark", server_id = 7, connect_timeout_s = 1 }
journal = { path = "journal" }
lake = { path = "lake" }
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(GOOD)
    return path


def tidemark(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_help_names_every_command_and_exit_code() -> None:
    told = tidemark("--help")
    assert told.exit_code == 0
    for command in main.commands:
        assert f"  {command} " in told.output
        assert tidemark(command, "--help").exit_code == 0
    for code in ExitCode:
        assert f"\n    {code.value}  " in told.output


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert tidemark("--version").output == f"tidemark, version {project['version']}\n"


def test_a_command_starts_without_the_compiler() -> None:
    """Each use of TAB starts one, and the compiled code takes longer to load than all else."""
    program = "import sys; import actors.service.cli; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_bash_completes_a_command_as_the_document_says(tmp_path: Path) -> None:
    (tmp_path / "tidemark").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m actors "$@"\n')
    (tmp_path / "tidemark").chmod(0o755)
    line = 'eval "$(_TIDEMARK_COMPLETE=bash_source tidemark)"'
    assert line in (ROOT / "docs" / "operations.md").read_text()
    typed = "COMP_WORDS=(tidemark si); COMP_CWORD=1; _tidemark_completion tidemark; echo ${COMPREPLY[*]}"
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    told = subprocess.run(
        ["bash", "-c", f"{line}\n{typed}"], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == "signal\n"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("signal shop.toml re", "plain,resume\nplain,recapture\n"),
        ("check sho", "file,sho\n"),
        ("init --password", "plain,--password-file\n"),
        ("setup --r", "plain,--repository\n"),
    ],
)
def test_a_shell_completes_options_choices_and_files(
    typed: str, completed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").touch()  # which `init` would refuse to overwrite
    words = typed.split()
    environment = {
        "_TIDEMARK_COMPLETE": "bash_complete",
        "COMP_WORDS": f"tidemark {typed}",
        "COMP_CWORD": str(len(words)),
    }
    assert CliRunner().invoke(main, prog_name="tidemark", env=environment).output == completed


@pytest.mark.parametrize("command", ["run", "check", "status"])
def test_all_mistakes_of_a_configuration_are_told_without_a_traceback(command: str, config: Path) -> None:
    config.write_text(GOOD.replace('"shop"', '"Shop"').replace("server_id = 7", "server_id = 0"))
    told = tidemark(command, config)
    assert told.exit_code == ExitCode.DEFINITE
    assert "name: 'Shop'" in told.output
    assert "source.server_id: 0" in told.output
    assert "Traceback" not in told.output


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["signal", "pause"]])
def test_without_a_service_it_says_how_to_start_it(arguments: list[str], config: Path) -> None:
    command, *rest = arguments
    told = tidemark(command, config, *rest)
    assert told.exit_code == ExitCode.DEFINITE
    assert "start it with `tidemark run`" in told.output


def test_a_consumer_is_forgotten(config: Path) -> None:
    settings = load(config, {})
    store = JournalStore.open_single_writer(settings.journal.path, settings.name)
    store.consumers.record_progress("topics", 7)
    assert tidemark("forget-consumer", config, "topics").exit_code == ExitCode.CLEAN
    assert store.consumers.all() == {}
    again = tidemark("forget-consumer", config, "topics")
    assert again.exit_code == ExitCode.DEFINITE
    assert "'topics' isn't a consumer" in again.output
    store.close()


def test_an_address_that_nobody_listens_on_any_more_is_no_service(config: Path) -> None:
    settings = load(config, {})
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    address_file(settings).parent.mkdir()
    address_file(settings).write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
    with pytest.raises(NotRunning):
        get(settings, "/status")


@contextmanager
def answering(status: int, body: str, posted: list[Any] | None = None) -> Iterator[int]:
    """Runs a server that answers everything in this way, and keeps what's `posted`; yields its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            assert posted is not None
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


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


def test_pause_takes_no_tables(config: Path) -> None:
    told = tidemark("signal", config, "pause", "--tables", "a")
    assert told.exit_code == ExitCode.DEFINITE
    assert "takes no --tables" in told.output


def test_recapture_is_of_the_tables_that_are_named(config: Path) -> None:
    told = tidemark("signal", config, "recapture")
    assert told.exit_code == ExitCode.DEFINITE
    assert "recapture needs --tables" in told.output
    file = address_file(load(config, {}))
    file.parent.mkdir()
    posted: list[Any] = []
    with answering(200, '{"id": "r1", "detail": "recapture of shop.a, which had stopped"}', posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("signal", config, "recapture", "-t", r"shop\.a", "--id", "r1")
    assert told.output == "r1: recapture of shop.a, which had stopped\n"
    assert posted == [{"type": "recapture", "data": {"data-collections": [r"shop\.a"]}, "id": "r1"}]


def test_a_snapshot_may_hold_the_log_and_nothing_else_may(config: Path) -> None:
    told = tidemark("signal", config, "stop", "--blocking")
    assert told.exit_code == ExitCode.DEFINITE
    assert "stop takes no --blocking" in told.output
    file = address_file(load(config, {}))
    file.parent.mkdir()
    posted: list[Any] = []
    with answering(200, '{"id": "s1", "detail": "snapshot of shop.a"}', posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        for more in ([], ["--blocking"]):
            tidemark("signal", config, "execute", "-t", r"shop\.a", *more)
    assert [signal["data"]["type"] for signal in posted] == ["incremental", "blocking"]


def result(verdict: str, repaired: str | None = None) -> dict[str, Any]:
    of = {"rows": 3, "found": {}, "position": "a:1-7", "reason": ""}
    again = None if repaired is None else {"verdict": repaired, **of}
    return {"verdict": verdict, **of, "repaired": again}


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([result("equal"), result("equal")], 0),
        ([result("equal"), result("different")], 1),
        ([result("different", "equal"), result("equal")], 0),
        ([result("different", "different"), result("equal")], 1),
        ([result("equal"), result("unjudged")], 2),
        ([result("different"), result("unjudged")], 1),
    ],
)
def test_a_verification_exits_with_what_it_found(
    results: list[dict[str, Any]], code: int, config: Path
) -> None:
    file = address_file(load(config, {}))
    file.parent.mkdir()
    found = {f"shop.t{number}": each for number, each in enumerate(results)}
    body = {"id": "v1", "actors": {"SparkSink": {"verifications": {"v1": found}}}}
    posted: list[Any] = []
    with answering(200, json.dumps(body), posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("verify", config, "--repair", "--rows-per-s", "9", "-t", "a", "--where", "id > 3")
    assert told.exit_code == code
    assert told.output.splitlines()[0].startswith(f"shop.t0: {results[0]['verdict']}, 3 rows read")
    data = {"data-collections": ["a"], "repair": True, "rows-per-s": 9}
    data["additional-conditions"] = [{"data-collection": "a", "filter": "id > 3"}]
    assert posted == [{"type": "verify", "data": data}]


@pytest.mark.parametrize("more", [["--every", "daily"], ["--every", "0s"], ["--rows-per-s", "0"]])
def test_a_wrong_option_of_a_verification_is_named(more: list[str], config: Path) -> None:
    told = tidemark("verify", config, *more)
    assert told.exit_code == ExitCode.DEFINITE
    assert f"Invalid value for '{more[0]}'" in told.output


def test_sql_of_a_table_that_the_lake_does_not_have(config: Path) -> None:
    for name in ("shop.orders", "orders"):
        told = tidemark("sql", config, name, "--dialect", "duckdb")
        assert told.exit_code == ExitCode.DEFINITE
        assert f"has no mirror of {name} (database.table)" in told.output


def test_a_check_goes_on_where_the_source_cannot_be_reached(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    told = tidemark("check", config)
    assert told.exit_code == 1
    assert "127.0.0.1:1" in told.output
    assert "Java" in told.output
    assert "delta-spark_" in told.output
