"""A Java that Spark runs on: the machine's own 17 or 21, else Debian's in a prefix of its own."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from deploy.toolchain import debian
from deploy.toolchain.cache import ToolchainError, digest, ensure, is_complete, root, say

VERSIONS = (17, 21)


def home() -> Path | None:
    """Return the Java to use: that of `JAVA_HOME`, else of the PATH, else of the cache; None without any."""
    candidates = []
    if chosen := os.environ.get("JAVA_HOME"):
        candidates.append(Path(chosen) / "bin" / "java")
    if found := shutil.which("java"):
        candidates.append(Path(found))
    if is_complete(folder()):
        candidates.extend(folder().glob("usr/lib/jvm/java-*-openjdk-*/bin/java"))
    return next((home for candidate in candidates if (home := _home_of(candidate))), None)


def folder() -> Path:
    """Return where a fetched Java lies, whether it is there yet or not."""
    return root() / f"java-{digest(debian.architecture(), *map(str, VERSIONS))}"


def setup() -> Path:
    """Return a Java home, fetching one if the machine has none."""
    if found := home():
        return found

    def build() -> None:
        apt = debian.Apt.of_host(folder() / "apt")
        offered = [name for version in VERSIONS if apt.offers(name := f"openjdk-{version}-jre-headless")]
        if not offered:
            raise ToolchainError("no Java 17 or 21 on this machine nor in its Debian release; install one")
        say(f"Java: {offered[0]} of the machine's own Debian release")
        debian.unpack(apt.fetch_alone(offered[0]), folder())
        shutil.rmtree(folder() / "apt")
        _mend_links(folder())

    ensure("Java", folder(), build)
    if (found := home()) is None:
        raise ToolchainError(f"the Java fetched into {folder()} does not run; install a Java 17 or 21")
    return found


def _mend_links(prefix: Path) -> None:
    """Turn the package's links to /etc/java-*-openjdk into links to the prefix's own copy."""
    for link in prefix.rglob("*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute():
            inside = prefix / target.relative_to("/")
            link.unlink()
            link.symlink_to(os.path.relpath(inside, link.parent))


def _home_of(java: Path) -> Path | None:
    """Return a Java's home if its version will do and it has the module that Spark's launcher asks for."""
    try:
        told = subprocess.run(
            [java, "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"],
            text=True,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    settings = dict(re.findall(r"^ +(java\.[a-z.]+) = (.+)$", told.stderr, re.MULTILINE))
    if settings.get("java.specification.version") not in {str(version) for version in VERSIONS}:
        return None
    return Path(settings["java.home"])
