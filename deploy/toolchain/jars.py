"""Delta's jars, by the Ivy that PySpark carries inside.

Ivy's own default for a Maven-style resolver is the central repository, so no address is written here. They
are taken one by one, without what their POMs ask for: PySpark has the rest already. Ivy gets a cache of its
own, since one in the home directory that holds a POM without its jar would make it fail.
"""

import shutil
from pathlib import Path

from deploy.toolchain.cache import ToolchainError, digest, ensure, read_lock, root, run, sha256

LOCK = Path(__file__).with_name("jars.lock")

SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
MODULE = """<ivy-module version="2.0">
  <info organisation="tidemark" module="jars"/>
  <dependencies>{}</dependencies>
</ivy-module>
"""
DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" transitive="false"/>'


def folder() -> Path:
    """Return where the jars lie, whether they are there yet or not."""
    return root() / f"jars-{digest(LOCK.read_bytes())}"


def paths() -> tuple[Path, ...]:
    """Return the path of each jar, in the lock's order."""
    return tuple(folder() / _file(coordinates) for coordinates in read_lock(LOCK))


def setup(java_home: Path, pyspark: Path) -> None:
    """Fetch the jars with the Ivy in `pyspark` (the package's folder) and check them against the lock."""

    def build() -> None:
        ivy = folder() / "ivy"
        ivy.mkdir()
        pins = read_lock(LOCK)
        (ivy / "settings.xml").write_text(SETTINGS)
        wanted = "".join(DEPENDENCY.format(*coordinates.split(":")) for coordinates in pins)
        (ivy / "ivy.xml").write_text(MODULE.format(wanted))
        classes = [*(pyspark / "jars").glob("ivy-*.jar"), *(pyspark / "jars").glob("commons-cli-*.jar")]
        run(
            [
                java_home / "bin" / "java",
                "-cp",
                ":".join(map(str, classes)),
                "org.apache.ivy.Main",
                "-settings",
                ivy / "settings.xml",
                "-ivy",
                ivy / "ivy.xml",
                "-cache",
                ivy / "cache",
                "-retrieve",
                f"{folder()}/[artifact]-[revision].[ext]",
            ]
        )
        shutil.rmtree(ivy)
        for coordinates, checksum in pins.items():
            if (found := sha256(folder() / _file(coordinates))) != checksum:
                raise ToolchainError(f"{coordinates} has SHA-256 {found}, jars.lock says {checksum}")

    ensure("Delta's jars", folder(), build)


def _file(coordinates: str) -> str:
    _, name, version = coordinates.split(":")
    return f"{name}-{version}.jar"
