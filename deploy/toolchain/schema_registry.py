"""Apicurio Registry, for tests: a real schema registry that speaks Confluent's API, on the Java that Spark runs on.

`schema_registry.lock` pins its archive. It keeps schemas in memory.
"""

import http.client
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from deploy.toolchain import jars
from deploy.toolchain.cache import digest, ensure, is_complete, root
from deploy.toolchain.ports import take_port
from deploy.toolchain.server_process import READY_WITHIN, ServerProcess

LOCK = Path(__file__).with_name("schema_registry.lock")

_API: Final = "/apis/ccompat/v7"
_JAVA: Final = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@dataclass(frozen=True, slots=True)
class SchemaRegistryParts:
    """The folder of the program, and the Java to run it."""

    folder: Path
    java_home: Path


def folder() -> Path:
    """Return where the program lies, whether it is there yet or not."""
    return root() / f"schema-registry-{digest(LOCK.read_bytes())}"


def find(java_home: Path) -> SchemaRegistryParts | None:
    """Return the registry if it has been fetched."""
    return SchemaRegistryParts(folder(), java_home) if is_complete(folder()) else None


def setup(java_home: Path, python: Path, pyspark: Path, trusted: Path) -> SchemaRegistryParts:
    """Return the registry, fetching it if need be; the arguments are as for Delta's jars (`jars.setup`)."""

    def build() -> None:
        jars.fetch(LOCK, folder(), java_home, python, pyspark, trusted)
        [archive] = folder().glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder(), filter="data")
        archive.unlink()

    ensure("the schema registry", folder(), build)
    return SchemaRegistryParts(folder(), java_home)


class SchemaRegistryServer(ServerProcess):
    """One registry, at a free port of 127.0.0.1."""

    what: ClassVar[str] = "schema registry"
    program: ClassVar[str] = "Apicurio Registry"

    def __init__(self, parts: SchemaRegistryParts, folder: Path) -> None:
        super().__init__(folder / "data", folder / "registry.log")
        self._parts = parts
        self.port = take_port()

    @property
    def url(self) -> str:
        """Where it speaks Confluent's API."""
        return f"http://127.0.0.1:{self.port}{_API}"

    def _make_data(self) -> None:
        self.data.mkdir(parents=True)

    def _command(self) -> list[str | Path]:
        [program] = self._parts.folder.glob("*-runner.jar")
        options = [f"-Dquarkus.http.port={self.port}", "-Dquarkus.http.host=127.0.0.1"]
        return [self._parts.java_home / "bin" / "java", *_JAVA, *options, "-jar", program]

    def _answers(self) -> bool:
        asked = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_WITHIN)
        try:
            asked.request("GET", f"{_API}/subjects")
            return asked.getresponse().status == http.HTTPStatus.OK
        except (ConnectionError, http.client.HTTPException):
            return False
        finally:
            asked.close()
