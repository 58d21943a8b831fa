"""Prometheus and its promtool, for tests: the machine's own, else those of its Debian release in a prefix.

They're Go programs that need libc alone, so that the package's dependencies are left out. `prometheus.lock` pins the
package of one release; on another one apt's is taken, and a line says so.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import ToolchainError, digest, ensure, is_complete, root

LOCK = Path(__file__).with_name("prometheus.lock")
PACKAGE = "prometheus"


@dataclass(frozen=True, slots=True)
class PrometheusParts:
    """The programs."""

    prometheus: Path
    promtool: Path


def folder() -> Path:
    """Return where a fetched Prometheus lies, whether it is there yet or not."""
    return root() / f"prometheus-{digest(LOCK.read_bytes(), debian.architecture())}"


def find() -> PrometheusParts | None:
    """Return the Prometheus to use: the PATH's, else the cache's; None if there is none."""
    if (server := shutil.which("prometheus")) and (tool := shutil.which("promtool")):
        return PrometheusParts(Path(server), Path(tool))
    if is_complete(folder()):
        return PrometheusParts(folder() / "usr/bin/prometheus", folder() / "usr/bin/promtool")
    return None


def setup() -> PrometheusParts:
    """Return Prometheus, fetching it if the machine has none."""
    if found := find():
        return found

    def build() -> None:
        archives = debian.Apt.of_host(folder() / "apt").fetch_alone(PACKAGE)
        debian.check("Prometheus", archives, LOCK)
        debian.unpack(archives, folder())
        shutil.rmtree(folder() / "apt")

    ensure("Prometheus", folder(), build)
    if (found := find()) is None:
        raise ToolchainError(f"Prometheus' folder {folder()} was just made and is gone")
    return found
