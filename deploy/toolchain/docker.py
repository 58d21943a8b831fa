"""Docker and debootstrap, for the one test that builds the image: the machine's own, else Debian's in a prefix.

No registry is asked: the base of an image is made of Debian's packages by debootstrap.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import digest, ensure, locked, root

PACKAGES = ("containerd", "debootstrap", "docker.io", "runc", "tini")


@dataclass(frozen=True, slots=True)
class DockerParts:
    """`environment`: what the programs need to find each other and their files."""

    environment: dict[str, str]


def folder() -> Path:
    """Return where a fetched Docker lies, whether it is there yet or not."""
    return root() / f"docker-{digest(debian.architecture(), *PACKAGES)}"


def setup() -> DockerParts:
    """Return Docker, fetching what the machine lacks of it."""
    if all(map(shutil.which, ("dockerd", "docker", "debootstrap"))):
        return DockerParts({})

    def build() -> None:
        apt = debian.Apt.of_host(folder() / "apt")
        for package in PACKAGES:
            debian.unpack(apt.fetch_alone(package), folder())
        shutil.rmtree(folder() / "apt")

    with locked():
        ensure("Docker", folder(), build)
    programs = [str(folder() / "usr" / place) for place in ("bin", "sbin")]
    return DockerParts(
        {
            "PATH": os.pathsep.join([*programs, os.environ["PATH"]]),
            "DEBOOTSTRAP_DIR": str(folder() / "usr" / "share" / "debootstrap"),
        }
    )
