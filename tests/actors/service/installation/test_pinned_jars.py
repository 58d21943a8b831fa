"""`tidemark setup`: jars by their checksums, from a folder or from a repository on this machine."""

import shutil
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.lake.spark.spark_session import installed_parts
from actors.service.cli import main
from actors.service.config_file import load
from actors.service.installation import pinned_jars
from actors.service.installation.pinned_jars import DELTA_LOCK, installed_folder, jar_name, read_lock
from actors.service.installation.s3_jars import S3_LOCK
from deploy.toolchain.parts import Parts
from pipeline.config.s3_environment import LOG_STORE_JAR
from pipeline.config.settings import SparkSettings
from pipeline.lake.files.known_versions import KNOWN_PAIRS
from tests.servers.certificates import certificate


class Quiet(SimpleHTTPRequestHandler):
    """Serves a folder, and says nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def setup(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["setup", *map(str, arguments)])


def names() -> list[str]:
    return sorted(map(jar_name, read_lock(DELTA_LOCK)))


@pytest.fixture
def jars(parts: Parts) -> Path:
    """The folder of Delta's jars that the toolchain has fetched."""
    return parts.jars[0].parent


@pytest.fixture
def repository(jars: Path, tmp_path: Path) -> Iterator[str]:
    """A Maven repository of Delta's jars, by HTTPS, whose authority is `ca.pem`. Yields its URL."""
    for coordinates in read_lock(DELTA_LOCK):
        organisation, name, version = coordinates.split(":")
        folder = tmp_path / "served" / organisation.replace(".", "/") / name / version
        folder.mkdir(parents=True)
        (folder / jar_name(coordinates)).symlink_to(jars / jar_name(coordinates))
    certificate(tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_lock_has_the_delta_that_the_lake_is_written_for() -> None:
    assert installed_folder().name in {f"delta-{pair.delta}" for pair in KNOWN_PAIRS}
    assert setup("--list").output == DELTA_LOCK.read_text()


def test_jars_of_a_folder_are_checked_and_taken(jars: Path, tmp_path: Path) -> None:
    told = setup("--jars", jars, "--into", tmp_path / "jars")
    assert told.exit_code == 0 and "jars has Delta's jars" in told.output
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == names()
    assert len(installed_parts(SparkSettings(jars=(tmp_path / "jars",))).jars) == len(names())
    again = setup("--into", tmp_path / "jars")  # nothing is fetched
    assert again.exit_code == 0 and "jars had Delta's jars" in again.output


def test_a_jar_that_is_another_is_refused_by_name_and_nothing_is_taken(jars: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(jars, other)
    missing, wrong = names()[:2]
    (other / missing).unlink()
    (other / wrong).write_bytes(b"another")
    told = setup("--jars", other, "--into", tmp_path / "jars")
    assert told.exit_code == 2
    assert f"{missing} is missing" in told.output and f"{wrong} has SHA-256 " in told.output
    assert list((tmp_path / "jars").iterdir()) == []
    assert "have no use with it" in setup("--jars", other, "--ca", other / names()[2]).output


@pytest.mark.full
def test_the_jars_for_s3_come_beside_those_of_delta(
    jars: Path, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parts.s3 is not None, "run `make setup-tests`"
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    given = tmp_path / "given"
    shutil.copytree(jars, given)
    for jar in parts.s3.glob("*.jar"):
        shutil.copyfile(jar, given / jar.name)
    (given / LOG_STORE_JAR).unlink()  # which is made, and not fetched
    told = setup("--s3", "--jars", given, "--into", tmp_path / "jars")
    assert told.exit_code == 0, told.output
    wanted = {*names(), *map(jar_name, read_lock(S3_LOCK)), LOG_STORE_JAR}
    assert {path.name for path in (tmp_path / "jars").iterdir()} == wanted
    assert (tmp_path / "jars" / LOG_STORE_JAR).read_bytes() == (parts.s3 / LOG_STORE_JAR).read_bytes()
    assert setup("--s3", "--list").output == DELTA_LOCK.read_text() + S3_LOCK.read_text()


@pytest.mark.full
def test_a_repository_of_ones_own_whose_authority_is_named(
    repository: str, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    into = ("--repository", repository, "--into", tmp_path / "jars")
    told = setup(*into, "--ca", tmp_path / "ca.pem")
    assert told.exit_code == 0, told.output
    assert sorted(path.name for path in (tmp_path / "jars").iterdir()) == names()

    shutil.rmtree(tmp_path / "jars")
    untrusted = setup(*into)
    assert untrusted.exit_code == 1 and "Ivy couldn't fetch the jars" in untrusted.output
    assert list((tmp_path / "jars").iterdir()) == []
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "there's no Java at" in setup(*into).output


def test_a_configuration_that_names_no_delta_has_the_jars_that_were_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "delta"
    monkeypatch.setattr(pinned_jars, "installed_folder", lambda: installed)
    config = tmp_path / "shop.toml"
    config.write_text("""
name = "shop"
tables = ["shop"]
source = { host = "db", user = "tidemark", server_id = 7 }
journal = { path = "journal" }
lake = { path = "lake" }
""")
    assert load(config, {}).spark.jars == ()
    installed.mkdir()
    assert load(config, {}).spark.jars == (installed,)
    mine, connector = tmp_path / "mine", tmp_path / "gcs-connector.jar"
    connector.touch()
    named = {"TIDEMARK__SPARK__JARS": f'["{mine}", "{connector}"]'}
    assert load(config, named).spark.jars == (mine, connector, installed)
    mine.mkdir()
    (mine / "delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert load(config, named).spark.jars == (mine, connector)
    assert load(config, {"TIDEMARK__SPARK__MASTER": "sc://spark:15002"}).spark.jars == ()
