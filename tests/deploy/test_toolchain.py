"""The toolchain keeps its promises: complete parts or none, one setup at a time, what's pinned or a refusal."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from actors.lake.spark.spark_session import installed_parts
from actors.service.installation.pinned_jars import read_lock, sha256
from deploy.toolchain import browser, cache, debian, jars, kafka, mysql, mysql56, ports, s3, virtualenv
from deploy.toolchain.cache import REPOSITORY, ToolchainError
from deploy.toolchain.parts import Parts
from deploy.toolchain.spark_pair import SparkPair, delta_module
from pipeline.config.s3_environment import LOG_STORE_JAR
from pipeline.config.settings import SparkSettings
from pipeline.errors import Definite
from pipeline.lake.files.known_versions import check_pair
from tests.servers.spark import jars_of_pair


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEMARK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_an_interrupted_part_is_made_anew(empty_cache: Path) -> None:
    part = empty_cache / "part"

    def interrupted() -> None:
        (part / "half").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.ensure("a part", part, interrupted)
    assert not cache.is_complete(part)

    cache.ensure("a part", part, (part / "whole").touch)
    assert cache.is_complete(part)
    assert {file.name for file in part.iterdir()} == {"whole", "complete"}

    cache.ensure("a part", part, interrupted)  # it's there, so nothing is built


HOLDER = """
from deploy.toolchain.cache import locked
with locked():
    print("held", flush=True)
    input()
"""


@pytest.mark.usefixtures("empty_cache")
def test_a_second_setup_waits_for_the_first_and_not_for_a_dead_one() -> None:
    with ExitStack() as ended:

        def start() -> "subprocess.Popen[str]":
            holder = subprocess.Popen(
                [sys.executable, "-c", HOLDER],
                cwd=REPOSITORY,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            ended.enter_context(holder)
            ended.callback(holder.kill)
            return holder

        first = start()
        assert first.stdout
        assert first.stdout.readline() == "held\n"
        second = start()
        assert second.stderr
        assert "waiting" in second.stderr.readline()
        assert second.poll() is None
        first.kill()
        out, _ = second.communicate("\n", timeout=60)
        assert out == "held\n"


TAKER = """
import sys
from pathlib import Path
from deploy.toolchain import ports
ports._LOWEST, ports._RANGE = 9990, Path(sys.argv[1])
print(ports.take_port(), flush=True)
input()
"""


def test_a_port_has_one_owner_until_its_process_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ephemeral = tmp_path / "ip_local_port_range"
    ephemeral.write_text("9993 60999\n")
    monkeypatch.setattr(ports, "_LOWEST", 9990)  # where no other test takes a port
    monkeypatch.setattr(ports, "_RANGE", ephemeral)
    command = [sys.executable, "-c", TAKER, str(ephemeral)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout
        theirs = int(other.stdout.readline())
        listened, free = {9990, 9991, 9992} - {theirs}
        with socket.create_server(("127.0.0.1", listened)):
            assert ports.take_port() == free
            with pytest.raises(ToolchainError, match="no port from 9990 to 9992 is free"):
                ports.take_port()
        other.communicate("\n", timeout=60)
    assert {ports.take_port(), ports.take_port()} == {listened, theirs}


def test_the_jars_are_those_of_the_lock(parts: Parts) -> None:
    assert [sha256(jar) for jar in parts.jars] == list(read_lock(jars.LOCK).values())


def test_the_jars_for_s3_are_those_of_their_lock_for_the_hadoop_that_spark_has(parts: Parts) -> None:
    assert parts.s3 is not None, "run `make setup-tests`"
    found = {jar.name: sha256(jar) for jar in parts.s3.glob("*.jar")}
    assert found.pop(LOG_STORE_JAR)
    assert sorted(found.values()) == sorted(read_lock(s3.LOCK).values())
    (hadoop,) = (virtualenv.pyspark() / "jars").glob("hadoop-client-api-*.jar")
    assert hadoop.name.replace("client-api", "aws") in found


def test_kafka_s_jars_are_those_of_its_lock(parts: Parts) -> None:
    assert parts.kafka is not None, "run `make setup-tests`"
    found = {sha256(jar) for jar in parts.kafka.jars.glob("*.jar")}
    assert found == set(read_lock(kafka.LOCK).values())


def test_kafka_finds_its_classes_in_the_archive(parts: Parts) -> None:
    assert parts.kafka is not None, "run `make setup-tests`"
    java = parts.kafka.java_home / "bin" / "java"
    shared = ["-Xshare:on", "-XX:+UseSerialGC", f"-XX:SharedArchiveFile={parts.kafka.classes}"]
    command = [str(java), *shared, "-cp", f"{parts.kafka.jars}/*", "kafka.Kafka", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_a_package_that_differs_from_the_lock_is_refused(tmp_path: Path) -> None:
    name = next(iter(read_lock(mysql.LOCK)))
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(ToolchainError, match="lock says"):
        debian.check("MySQL", [tmp_path / name], mysql.LOCK)


def test_a_newer_package_than_the_locks_is_taken_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "newer_1.0_amd64.deb").write_bytes(b"newer")
    debian.check("MySQL", [tmp_path / "newer_1.0_amd64.deb"], mysql.LOCK)
    assert "1 of 1 packages aren't those of mysql.lock" in capsys.readouterr().err


@pytest.mark.usefixtures("empty_cache")
def test_a_server_on_the_path_goes_before_a_fetched_one(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mysql.find() is None
    monkeypatch.setenv("PATH", str(parts.mysql.bin), prepend=os.pathsep)
    assert mysql.find() == parts.mysql


@pytest.mark.parametrize(
    ("version", "will_do"),
    [
        ("9.7.4-2", True),
        ("8.4.0", True),
        ("8.0.45-0ubuntu0.22.04", False),
        ("10.11.11-MariaDB-0+deb12u1", False),
    ],
)
def test_only_a_mysql_that_is_new_enough_is_used(version: str, will_do: bool) -> None:
    assert mysql._at_least(version, mysql.OLDEST) is will_do


OTHER_REGISTRY = """#!/bin/sh
for last in "$@"; do :; done
echo "something else" > "$last/mysql.tgz"
"""


def test_an_old_server_that_differs_from_the_lock_is_refused(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = empty_cache / "bin" / "npm"
    npm.parent.mkdir(parents=True)
    npm.write_text(OTHER_REGISTRY)
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent), prepend=os.pathsep)
    with pytest.raises(ToolchainError, match="lock says"):
        mysql56.setup(empty_cache / "no authorities")
    assert mysql56.find() is None


@pytest.mark.usefixtures("empty_cache")
def test_a_machine_that_the_old_server_cannot_run_on_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(debian, "architecture", lambda: "arm64")
    assert mysql56.setup(tmp_path) is None
    assert "there is none for arm64" in capsys.readouterr().err


def test_a_failed_program_is_told_by_its_last_words() -> None:
    with pytest.raises(ToolchainError, match=r"sh failed \(3\):\n  it broke"):
        cache.run(["sh", "-c", "echo it broke >&2; exit 3"])
    with pytest.raises(ToolchainError, match=r"sh failed \(3\):\n  it broke"):
        list(cache.follow(["sh", "-c", "echo it broke >&2; exit 3"]))
    with pytest.raises(ToolchainError, match="is needed"):
        cache.run(["no-such-program"])


def test_a_pair_that_conformance_names_may_write_a_lake_whichever_way_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{delta_module(pyspark.__version__)}-9.9.9.jar").touch()
    for name, value in SparkPair(tmp_path, tmp_path, "9.9.9").environment.items():
        monkeypatch.setenv(name, value)
    settings = SparkSettings(jars=(tmp_path,))
    with pytest.raises(Definite, match=r"Delta 9\.9\.9"):
        installed_parts(settings)
    assert jars_of_pair(monkeypatch) == settings.jars
    assert installed_parts(settings).delta == "9.9.9"
    check_pair("a Spark Connect server", pyspark.__version__, "9.9.9", "")


def test_a_browser_on_the_path_goes_before_a_fetched_one(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(empty_cache / "bin"))
    monkeypatch.setattr(debian, "architecture", lambda: "amd64")
    assert browser.find() is None
    own = empty_cache / "bin" / "chromium"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert browser.find() == own


def test_the_browser_runs(parts: Parts) -> None:
    assert parts.browser is not None, "run `make setup-tests`"
    assert "Chrom" in cache.run([parts.browser, "--version"])
