"""The virtual environment: what deploy/requirements.lock pins, every file checked by its hash.

PySpark comes as source alone; what builds it is pinned in deploy/build.lock and installed first, because a
build in isolation would fetch it unpinned.
"""

import sys
from pathlib import Path

from deploy.toolchain.cache import REPOSITORY, ToolchainError, digest, ensure, root, run

LOCKS = (REPOSITORY / "deploy" / "build.lock", REPOSITORY / "deploy" / "requirements.lock")


def folder() -> Path:
    """Return where the environment lies, whether it is there yet or not."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return root() / f"venv-{digest(version, *(lock.read_bytes() for lock in LOCKS))}"


def python() -> Path:
    """Return the environment's interpreter."""
    return folder() / "bin" / "python"


def pyspark() -> Path:
    """Return the folder of the package `pyspark` in the environment."""
    return (
        folder()
        / "lib"
        / f"python{sys.version_info.major}.{sys.version_info.minor}"
        / "site-packages/pyspark"
    )


def setup() -> Path:
    """Make the environment if it isn't there and return its interpreter."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs on whatever Python is there
        raise ToolchainError("Python 3.11 or newer is needed; say which with `make PYTHON=python3.11 ...`")

    def build() -> None:
        run([sys.executable, "-m", "venv", folder()])
        for lock in LOCKS:
            run(
                [
                    python(),
                    "-m",
                    "pip",
                    "install",
                    "--require-hashes",
                    "--no-build-isolation",
                    "--no-input",
                    "--disable-pip-version-check",
                    "-r",
                    lock,
                ]
            )

    ensure("Python packages", folder(), build)
    return python()
