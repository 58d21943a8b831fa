"""Another PySpark with another Delta than the pinned ones, and the suite of commits held against them.

    python -m deploy.toolchain.spark_pair PYSPARK DELTA [PYTEST-ARGUMENT …]      as `make conformance` does

Tidemark supports the pinned pair alone, and refuses any other. The suite shows what an upgrade of the pin would meet.
Nothing pins what is fetched here: pip and Ivy check it by the checksums that their registries give.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors.service.installation.pinned_jars import TRUST_PASSWORD
from deploy.toolchain import authorities, java, virtualenv
from deploy.toolchain.cache import REPOSITORY, ToolchainError, digest, ensure, locked, root, run

SUITE: Final = "tests/integration/lake/test_commit_conformance.py"

# Tells the tests of a pair: its folder of jars, and the version of Delta.
_JARS: Final = "TIDEMARK_PAIR_JARS"
_DELTA: Final = "TIDEMARK_PAIR_DELTA"


@dataclass(frozen=True, slots=True)
class SparkPair:
    """A PySpark and a Delta: where the package `pyspark` and the jars that it lacks lie."""

    packages: Path
    jars: Path
    delta: str

    @property
    def environment(self) -> dict[str, str]:
        """What a Python needs to take this pair."""
        return {"PYTHONPATH": str(self.packages), _JARS: str(self.jars), _DELTA: self.delta}


def given_pair() -> tuple[Path, str] | None:
    """Return the folder of jars and the version of Delta that this Python was started with; None without a pair."""
    folder, delta = os.environ.get(_JARS), os.environ.get(_DELTA)
    return None if folder is None or delta is None else (Path(folder), delta)


def delta_module(pyspark: str) -> str:
    """Return the name of Delta's module for this version of PySpark."""
    first, second, *_ = pyspark.split(".")
    return f"delta-spark_{first}.{second}_2.13"


def setup(pyspark: str, delta: str) -> SparkPair:
    """Return the pair, fetching it if need be. Raises `ToolchainError` if there's none of these versions."""
    with locked():
        trusted = authorities.setup()
        python, java_home = virtualenv.setup(trusted), java.setup()
        folder = root() / f"pair-{digest(pyspark, delta)}"
        pair = SparkPair(folder / "packages", folder / "jars", delta)

        def build() -> None:
            quiet: list[str | Path] = [
                "--no-input",
                "--disable-pip-version-check",
                "--quiet",
                "--cert",
                trusted,
            ]
            wanted: list[str | Path] = [
                "--no-build-isolation",
                "--target",
                pair.packages,
                f"pyspark=={pyspark}",
            ]
            run([python, "-m", "pip", "install", *quiet, *wanted])
            _fetch_jars(("io.delta", delta_module(pyspark), delta), pair.jars, java_home, python, trusted)

        ensure(f"PySpark {pyspark} with Delta {delta}", folder, build)
    return pair


def _fetch_jars(
    module: tuple[str, str, str], into: Path, java_home: Path, python: Path, trusted: Path
) -> None:
    """Fetch a module with what it needs into a folder; by its POM, Spark brings the rest."""
    store, jars = into.with_name("trust"), virtualenv.pyspark() / "jars"
    run([python, "-m", "actors.service.installation.java_truststore", trusted, store], cwd=REPOSITORY)
    classes = ":".join(map(str, [*jars.glob("ivy-*.jar"), *jars.glob("commons-cli-*.jar")]))
    trusting = [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={TRUST_PASSWORD}"]
    ivy: list[str | Path] = [java_home / "bin" / "java", *trusting, "-cp", classes, "org.apache.ivy.Main"]
    wanted: list[str | Path] = ["-cache", into.with_name("ivy"), "-dependency", *module, "-confs", "default"]
    run([*ivy, *wanted, "-types", "jar", "-retrieve", f"{into}/[artifact]-[revision].[ext]"])


def main() -> int:
    """Hold the suite against a pair; pytest's exit code, or 1 if the pair can't be had."""
    if len(sys.argv) < 3:
        print("say which: make conformance PYSPARK=4.1.1 DELTA=4.3.0", file=sys.stderr)
        return 2
    try:
        pair = setup(*sys.argv[1:3])
    except ToolchainError as error:
        print(f"toolchain: {error}", file=sys.stderr)
        return 1
    # What another PySpark warns of, such as sockets that it leaves open, is no failure of the suite.
    command = [sys.executable, "-m", "pytest", "-W", "default", SUITE, *sys.argv[3:]]
    return subprocess.run(command, env={**os.environ, **pair.environment}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
