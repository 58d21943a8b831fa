"""Jars that a lock pins: what a wheel doesn't bring, fetched by the Ivy that PySpark carries inside.

Ivy's own default for a Maven-style resolver is the central repository, so no address is written here. The jars are
taken one by one, without what their POMs ask for: of Delta's, PySpark has the rest already. Ivy gets a cache of its
own, since one in the home directory that holds a POM without its jar would make it fail.

A lock has lines `<sha256>  <name>`, as sha256sum(1) writes them. It names a module's jar by
`organisation:name:version`, and another artefact with `:classifier:extension` added.

The standard library is all that this needs, since `deploy.toolchain` uses it on a bare machine.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Final
from xml.sax.saxutils import quoteattr

from pipeline.errors import Definite, Transient

# What PySpark lacks to read and write Delta.
DELTA_LOCK: Final = Path(__file__).with_name("jars.lock")

# Java won't read a store without one. It protects nothing: what is in there is public.
TRUST_PASSWORD: Final = "changeit"  # noqa: S105

_SETTINGS: Final = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"{root}/></resolvers>
</ivysettings>
"""
_MODULE: Final = """<ivy-module version="2.0" xmlns:maven="http://ant.apache.org/ivy/extra">
  <info organisation="tidemark" module="jars"/>
  <dependencies>{}</dependencies>
</ivy-module>
"""
_DEPENDENCY: Final = '<dependency org="{}" name="{}" rev="{}" transitive="false">{}</dependency>'
# An artefact beside a module's jar: its name, classifier and extension.
_ARTEFACT: Final = '<artifact name="{0}" maven:classifier="{1}" type="{2}" ext="{2}"/>'

# How many lines of Ivy's an error has.
_LAST_LINES: Final = 15


def read_lock(path: Path) -> dict[str, str]:
    """Returns the checksums that a lock has, by the names."""
    lines = (line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return {name: checksum for checksum, name in lines}


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def jar_name(coordinates: str) -> str:
    """Returns the name of the file of a jar, or of another artefact."""
    _, name, version, *beside = coordinates.split(":")
    return f"{name}-{version}.{beside[1] if beside else 'jar'}"


def installed_folder() -> Path:
    """Returns where Delta's jars are for this Python, whether they are there yet or not."""
    (delta,) = (name for name in read_lock(DELTA_LOCK) if ":delta-spark_" in name)
    return Path(sys.prefix) / "share" / "tidemark" / f"delta-{delta.rpartition(':')[2]}"


def have_delta(jars: Iterable[PurePath]) -> bool:
    """Returns whether a Delta for Spark is among these jars and folders of them."""
    pattern = "delta-spark_*.jar"
    return any(each.match(pattern) or next(Path(each).glob(pattern), None) is not None for each in jars)


def install_jars(lock: Path, into: Path, bring: Callable[[Path], None]) -> bool:
    """Has `bring` fill a folder, checks each jar by the lock, and moves them into `into`. False if all were there.

    Raises Definite if one isn't what the lock says, or if the folder can't be written. Then `into` is as before.
    """
    pinned = read_lock(lock)
    if not list(_wrong_jars(pinned, into)):
        return False
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".jars-", dir=into.parent) as draft:
            bring(Path(draft))
            if wrong := list(_wrong_jars(pinned, Path(draft))):
                raise Definite("\n  ".join(["these jars aren't what Tidemark needs:", *wrong]))
            for coordinates in pinned:
                (Path(draft) / jar_name(coordinates)).replace(into / jar_name(coordinates))
    except OSError as error:
        raise Definite(
            f"{into} can't be written ({error.strerror}); give --into FOLDER, and name that folder in spark.jars"
        ) from error
    return True


def copy_jars(lock: Path, source: Path, into: Path) -> None:
    """Copies the jars of a lock from a folder. Those that aren't there are left out."""
    for name in map(jar_name, read_lock(lock)):
        if (source / name).is_file():
            shutil.copyfile(source / name, into / name)


def retrieve_jars(
    lock: Path,
    into: Path,
    java: Path,
    pyspark: Path,
    repository: str | None = None,
    trust: Path | None = None,
) -> None:
    """Has Ivy put the jars of a lock into a folder.

    `pyspark`: the package's folder, which has Ivy. `repository`: the URL of a Maven repository, by default the central
    one. `trust`: a store of the certificate authorities to trust, by default Java's own. Raises Transient if it fails.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-ivy-") as folder:
        ivy = Path(folder)
        root = "" if repository is None else f" root={quoteattr(repository.rstrip('/') + '/')}"
        (ivy / "settings.xml").write_text(_SETTINGS.format(root=root))
        (ivy / "ivy.xml").write_text(_MODULE.format("".join(map(_dependency, read_lock(lock)))))
        jars = pyspark / "jars"
        classes = ":".join(map(str, [*jars.glob("ivy-*.jar"), *jars.glob("commons-cli-*.jar")]))
        files: list[str | Path] = [
            "-settings",
            ivy / "settings.xml",
            "-ivy",
            ivy / "ivy.xml",
            "-cache",
            ivy / "cache",
        ]
        result = ["-retrieve", f"{into}/[artifact]-[revision].[ext]"]
        command = [java, *_trusting(trust), "-cp", classes, "org.apache.ivy.Main", *files, *result]
        done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).splitlines()[-_LAST_LINES:]
        raise Transient("\n  ".join([f"Ivy couldn't fetch the jars ({done.returncode}):", *said]))


def _trusting(store: Path | None) -> list[str]:
    if store is None:
        return []
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={TRUST_PASSWORD}"]


def _wrong_jars(pinned: Mapping[str, str], folder: Path) -> Iterator[str]:
    for coordinates, checksum in pinned.items():
        jar = folder / jar_name(coordinates)
        if not jar.is_file():
            yield f"{jar.name} is missing"
        elif (found := sha256(jar)) != checksum:
            yield f"{jar.name} has SHA-256 {found}, and not {checksum}"


def _dependency(coordinates: str) -> str:
    organisation, name, version, *beside = coordinates.split(":")
    return _DEPENDENCY.format(organisation, name, version, _ARTEFACT.format(name, *beside) if beside else "")
