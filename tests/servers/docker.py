"""A Docker of a test's own: a daemon with its data in a folder. It has no networks; containers use the host's."""

import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from deploy.toolchain import children
from deploy.toolchain.docker import DockerParts

__all__ = ["Docker"]

_STARTS_WITHIN_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.2

# What the machine trusts, so that what it downloads through can be trusted inside as well.
_TRUSTED: Final = Path("/etc/ssl/certs/ca-certificates.crt")


class Docker:
    """Runs while it's entered; `folder` has to be empty, and on a filesystem that overlayfs can lie on."""

    def __init__(self, parts: DockerParts, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | parts.environment
        self._environment |= {"DOCKER_HOST": f"unix://{folder}/socket", "DOCKER_BUILDKIT": "0"}

    def __enter__(self) -> "Docker":
        self._folder.mkdir()
        places = [f"--{name}={self._folder / name}" for name in ("data-root", "exec-root", "pidfile")]
        off = [f"--{name}=false" for name in ("iptables", "ip6tables", "ip-forward", "ip-masq")]
        command = ["env", *(f"{name}={value}" for name, value in self._environment.items() if name == "PATH")]
        command += ["dockerd", *places, *off, "--bridge=none", f"--host=unix://{self._folder}/socket"]
        self._daemon = children.start(command, self._folder / "log")
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while subprocess.run(
            ["docker", "info"], env=self._environment, capture_output=True, check=False
        ).returncode:
            assert self._daemon.poll() is None and time.monotonic() < deadline, (
                self._folder / "log"
            ).read_text()
            time.sleep(_LOOK_EVERY_S)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for container in self.run("ps", "--all", "--quiet").split():
            self.run("rm", "--force", "--volumes", container)
        self._daemon.terminate()
        self._daemon.wait()
        # The network namespace of containers on the host's network stays mounted when the daemon ends.
        for namespace in self._folder.rglob("netns/*"):
            subprocess.run(["umount", namespace], check=True)
        shutil.rmtree(self._folder)

    def run(self, *arguments: str | Path, check: bool = True) -> str:
        """What `docker` says to this; its exit code doesn't matter without `check`."""
        told = self._told(*arguments)
        assert not check or told.returncode == 0, told.stdout[-5000:] + told.stderr[-5000:]
        return told.stdout

    def logs(self, container: str) -> str:
        """All that a container has written, to either of its ends."""
        told = self._told("logs", container)
        return told.stdout + told.stderr

    def _told(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def debian(self, name: str, suite: str) -> None:
        """Make an image of Debian's smallest system, which trusts whom this machine trusts."""
        root = self._folder / "debian"
        subprocess.run(
            ["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, root],
            env=self._environment,
            check=True,
            capture_output=True,
        )
        if _TRUSTED.exists():
            shutil.copy(_TRUSTED, root / "usr" / "local" / "share" / "ca-certificates" / "machine.crt")
            subprocess.run(["chroot", root, "update-ca-certificates"], check=True, capture_output=True)
        archive = self._folder / "debian.tar"
        subprocess.run(["tar", "--create", f"--directory={root}", f"--file={archive}", "."], check=True)
        self.run("import", archive, name)
        archive.unlink()
        shutil.rmtree(root)
