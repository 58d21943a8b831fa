"""The programs in `debezium/`, which Java runs with Debezium's classes. They are compiled once, into the cache."""

from pathlib import Path
from typing import Final

from deploy.toolchain import debezium
from deploy.toolchain.cache import digest, ensure, locked, root, run
from deploy.toolchain.parts import Parts

_SOURCES: Final = tuple(sorted(Path(__file__).with_name("debezium").glob("*.java")))

# A program runs for seconds, in which Java's second compiler gains nothing.
_FRUGAL: Final = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def java(parts: Parts, program: str) -> list[str]:
    """The command that runs a program, by its class; its arguments follow."""
    jars = debezium.setup(parts.python)
    classes = _compiled(parts.java_home, jars)
    return [str(parts.java_home / "bin" / "java"), *_FRUGAL, "-cp", f"{classes}:{jars}/*", program]


def _compiled(java_home: Path, jars: Path) -> Path:
    """The folder of the programs' classes. A Java runtime as Debian packages it has the compiler's module."""
    release = (java_home / "release").read_bytes()
    folder = root() / f"debezium-programs-{digest(str(jars), release, *(s.read_bytes() for s in _SOURCES))}"

    def build() -> None:
        command: list[str | Path] = [java_home / "bin" / "java", *_FRUGAL]
        command += ["-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", folder]
        run([*command, "-cp", ":".join(map(str, jars.glob("*.jar"))), *_SOURCES])

    with locked():
        ensure("Debezium's programs", folder, build)
    return folder
