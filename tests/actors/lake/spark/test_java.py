"""The archive of Spark's classes: where it lies, that a Spark uses it, and that a Spark does without one."""

import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from actors.lake.spark import spark_session
from actors.lake.spark.java import class_archive, java_program
from actors.lake.spark.spark_session import Spark
from pipeline.config.settings import SparkSettings


def mapped(spark: Spark) -> set[str]:
    """The files that the JVM has in its memory."""
    lines = Path(f"/proc/{spark.pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[-1] for line in lines if "/" in line}


def test_each_build_of_java_has_an_archive_of_its_own(tmp_path: Path) -> None:
    program = str(tmp_path / "java" / "bin" / "java")
    without = class_archive(program, tmp_path)
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "release").write_text("17.0.15")
    first = class_archive(program, tmp_path)
    (tmp_path / "java" / "release").write_text("17.0.16")
    assert len({without, first, class_archive(program, tmp_path)}) == 3
    assert first.parent == tmp_path / "share" / "tidemark"


@pytest.fixture
def ours() -> Path:
    """The archive that `make setup` has made."""
    program = java_program()
    assert program is not None
    return class_archive(program, Path(sys.prefix))


def test_a_spark_finds_its_classes_in_the_archive(spark: Spark, ours: Path) -> None:
    """One that doesn't fit would go unnoticed: the JVM continues without it, and only starts later."""
    assert str(ours.resolve()) in mapped(spark)


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a Spark looks for another archive than ours."""
    program = java_program()
    assert program is not None
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a folder"))
    other = class_archive(program, tmp_path / "a folder")
    other.parent.mkdir(parents=True)
    return other


def starts_without(archive: Path, settings: SparkSettings, folder: Path) -> None:
    spark = spark_session.start_local(settings, folder)
    try:
        assert not {file for file in mapped(spark) if file.endswith(f"/{archive.name}")}
        assert spark.session.sql("SELECT 1").collect() == [(1,)]
    finally:
        spark.stop()


@pytest.mark.full
def test_a_spark_does_without_the_archive_of_another_java(
    spark_settings: SparkSettings, ours: Path, archive: Path, tmp_path: Path
) -> None:
    told = ours.read_bytes()
    assert b"Server VM (" in told[:4096]  # the header says of which build of Java it is
    archive.write_bytes(told.replace(b"Server VM (", b"Server VM [", 1))
    with capture_logs() as logs:
        starts_without(archive, spark_settings, tmp_path / "spark")
    assert logs == []


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # PySpark leaves a pipe open
def test_a_spark_does_without_an_archive_that_ends_its_jvm(
    spark_settings: SparkSettings, ours: Path, archive: Path, tmp_path: Path
) -> None:
    archive.write_bytes(ours.read_bytes()[: 1 << 20])
    with capture_logs() as logs:
        starts_without(archive, spark_settings, tmp_path / "spark")
    assert [each["event"] for each in logs] == [
        "Spark's JVM starts again, without the archive of its classes"
    ]
    assert "SIGBUS" in (tmp_path / "spark" / "java-error.log").read_text()
