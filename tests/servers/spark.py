"""A real Spark with Delta on it. PySpark has but one in a process: the modules of tests share it.

A module that starts Sparks of its own, or whose service does, asks for `spark_settings`; then the shared one ends.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from actors.lake.spark import spark_session
from actors.lake.spark.java import class_archive
from actors.lake.spark.spark_session import Spark
from deploy.toolchain.parts import Parts
from deploy.toolchain.spark_pair import given_pair
from pipeline.config.settings import SparkSettings
from pipeline.lake.files import known_versions
from pipeline.lake.files.known_versions import KnownPair

__all__ = ["JAVA_OPTIONS", "quick", "quick_java", "shared_spark", "spark", "spark_settings", "toml"]

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# Spark plans each stage again when it knows what the one before made. Of a few rows that makes nothing better.
_PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false"}
# A few rows end in one part in any case. Without adaptive planning nothing joins small ones.
_ONE_PART = {"spark.sql.shuffle.partitions": "1", "spark.databricks.delta.snapshotPartitions": "1"}


def quick() -> dict[str, str]:
    """Settings with which Spark costs the least.

    Tests run each query a few times over a few rows. Compiling it, by Spark or by the JVM's second compiler, would take
    most of their time. With one compiler the JVM keeps 48 MB of its code, and Spark's fills them: then it would throw
    code away and compile it again. When 21 MB of classes are there, which is while it starts, it would collect all
    garbage.
    """
    return {
        JAVA_OPTIONS: (
            "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=160m -XX:+UseSerialGC"
        ),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # VACUUM lists its folders with so many tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        **_PLANNED_ONCE,
        **_ONE_PART,
    }


def quick_java(parts: Parts) -> str:
    """The same, as JDK_JAVA_OPTIONS, for each Spark of a program whose settings a test can't set.

    It divides as a user's, since the program says into how many parts.
    """
    conf = {name: value for name, value in quick().items() if name not in _ONE_PART}
    archive = class_archive(str(parts.java_home / "bin" / "java"), Path(sys.prefix))
    options = (conf.pop(JAVA_OPTIONS), f"-XX:SharedArchiveFile={archive}")  # which only our own Sparks find
    return " ".join((*options, *(f"-D{name}={value}" for name, value in conf.items())))


def start_quickly(patched: pytest.MonkeyPatch, parts: Parts) -> None:
    """Have the programs that the test starts find Java, with `quick_java`."""
    patched.setenv("JAVA_HOME", str(parts.java_home))
    patched.setenv("JDK_JAVA_OPTIONS", quick_java(parts))


def toml(conf: Mapping[str, str]) -> str:
    """Settings as a table of TOML in one line."""
    return f"{{ {', '.join(f'{json.dumps(name)} = {json.dumps(value)}' for name, value in conf.items())} }}"


class SharedSpark:
    """The process's Spark, from the first module that asks for one until somebody needs to start another."""

    def __init__(self, settings: SparkSettings, folders: pytest.TempPathFactory) -> None:
        self.settings = settings
        self._folders = folders
        self._spark: Spark | None = None

    def running(self) -> Spark:
        """Start it, unless it runs."""
        if self._spark is None:
            self._spark = spark_session.start_local(self.settings, self._folders.mktemp("spark"))
        return self._spark

    def end(self) -> None:
        """Leave the process without a Spark."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None


def jars_of_pair(patched: pytest.MonkeyPatch) -> tuple[Path, ...]:
    """The jars of the pair that `make conformance` names, which is the only known one from now on; none without it."""
    if (given := given_pair()) is None:
        return ()
    jars, delta = given
    spark = ".".join(pyspark.__version__.split(".")[:2])
    known = (KnownPair(spark, delta, "make conformance names it"),)
    for module in (known_versions, spark_session):
        patched.setattr(module, "KNOWN_PAIRS", known)
    return (jars,)


@pytest.fixture(scope="session")
def shared_spark(
    parts: Parts,
    tmp_path_factory: pytest.TempPathFactory,
    s3_server: str,  # noqa: ARG001 - the environment has its account, and Spark's Python processes get that
) -> Iterator[SharedSpark]:
    """The modules' Spark, on this machine's cores, with the jars of `make setup-tests`. It isn't started yet.

    With `make conformance` it is the pair that this names.
    """
    assert parts.s3 is not None, "the jars for S3 aren't here yet: run `make setup-tests`"
    with pytest.MonkeyPatch.context() as patched:
        jars = jars_of_pair(patched) or (*parts.jars, parts.s3)
        shared = SharedSpark(SparkSettings(jars=jars, conf=quick()), tmp_path_factory)
        yield shared
        shared.end()


@pytest.fixture(scope="module")
def spark_settings(shared_spark: SharedSpark) -> SparkSettings:
    """Settings to start a Spark with; no other one runs in this process."""
    shared_spark.end()
    return shared_spark.settings


@pytest.fixture(scope="module")
def spark(shared_spark: SharedSpark) -> Spark:
    """A Spark that has run other modules' tests, and goes on to run others: leave its settings as they are."""
    return shared_spark.running()
