"""The archive of Spark's classes: where it lies, that a Spark uses it, and that a Spark does without one."""

import sys
from pathlib import Path

import pytest

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


def test_a_spark_finds_its_classes_in_the_archive(spark: Spark) -> None:
    """One that doesn't fit would go unnoticed: the JVM continues without it, and only starts later."""
    program = java_program()
    assert program is not None
    assert str(class_archive(program, Path(sys.prefix)).resolve()) in mapped(spark)


@pytest.mark.full
def test_a_spark_does_without_an_archive_that_does_not_fit(
    spark_settings: SparkSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = java_program()
    assert program is not None
    other = class_archive(program, tmp_path / "a folder")
    other.parent.mkdir(parents=True)
    ours = class_archive(program, Path(sys.prefix)).read_bytes()
    assert b"Server VM (" in ours[:4096]  # the header says of which build of Java it is
    other.write_bytes(ours.replace(b"Server VM (", b"Server VM [", 1))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a folder"))
    spark = spark_session.start_local(spark_settings, tmp_path / "spark")
    try:
        assert not {file for file in mapped(spark) if file.endswith(f"/{other.name}")}
        assert spark.session.sql("SELECT 1").collect() == [(1,)]
    finally:
        spark.stop()
