"""Jars by the Ivy that PySpark carries inside: Delta's, and what other parts have a lock for.

Ivy's own default for a Maven-style resolver is the central repository, so no address is written here. They
are taken one by one, without what their POMs ask for: of Delta's, PySpark has the rest already. Ivy gets a cache of its
own, since one in the home directory that holds a POM without its jar would make it fail.

A lock names a module's jar by `organisation:name:version`, and another artefact with `:classifier:extension` added.
"""

import shutil
from pathlib import Path

from deploy.toolchain.cache import REPOSITORY, ToolchainError, digest, ensure, read_lock, root, run, sha256

LOCK = Path(__file__).with_name("jars.lock")

SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
MODULE = """<ivy-module version="2.0" xmlns:maven="http://ant.apache.org/ivy/extra">
  <info organisation="tidemark" module="jars"/>
  <dependencies>{}</dependencies>
</ivy-module>
"""
DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" transitive="false">{}</dependency>'
# An artefact beside a module's jar: its name, classifier and extension.
ARTEFACT = '<artifact name="{0}" maven:classifier="{1}" type="{2}" ext="{2}"/>'


def folder() -> Path:
    """Return where Delta's jars lie, whether they are there yet or not."""
    return root() / f"jars-{digest(LOCK.read_bytes())}"


def paths() -> tuple[Path, ...]:
    """Return the path of each of Delta's jars, in the lock's order."""
    return tuple(folder() / _file(coordinates) for coordinates in read_lock(LOCK))


def setup(java_home: Path, python: Path, pyspark: Path, trusted: Path) -> None:
    """Fetch Delta's jars and check them against the lock.

    Ivy is taken from the folder of the package `pyspark`; `trusted` are PEM certificates of authorities.
    """
    ensure("Delta's jars", folder(), lambda: fetch(LOCK, folder(), java_home, python, pyspark, trusted))


def fetch(lock: Path, into: Path, java_home: Path, python: Path, pyspark: Path, trusted: Path) -> None:
    """Fetch the jars of a lock into a folder, and check them."""
    _retrieve(lock, into, java_home, python, pyspark, trusted)
    for coordinates, checksum in read_lock(lock).items():
        if (found := sha256(into / _file(coordinates))) != checksum:
            raise ToolchainError(f"{coordinates} has SHA-256 {found}, {lock.name} says {checksum}")


def _retrieve(lock: Path, into: Path, java_home: Path, python: Path, pyspark: Path, trusted: Path) -> None:
    ivy = into / "ivy"
    ivy.mkdir()
    (ivy / "settings.xml").write_text(SETTINGS)
    wanted = "".join(map(_dependency, read_lock(lock)))
    (ivy / "ivy.xml").write_text(MODULE.format(wanted))
    run([python, "-m", "deploy.toolchain.truststore", trusted, ivy / "trust"], cwd=REPOSITORY)
    trust = [f"-Djavax.net.ssl.trustStore={ivy / 'trust'}", "-Djavax.net.ssl.trustStorePassword=changeit"]
    classes = [*(pyspark / "jars").glob("ivy-*.jar"), *(pyspark / "jars").glob("commons-cli-*.jar")]
    main = ["-cp", ":".join(map(str, classes)), "org.apache.ivy.Main"]
    files: list[str | Path] = [
        "-settings",
        ivy / "settings.xml",
        "-ivy",
        ivy / "ivy.xml",
        "-cache",
        ivy / "cache",
    ]
    result = ["-retrieve", f"{into}/[artifact]-[revision].[ext]"]
    run([java_home / "bin" / "java", *trust, *main, *files, *result])
    shutil.rmtree(ivy)


def _dependency(coordinates: str) -> str:
    organisation, name, version, *beside = coordinates.split(":")
    return DEPENDENCY.format(organisation, name, version, ARTEFACT.format(name, *beside) if beside else "")


def _file(coordinates: str) -> str:
    _, name, version, *beside = coordinates.split(":")
    return f"{name}-{version}.{beside[1] if beside else 'jar'}"
