"""A real Spark Connect server with Delta on it, in a JVM of its own on a port of 127.0.0.1."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.journal.files import LocalFiles
from actors.lake.spark.spark_connect import ConnectSpark, connect
from actors.lake.spark.spark_session import Spark
from deploy.toolchain.cache import REPOSITORY
from deploy.toolchain.parts import Parts
from deploy.toolchain.ports import take_port
from deploy.toolchain.server_process import ServerProcess
from pipeline.config.settings import SparkSettings

__all__ = ["connect_server", "connect_within", "fleet_spark"]


class SparkConnectServer(ServerProcess):
    """One server, which keeps its port. What it knows of sessions it forgets at its end."""

    what = "Spark Connect server"
    program = "SparkConnectServer"

    def __init__(self, parts: Parts, quick: SparkSettings, folder: Path) -> None:
        super().__init__(folder / "data", folder / "connect.log")
        self._parts = parts
        self._quick = quick
        self.port = take_port()

    @property
    def settings(self) -> SparkSettings:
        """As a pipeline has them."""
        return SparkSettings(f"sc://127.0.0.1:{self.port}")

    def _make_data(self) -> None:
        self.data.mkdir(parents=True)
        (self.data / "log4j2.properties").write_text(
            "rootLogger.level = warn\nrootLogger.appenderRef.out.ref = out\n"
            "appender.out.type = Console\nappender.out.name = out\nappender.out.layout.type = PatternLayout\n"
        )

    def _command(self) -> Sequence[str | Path]:
        conf = {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.shuffle.partitions": "2",
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.sql.artifact.isolation.enabled": "false",
            "spark.ui.enabled": "false",
            # Its owner takes no care of rows.
            "spark.sql.files.ignoreCorruptFiles": "true",
            "spark.sql.files.ignoreMissingFiles": "true",
            "spark.sql.ansi.enabled": "false",
            "spark.sql.storeAssignmentPolicy": "LEGACY",
        }
        return [
            *self._submit(),
            *("--master", "local[2]", "--driver-memory", "768m"),
            *("--jars", ",".join(map(str, self._parts.jars))),
            *_arguments({**conf, **self._own()}),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
        ]

    def _submit(self) -> Sequence[str | Path]:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        submit = Path(spec.origin).parent / "bin" / "spark-submit"
        environment = ["env", f"JAVA_HOME={self._parts.java_home}", "SPARK_LOCAL_IP=127.0.0.1"]
        # What makes it quick. Later arguments are stronger.
        return [*environment, submit, *_arguments(self._quick.conf)]

    def _own(self) -> Mapping[str, str]:
        """Where it listens and writes."""
        return {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(self.data / "local"),
            "spark.sql.warehouse.dir": str(self.data / "warehouse"),
            "spark.driver.extraJavaOptions": (
                f"-Dlog4j2.configurationFile=file:{self.data / 'log4j2.properties'} "
                f"{self._quick.conf['spark.driver.extraJavaOptions']}"
            ),
        }

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class FleetSpark(SparkConnectServer):
    """The one that `deploy/fleet.yaml` starts in a container: with its arguments, and this machine's places."""

    def _command(self) -> Sequence[str | Path]:
        service = yaml.safe_load((REPOSITORY / "deploy" / "fleet.yaml").read_text())["services"]["spark"]
        assert service["entrypoint"] == ["tini", "--", "spark-submit"]
        *arguments, what = service["command"]
        jars = str(self._parts.jars[0].parent)
        placed = [each.replace("/opt/tidemark/jars", jars) for each in arguments]
        assert placed != arguments
        return [*self._submit(), *placed, *_arguments(self._own()), what]


def _arguments(conf: Mapping[str, str]) -> list[str]:
    return [f"--conf={name}={value}" for name, value in conf.items()]


@contextmanager
def connect_within(spark: Spark, folder: Path) -> Iterator[ConnectSpark]:
    """A session of a Spark Connect server in a running Spark's JVM, which shares Delta's locks with it.

    `folder` has what its client keeps.
    """
    context: Any = spark.session.sparkContext
    settings = context._jsc.sc().conf()
    settings.set("spark.connect.grpc.binding.address", "127.0.0.1")
    settings.set("spark.connect.grpc.binding.port", "0")
    package = context._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    service.start(context._jsc.sc())
    try:
        made = connect(SparkSettings(f"sc://127.0.0.1:{service.localPort()}"), LocalFiles(folder))
        yield made
        made.stop()
    finally:
        none = getattr(getattr(context._jvm.scala, "None$"), "MODULE$")
        service.stop(none, none)


@pytest.fixture(scope="module")
def connect_server(
    parts: Parts, spark_settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkConnectServer]:
    """A server for a whole module; a test that ends it comes last."""
    with SparkConnectServer(parts, spark_settings, tmp_path_factory.mktemp("connect")) as server:
        yield server


@pytest.fixture(scope="module")
def fleet_spark(
    parts: Parts, spark_settings: SparkSettings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkConnectServer]:
    """A fleet's Spark for a whole module."""
    with FleetSpark(parts, spark_settings, tmp_path_factory.mktemp("connect")) as server:
        yield server
