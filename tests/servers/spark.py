"""A real Spark with Delta on it. PySpark has but one in a process, so each module of tests has its own."""

import json
from collections.abc import Iterator, Mapping

import pytest

from actors.lake import spark_session
from actors.lake.spark_session import Spark
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings

__all__ = ["quick", "quick_java", "spark", "spark_settings", "toml"]

_JAVA = "spark.driver.extraJavaOptions"


def quick(parts: Parts) -> dict[str, str]:
    """Settings with which Spark costs the least.

    Tests run each query a few times over a few rows. Compiling it, by Spark or by the JVM's second compiler, would take
    most of their time. So would reading its classes.
    """
    assert parts.spark_classes is not None, "Spark's classes aren't here yet: run `make setup-tests`"
    return {
        _JAVA: (f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={parts.spark_classes}"),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # VACUUM lists its folders with so many tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    }


def quick_java(parts: Parts) -> str:
    """The same, as JDK_JAVA_OPTIONS, for each Spark of a program whose settings a test can't set."""
    conf = quick(parts)
    return " ".join((conf.pop(_JAVA), *(f"-D{name}={value}" for name, value in conf.items())))


def toml(conf: Mapping[str, str]) -> str:
    """Settings as a table of TOML in one line."""
    return f"{{ {', '.join(f'{json.dumps(name)} = {json.dumps(value)}' for name, value in conf.items())} }}"


@pytest.fixture(scope="session")
def spark_settings(parts: Parts) -> SparkSettings:
    """Spark on this machine's cores, with the jars that `make setup` fetched."""
    return SparkSettings(jars=parts.jars, conf=quick(parts))


@pytest.fixture(scope="module")
def spark(spark_settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spark]:
    """A Spark for a whole module."""
    spark = spark_session.start_local(spark_settings, tmp_path_factory.mktemp("spark"))
    yield spark
    spark.stop()
