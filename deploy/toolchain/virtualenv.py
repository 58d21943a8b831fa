"""The virtual environment: what deploy/requirements.lock pins, every file checked by its hash.

PySpark comes as source alone; what builds it is pinned in deploy/build.lock and installed first, because a
build in isolation would fetch it unpinned.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import REPOSITORY, ToolchainError, digest, ensure, follow, root, run, say

LOCKS = (REPOSITORY / "deploy" / "build.lock", REPOSITORY / "deploy" / "requirements.lock")


def folder() -> Path:
    """Return where the environment lies, there or not; it depends on the Python that it's made with."""
    return root() / f"venv-{digest(sys.version, sys.base_prefix, *(lock.read_bytes() for lock in LOCKS))}"


def python() -> Path:
    """Return the environment's interpreter."""
    return folder() / "bin" / "python"


def pyspark() -> Path:
    """Return the folder of the package `pyspark` in the environment."""
    return next(folder().glob("lib/python3.*/site-packages/pyspark"))


def setup(trusted: Path) -> Path:
    """Make the environment if it isn't there and return its interpreter.

    `trusted` are PEM certificates of the authorities that downloads trust.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - this runs on whatever Python is there
        raise ToolchainError("Python 3.11 or newer is needed; say which with `make PYTHON=python3.11 ...`")

    def build() -> None:
        run([sys.executable, "-m", "venv", "--without-pip", folder()])
        _install_pip()
        quiet = ["--no-input", "--disable-pip-version-check"]
        pip: list[str | Path] = [python(), "-m", "pip", *quiet, "--cert", trusted]
        for lock in LOCKS:
            for line in follow([*pip, "install", "--require-hashes", "--no-build-isolation", "-r", lock]):
                if (line.startswith("Downloading") and " MB)" in line) or line.startswith("Building"):
                    say(f"Python packages: {line}")

    ensure("Python packages", folder(), build)
    return python()


def _install_pip() -> None:
    """Put pip into the environment; Debian keeps Python's own copy of it in a package that may be missing."""
    if importlib.util.find_spec("ensurepip"):
        run([python(), "-m", "ensurepip"])
        return
    apt = debian.Apt.of_host(folder() / "apt")
    debian.unpack(apt.fetch_alone("python3-pip-whl"), folder() / "pip")
    [wheel] = folder().glob("pip/usr/share/python-wheels/pip-*.whl")
    run([python(), wheel / "pip", "install", "--no-index", wheel])
    for used in ("apt", "pip"):
        shutil.rmtree(folder() / used)
