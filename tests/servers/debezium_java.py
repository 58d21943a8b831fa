"""The programs in `debezium/`, which Java runs with Debezium's classes. They are compiled once, into the cache.

There the first program that ends by itself leaves an archive of the classes that it had loaded. A later one finds them
in it, and needs half the processor time (`actors.lake.spark.java` says why).
"""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from deploy.toolchain import debezium
from deploy.toolchain.cache import digest, ensure, is_complete, locked, root, run
from deploy.toolchain.parts import Parts

_SOURCES: Final = tuple(sorted(Path(__file__).with_name("debezium").glob("*.java")))

# A program runs for seconds, in which Java's second compiler gains nothing.
_FRUGAL: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_LONGEST_S: Final = 120
_PROGRAMS: Final = "programs.jar"
_CLASSES: Final = "classes.jsa"


def java(parts: Parts, program: str, *options: str) -> list[str]:
    """The command that runs a program, by its class; its arguments follow."""
    jars = debezium.setup(parts.python)
    programs = _compiled(parts.java_home, jars)
    classes = programs / _CLASSES
    options = (f"-XX:SharedArchiveFile={classes}", *options) if classes.exists() else options
    path = f"{programs / _PROGRAMS}:{jars}/*"
    return [str(parts.java_home / "bin" / "java"), *_FRUGAL, *options, "-cp", path, program]


def run_java(parts: Parts, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end."""
    classes = _compiled(parts.java_home, debezium.setup(parts.python)) / _CLASSES
    left = classes.with_suffix(f".{os.getpid()}")
    options = () if classes.exists() else (f"-XX:ArchiveClassesAtExit={left}", "-Xlog:cds*=off")
    ended = subprocess.run(
        [*java(parts, program, *options), *arguments],
        capture_output=True,
        text=True,
        timeout=_LONGEST_S,
        check=False,
    )
    if left.exists():
        left.rename(classes)
    return ended


def _compiled(java_home: Path, jars: Path) -> Path:
    """The folder of the programs. A Java runtime as Debian packages it has the compiler's module."""
    release = (java_home / "release").read_bytes()
    folder = (
        root()
        / f"debezium-programs-{digest(_PROGRAMS, str(jars), release, *(s.read_bytes() for s in _SOURCES))}"
    )

    def build() -> None:
        with TemporaryDirectory() as classes:
            command: list[str | Path] = [java_home / "bin" / "java", *_FRUGAL]
            command += ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", classes]
            run([*command, "-cp", ":".join(map(str, jars.glob("*.jar"))), *_SOURCES])
            # An archive is for jars alone.
            shutil.make_archive(str(folder / _PROGRAMS), "zip", classes)
        (folder / f"{_PROGRAMS}.zip").rename(folder / _PROGRAMS)

    if not is_complete(folder):
        with locked():
            ensure("Debezium's programs", folder, build)
    return folder
