"""docs/first-hour.md, block by block as it stands: a wheel, a MySQL with TLS, a lake in S3, and one shell."""

import ast
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark
import pytest

from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.s3_environment import LOG_STORE_JAR
from tests.deploy.test_wheel import wheel
from tests.servers.certificates import Authority
from tests.servers.mysql import MysqlFactory
from tests.servers.s3 import S3Lake
from tests.servers.spark import start_quickly

__all__ = ["wheel"]

PAGE: Final = Path(__file__).parents[3] / "docs" / "first-hour.md"
# Of one block: the first start compiles the decoder.
WITHIN_S: Final = 600.0
NOT_RUN: Final = {
    "tidemark setup --s3": "it fetches from a Maven repository; the next block takes the same jars from a folder",
    "docker build": "it needs a daemon of Docker, and the registry of the base image",
    "pip install duckdb": "DuckDB fetches two extensions from its own server",
}
_BLOCK: Final = re.compile(
    r"(?:^<!-- (?P<mark>.*?) -->\n\n)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_PROGRAM: Final = re.compile(r"^cat > \w+\.py <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of the page. `mark`: the comment before it."""

    mark: str
    kind: str
    text: str

    @property
    def not_run(self) -> str | None:
        """Why it isn't run, None if it is."""
        return self.mark.removeprefix("not run: ") if self.mark.startswith("not run: ") else None


def blocks() -> list[Block]:
    """All blocks, in the page's order."""
    found = _BLOCK.finditer(PAGE.read_text(encoding="utf-8"))
    return [Block(each["mark"] or "", each["kind"], each["text"]) for each in found]


def missing(wanted: str, output: str) -> Iterator[str]:
    """The lines that a block shows and an output lacks; `…` stands for anything, and any space for another."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    for line in wanted.splitlines():
        pattern = re.compile(".*".join(map(re.escape, " ".join(line.split()).split("…"))))
        if not any(map(pattern.fullmatch, lines)):
            yield line


class Shell:
    """One bash, which ends at the first command that fails."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._said = folder.parent / "said"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "bash", "-euo", "pipefail"],
                cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        self._seen = 0

    def run(self, text: str) -> str:
        """What a block prints. Fails with that, if a command of it does."""
        assert self._process.stdin is not None
        end = f"-- {time.monotonic_ns()} --"
        self._process.stdin.write(f"{text}\necho '{end}'\n".encode())
        self._process.stdin.flush()
        deadline = time.monotonic() + WITHIN_S
        while end not in (said := self._said.read_text(errors="replace")[self._seen :]):
            assert self._process.poll() is None, f"{text}\nsaid:\n{said}"
            assert time.monotonic() < deadline, f"{text}\nhas not ended, and said:\n{said}"
            time.sleep(0.1)
        self._seen += len(said)
        return said.replace(end, "")

    def end(self) -> None:
        """End it, and all that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


def test_each_block_is_run_or_says_why_it_is_not() -> None:
    found = blocks()
    assert PAGE.read_text(encoding="utf-8").count("\n```") == 2 * len(found)
    assert {block.kind for block in found} == {"sh", "sql", "text"}
    untold = {
        next(line for line in block.text.splitlines()): block.not_run for block in found if block.not_run
    }
    assert {
        begin: why for line, why in untold.items() for begin in NOT_RUN if line.startswith(begin)
    } == NOT_RUN
    assert len(untold) == len(NOT_RUN)
    assert [block.mark for block in found if block.mark and not block.not_run] == ["your values"]
    for block in found:
        if block.kind == "sh":
            subprocess.run(["bash", "-n"], input=block.text, text=True, check=True)
            for program in _PROGRAM.findall(block.text):
                ast.parse(program)


def test_the_command_by_image_is_a_program_that_ends_with_its_container(tmp_path: Path) -> None:
    """As a function of the shell it was none that the page's programs find, and a kill left the container."""
    (text,) = (block.text for block in blocks() if block.text.startswith("docker build"))
    commands = tmp_path / "commands"
    commands.mkdir()
    docker = commands / "docker"
    docker.write_text(
        '#!/bin/sh\n[ "$1" = build ] || { printf "%s\\n" $$ "$@" > said && mv said ran; exec sleep 600; }\n'
    )
    docker.chmod(0o755)
    (tmp_path / "tidemark-0.1.0-image.tar.gz").touch()
    pip = "pip install deltalake pyarrow\n"
    assert pip in text
    script = f"""{text.replace(pip, "")}
type -t tidemark
tidemark run shop.toml &
service=$!
until [ -e ran ]; do sleep 0.1; done
[ "$(head -1 ran)" = $service ] && echo "its container"
kill $service "$(head -1 ran)" || true
cat venv/passwd
"""
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path, env=environment, text=True, capture_output=True, check=True,
    )  # fmt: skip
    user = f"tidemark:x:{os.getuid()}:{os.getgid()}::/work:/bin/sh"
    assert done.stdout.splitlines() == ["file", "its container", user]
    said = (tmp_path / "ran").read_text().splitlines()
    assert f"{tmp_path}/venv/passwd:/etc/passwd:ro" in said and said[-3:] == ["tidemark", "run", "shop.toml"]


def test_what_an_output_lacks_is_found() -> None:
    assert list(missing("a … c\nb", "a  1   c\nb\n")) == []
    assert list(missing("a … c\nb", "a  1   c d\nbb\n")) == ["a … c", "b"]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.found(tmp_path / "authority.pem")


@pytest.fixture
def server(mysql_factory: MysqlFactory, authority: Authority, tmp_path: Path) -> MysqlServer:
    """A MySQL whose certificate an authority of its own has signed."""
    made = mysql_factory({**GTIDS, **FULL_METADATA})
    certificate = authority.vouch(tmp_path / "server.pem", made.host)
    made.sql(
        f"SET GLOBAL ssl_cert = '{certificate}', ssl_key = '{certificate}', ssl_ca = '{authority.trusted}'",
        "ALTER INSTANCE RELOAD TLS",
    )
    return made


@pytest.fixture
def folder(wheel: Path, parts: Parts, authority: Authority, tmp_path: Path) -> Path:
    """The folder of who follows the page: the wheel, the jars, and the authority's certificate are in it."""
    made = tmp_path / "first-hour"
    (made / "jars").mkdir(parents=True)
    shutil.copyfile(wheel, made / wheel.name)
    shutil.copyfile(authority.trusted, made / "mysql-ca.pem")
    assert parts.s3 is not None, "run `make setup-tests`"
    for jar in (*parts.jars, *parts.s3.glob("*.jar")):
        if jar.name != LOG_STORE_JAR:  # which is made, and not fetched
            (made / "jars" / jar.name).symlink_to(jar)
    return made


@pytest.fixture
def shell(
    folder: Path, server: MysqlServer, s3_lake: S3Lake, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    """The shell, with the test's own values. pip takes what this environment has, and nothing from a network."""
    start_quickly(monkeypatch, parts)
    values = {
        "MYSQL_HOST": server.host,
        "MYSQL_PORT": str(server.port),
        "AWS_REGION": "us-east-1",
        "LAKE": s3_lake.path,
    }
    (yours,) = (block.text for block in blocks() if block.mark == "your values")
    named = set(re.findall(r"(\w+)=", yours))
    assert named == {*values, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    environment = {
        **os.environ,
        **values,
        "AWS_ENDPOINT_URL": s3_lake.endpoint,
        "AWS_ALLOW_HTTP": "true",  # delta-rs wants to be told, where the store has no TLS
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONPATH": str(Path(pyspark.__file__).parents[1]),
        "TIDEMARK__SPARK__DRIVER_MEMORY": "512m",
    }
    del environment["AWS_ENDPOINT_URL_S3"]  # as the page has it
    made = Shell(folder, environment)
    yield made
    made.end()


@pytest.mark.full
def test_the_page_as_it_stands(shell: Shell, server: MysqlServer, folder: Path) -> None:
    output = ""
    for block in blocks():
        match block.kind:
            case _ if block.mark:
                continue
            case "sql":
                server.sql(*(each for each in block.text.split(";\n") if each.strip()))
            case "sh":
                output = shell.run(block.text)
            case _:
                log = (folder / "tidemark.log").read_text() if (folder / "tidemark.log").exists() else ""
                assert list(missing(block.text, output)) == [], f"{output}\n{log[-4000:]}"
    # What the page says of personal data is so, in all that is on this machine.
    for path in folder.rglob("journal/**/*"):
        assert path.is_dir() or b"555-01" not in path.read_bytes(), path
