"""`tidemark setup`: it leaves an archive of Spark's classes, or says that it couldn't."""

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.lake.spark import spark_session
from actors.lake.spark.java import class_archive
from actors.service.cli import main
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings
from tests.actors.lake.spark.test_java import mapped


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of Python that has nothing yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    return tmp_path / "env"


def setup(parts: Parts) -> str:
    done = CliRunner().invoke(main, ["setup", "--jars", str(parts.jars[0].parent)])
    assert done.exit_code == 0, done.output
    assert "has Delta's jars" in done.output or "had Delta's jars" in done.output
    return done.output


def test_without_java_the_jars_are_there_and_the_archive_is_said_to_be_missing(
    parts: Parts, environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"each start of Spark will take some 4 s more: there's no Java at {tmp_path}" in setup(parts)
    assert not list(environment.rglob("*.jsa"))


@pytest.mark.full
def test_an_archive_of_this_java_takes_the_place_of_an_older_one(
    parts: Parts,
    spark_settings: SparkSettings,
    environment: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    archive = class_archive(str(parts.java_home / "bin" / "java"), environment)
    older = archive.with_name("spark-000000000000.jsa")
    older.parent.mkdir(parents=True)
    older.touch()
    assert f"{archive} has Spark's classes" in setup(parts)
    assert not older.exists() and {path.name for path in archive.parent.glob("*spark-*")} == {archive.name}
    spark = spark_session.start_local(spark_settings, tmp_path / "spark")
    try:
        assert str(archive) in mapped(spark)
    finally:
        spark.stop()


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark leaves a pipe open
def test_a_java_without_an_archive_of_its_own_says_so(
    parts: Parts,
    spark_settings: SparkSettings,  # noqa: ARG001 - no other Spark may run in this process
    environment: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    java = tmp_path / "java"
    shutil.copytree(parts.java_home, java, symlinks=True, ignore=shutil.ignore_patterns("*.jsa", "docs"))
    monkeypatch.setenv("JAVA_HOME", str(java))
    told = setup(parts)
    assert "each start of Spark will take some 4 s more: Spark failed with these jars: " in told
    assert "unsupported when base CDS archive is not loaded" in told
    assert not list(environment.rglob("*.jsa"))
