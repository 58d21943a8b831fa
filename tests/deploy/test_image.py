"""The image is built, started as it's meant to be, takes a snapshot and merges. And the runtime's part of the lock."""

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
import pytest

from actors.lake.spark.spark_session import installed_parts
from actors.service.config_file import load
from deploy.image import assemble
from deploy.image.assemble import COMMANDS
from deploy.image.runtime_lock import pins, runtime_part
from deploy.toolchain import docker as toolchain
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, SMALL_AND_QUICK, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import HttpSettings, HttpTlsSettings, Secret
from tests.actors.http.served_actors import served
from tests.servers.certificates import certificate
from tests.servers.docker import Docker

WITHIN_S: Final = 300.0
_LOOK_EVERY_S: Final = 0.5

# Of the base's size nothing is known here.
LARGEST_MB: Final = 1_600

HARDENED: Final = (
    "--network=host",
    "--read-only",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--tmpfs=/tmp",  # which Docker mounts noexec
)

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="a Docker of one's own needs root")


def test_the_runtime_has_what_the_program_imports_and_no_tools() -> None:
    lock = (REPOSITORY / "deploy" / "requirements.lock").read_text()
    kept = {pin.name for pin in pins(runtime_part(lock))}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())

    def named(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[=<>~;]", name)[0] for name in requirements}

    wanted = named(project["project"]["dependencies"])
    extras = named([name for extra in project["project"]["optional-dependencies"].values() for name in extra])
    assert wanted | extras <= kept
    # What these need is there too, as their own metadata says.
    for name in wanted:
        needed = [one for one in distribution(name).requires or () if "extra ==" not in one]
        names = (re.split(r"[\[=<>~;! ]", one)[0].lower() for one in needed if "; " not in one)
        assert {re.sub(r"[_.]", "-", one) for one in names} <= kept
    tools = named(project["dependency-groups"]["dev"]) - wanted - extras
    assert not tools & kept
    assert {"pytest", "mypy", "ruff"} <= tools


def test_a_lock_is_read_package_by_package() -> None:
    lock = """\
a==1 \\
    --hash=sha256:aa
    # via tidemark (pyproject.toml)
b==2 ; python_version < '3.12' \\
    --hash=sha256:bb
    # via
    #   a
    #   c
c==3 \\
    --hash=sha256:cc
    # via tidemark (pyproject.toml:dev)
d==4 \\
    --hash=sha256:dd
    # via c
"""
    assert [(pin.name, sorted(pin.wanted_by)) for pin in pins(lock)] == [
        ("a", ["tidemark (pyproject.toml)"]),
        ("b", ["a", "c"]),
        ("c", ["tidemark (pyproject.toml:dev)"]),
        ("d", ["c"]),
    ]
    assert runtime_part(lock) == lock[: lock.index("c==3")]


def test_a_configuration_adds_its_jars_to_those_of_the_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable of the image's would win over `spark.jars` of the file."""
    assert "SPARK__JARS" not in (REPOSITORY / "deploy" / "image" / "Dockerfile").read_text()
    monkeypatch.setattr(assemble, "PROGRAM", tmp_path)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assemble.link_jars()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    connector = tmp_path / "gcs-connector.jar"
    connector.touch()
    file = tmp_path / "shop.toml"
    file.write_text(f"""name = "shop"
tables = ["shop"]
source = {{ host = "db", user = "tidemark", server_id = 7 }}
journal = {{ path = "journal" }}
lake = {{ path = "gs://bucket/lake" }}
spark = {{ jars = ["{connector}"] }}
""")
    jars = installed_parts(load(file, {}).spark).jars
    assert [jar.name for jar in jars] == [connector.name, "delta-spark_4.2_2.13-4.4.0.jar"]


def checked(port: str) -> tuple[int, str]:
    """The health check's exit code and what it says."""
    program = [sys.executable, "-c", COMMANDS["tidemark-alive"]]
    environment = {**os.environ, "TIDEMARK__HTTP__PORT": port}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("host", ["::", "::1"])
async def test_the_health_check_finds_a_service_that_listens_by_ipv6_alone(tmp_path: Path, host: str) -> None:
    async with served(tmp_path, settings=HttpSettings(host=host, token=Secret("a" * 32))) as bench:
        port = bench.server.url.rpartition(":")[2]
        assert await asyncio.to_thread(checked, port) == (0, "")


async def test_the_health_check_asks_by_http_and_by_https(tmp_path: Path) -> None:
    certificate(tmp_path, "127.0.0.1")
    port = ""
    for settings in (HttpSettings(), HttpSettings(tls=HttpTlsSettings(tmp_path / "server.pem"))):
        async with served(tmp_path, settings=settings) as bench:
            port = bench.server.url.rpartition(":")[2]
            assert await asyncio.to_thread(checked, port) == (0, "")
    code, said = await asyncio.to_thread(checked, port)
    assert code == 1 and f"nothing answers at the port {port} of 127.0.0.1" in said


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """With the image `tidemark`, built by the one command that users have, on a base that's made here."""
    with Docker(toolchain.setup(), tmp_path_factory.mktemp("image") / "docker") as running:
        running.debian("base", "bookworm")
        file = REPOSITORY / "deploy" / "image" / "Dockerfile"
        running.run(
            "build", "--network=host", "--build-arg=BASE=base", "-f", file, "-t", "tidemark", REPOSITORY
        )
        yield running


@pytest.fixture
def mysql_with_tls(parts: Parts, tmp_path: Path) -> Iterator[MysqlServer]:
    certificate(tmp_path, "127.0.0.1")
    tls = {"ssl_ca": "ca.pem", "ssl_cert": "server.pem", "ssl_key": "server.pem"}
    options = {
        **SMALL_AND_QUICK,
        **GTIDS,
        **FULL_METADATA,
        **{key: str(tmp_path / of) for key, of in tls.items()},
    }
    with MysqlServer(parts.mysql, tmp_path / "mysql", options) as server:
        yield server


def configuration(server: MysqlServer, folder: Path) -> Path:
    """The folder that's mounted: a configuration and what it refers to."""
    account = server.create_capture_user("shop")
    etc = folder / "etc"
    etc.mkdir()
    (etc / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    (etc / "password").write_text(account.password)
    (etc / "token").write_text("0123456789abcdef")
    for secret in ("password", "token"):  # the user of the image alone reads them, or `check` warns
        os.chown(etc / secret, 65532, 65532)
        (etc / secret).chmod(0o600)
    (etc / "tidemark.toml").write_text(f"""name = "shop"
tables = ["shop\\\\..*"]
journal = {{ path = "/var/lib/tidemark/journal" }}
lake = {{ path = "/var/lib/tidemark/lake", merge_after_s = 1 }}
spark = {{ master = "local[1]", driver_memory = "512m" }}
http = {{ token_file = "token" }}

[source]
host = "127.0.0.1"
port = {server.port}
user = "{account.user}"
password_file = "password"
server_id = 77
tls = {{ ca = "ca.pem" }}
""")
    return etc


def until(told: Callable[[], bool], what: str, log: Callable[[], str]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not told():
        assert time.monotonic() < deadline, f"not within {WITHIN_S} s: {what}\n{log()[-5000:]}"
        time.sleep(_LOOK_EVERY_S)


def ids_of(mirror: Path) -> list[int]:
    """By the table's log: a file that's being written lies beside those that are the table's."""
    log = (mirror / "_delta_log").glob("*.json")
    actions = [json.loads(line) for commit in log for line in commit.read_text().splitlines()]
    parts = {action["add"]["path"] for action in actions if "add" in action}
    return sorted(i for part in parts for i in pq.read_table(mirror / part)["id"].to_pylist())


@root_only
@pytest.mark.full
def test_a_snapshot_in_a_container(docker: Docker, mysql_with_tls: MysqlServer, tmp_path: Path) -> None:
    mysql_with_tls.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT PRIMARY KEY)",
        "INSERT INTO shop.orders VALUES (1), (2), (3)",
    )
    etc = configuration(mysql_with_tls, tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, 65532, 65532)
    mounts = (f"--volume={etc}:/etc/tidemark:ro", f"--volume={data}:/var/lib/tidemark")
    file = "/etc/tidemark/tidemark.toml"

    checked = docker.run("run", "--rm", *HARDENED, *mounts, "tidemark", "check", file)
    assert 'mode = "verify"' in checked and "all is well" in checked
    assert "0123456789abcdef" not in checked

    docker.run("run", "--detach", "--name=one", *HARDENED, *mounts, "tidemark")

    def log() -> str:
        return docker.logs("one")

    mirror = data / "lake" / "shop" / "orders" / "mirror"
    until(lambda: ids_of(mirror) == [1, 2, 3], "the rows in the mirror", log)
    mysql_with_tls.sql("INSERT INTO shop.orders VALUES (4)")
    until(lambda: ids_of(mirror) == [1, 2, 3, 4], "Spark has merged a change", log)
    state = "{{.State.Health.Status}}"
    until(lambda: docker.run("inspect", "--format", state, "one") == "healthy\n", "it's healthy", log)
    assert docker.run("exec", "one", "id", "-u") == "65532\n"
    assert docker.run("exec", "one", "sh", "-c", "touch /opt/tidemark/x || echo refused") == "refused\n"
    assert "/share/tidemark/spark-" in docker.run("exec", "one", "sh", "-c", "cat /proc/[0-9]*/maps")
    told = json.loads(docker.run("exec", "one", "tidemark", "status", file, "--json"))
    assert told["position"]
    bill = json.loads(docker.run("exec", "one", "cat", "/opt/tidemark/sbom.cdx.json"))
    there = {component["purl"].partition("@")[0] for component in bill["components"]}
    assert {"pkg:pypi/pyspark", "pkg:maven/io.delta/delta-storage", "pkg:deb/debian/tini"} <= there
    assert "pkg:deb/debian/python3-venv" not in there  # which builds it, and isn't in it
    docker.run("stop", "--time=120", "one")
    assert docker.run("inspect", "--format", "{{.State.ExitCode}}", "one") == "0\n"
    assert "compiling" not in log()


@root_only
@pytest.mark.full
def test_the_image_is_as_small_as_it_is_said_to_be(docker: Docker) -> None:
    image, base = (
        int(docker.run("image", "inspect", "--format", "{{.Size}}", name)) for name in ("tidemark", "base")
    )
    assert (image - base) / 1e6 < LARGEST_MB
    assert docker.run("image", "inspect", "--format", "{{.Config.User}}", "tidemark") == "65532:65532\n"
