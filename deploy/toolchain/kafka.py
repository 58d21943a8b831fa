"""Apache Kafka's broker, for tests: jars, pinned by `kafka.lock`, that run on the Java that Spark runs on."""

from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain import jars
from deploy.toolchain.cache import digest, ensure, is_complete, root

LOCK = Path(__file__).with_name("kafka.lock")


@dataclass(frozen=True, slots=True)
class KafkaParts:
    """Where the broker's jars are, the Java to run them, and the archive of their classes if it has been made."""

    jars: Path
    java_home: Path
    classes: Path | None


def folder() -> Path:
    """Return where the jars lie, whether they are there yet or not."""
    return root() / f"kafka-{digest(LOCK.read_bytes())}"


def find(java_home: Path) -> KafkaParts | None:
    """Return Kafka if it has been fetched."""
    return _parts(java_home) if is_complete(folder()) else None


def setup(java_home: Path, python: Path, pyspark: Path, trusted: Path) -> KafkaParts:
    """Return Kafka, fetching it if need be; the arguments are as for Delta's jars (`jars.setup`)."""
    ensure("Kafka", folder(), lambda: jars.fetch(LOCK, folder(), java_home, python, pyspark, trusted))
    return _parts(java_home)


def classes_folder(java_home: Path) -> Path:
    """Return where the archive of Kafka's classes lies for this Java, whether it is there yet or not."""
    return (
        root()
        / f"kafka-classes-{digest(str(folder()), (java_home / 'release').read_bytes(), str(java_home))}"
    )


def archive(java_home: Path) -> Path:
    """Return the file of that archive."""
    return classes_folder(java_home) / "kafka.jsa"


def _parts(java_home: Path) -> KafkaParts:
    classes = archive(java_home) if is_complete(classes_folder(java_home)) else None
    return KafkaParts(folder(), java_home, classes)
