"""Jars by the Ivy that PySpark carries inside: Delta's, and what other parts have a lock for.

The product fetches Delta's in the same way (`tidemark setup`), and has their lock.
"""

from pathlib import Path

from actors.service.installation.pinned_jars import (
    DELTA_LOCK,
    install_jars,
    jar_name,
    read_lock,
    retrieve_jars,
)
from deploy.toolchain.cache import REPOSITORY, ToolchainError, digest, ensure, root, run
from pipeline.errors import TidemarkError

LOCK = DELTA_LOCK


def folder() -> Path:
    """Return where Delta's jars lie, whether they are there yet or not."""
    return root() / f"jars-{digest(LOCK.read_bytes())}"


def paths() -> tuple[Path, ...]:
    """Return the path of each of Delta's jars, in the lock's order."""
    return tuple(folder() / jar_name(coordinates) for coordinates in read_lock(LOCK))


def setup(java_home: Path, python: Path, pyspark: Path, trusted: Path) -> None:
    """Fetch Delta's jars and check them against the lock.

    Ivy is taken from the folder of the package `pyspark`; `trusted` are PEM certificates of authorities.
    """
    ensure("Delta's jars", folder(), lambda: fetch(LOCK, folder(), java_home, python, pyspark, trusted))


def fetch(lock: Path, into: Path, java_home: Path, python: Path, pyspark: Path, trusted: Path) -> None:
    """Fetch the jars of a lock into a folder, and check them."""

    def bring(draft: Path) -> None:
        trust = draft / "trust"
        writer = "actors.service.installation.java_truststore"
        run([python, "-m", writer, trusted, trust], cwd=REPOSITORY)
        retrieve_jars(lock, draft, java_home / "bin" / "java", pyspark, trust=trust)

    try:
        install_jars(lock, into, bring)
    except TidemarkError as error:
        raise ToolchainError(f"{lock.name}: {error}") from error
