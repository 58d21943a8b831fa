"""Fills /opt/tidemark inside the image that's being built: `packages`, then `jars`, `program` and `sbom`.

Four steps, so that what changes seldom stays in the builder's cache. The standard library is all that's there, as in
`deploy.toolchain`, of which the jars come.

What's made is the same each time, but for the archive of Spark's classes, which is memory as a JVM had it. Bytecode is
checked by its source's hash and not by its time, and pip leaves neither itself nor its records of where a package came
from.
"""

import compileall
import py_compile
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Final

from actors.service.installation.pinned_jars import installed_folder, read_lock
from deploy.image.runtime_lock import runtime_part
from deploy.image.sbom import bill
from deploy.toolchain import authorities, jars, s3
from deploy.toolchain.cache import REPOSITORY, run

PROGRAM: Final = Path("/opt/tidemark")
PYTHON: Final = PROGRAM / "venv" / "bin" / "python"
PACKAGES: Final = PROGRAM / "venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"

# What builds PySpark, and what isn't needed to run: tests, examples, headers, the store of streaming queries' states.
BUILDERS: Final = ("pip", "setuptools", "wheel")
UNUSED: Final = (
    "numba/tests",
    "pandas/tests",
    "pyarrow/include",
    "pyarrow/tests",
    "pyspark/data",
    "pyspark/examples",
    "pyspark/jars/rocksdbjni-*.jar",
)

# Command lines: the program's, and what the health check asks.
COMMANDS: Final = {
    "tidemark": "from actors.service.cli import main\n\nmain()\n",
    "tidemark-alive": """import http.client
import os
import ssl

port = int(os.environ["TIDEMARK__HTTP__PORT"])
failed = []
for host in ("127.0.0.1", "::1"):
    for connection in (
        http.client.HTTPConnection(host, port, timeout=2),
        http.client.HTTPSConnection(host, port, timeout=2, context=ssl._create_unverified_context()),
    ):
        try:
            connection.request("GET", "/livez")
            raise SystemExit(connection.getresponse().status != 200)
        except (OSError, http.client.HTTPException) as error:
            failed.append(str(error))
raise SystemExit(f"nothing answers at the port {port} of 127.0.0.1 and ::1 ({', '.join(dict.fromkeys(failed))})")
""",
}


def packages() -> None:
    """Make the virtual environment of what the program runs on."""
    run([sys.executable, "-m", "venv", "--copies", PROGRAM / "venv"])
    lock = Path("/tmp/runtime.lock")  # noqa: S108 - of the image that's built
    lock.write_text(runtime_part((REPOSITORY / "deploy" / "requirements.lock").read_text()))
    quiet = ["--no-input", "--no-cache-dir", "--disable-pip-version-check", "--no-compile"]
    pip: list[str | Path] = [PYTHON, "-m", "pip", "--cert", authorities.setup()]
    for wanted in (REPOSITORY / "deploy" / "build.lock", lock):
        run([*pip, "install", *quiet, "--require-hashes", "--no-build-isolation", "-r", wanted])
    run([*pip, "uninstall", "--yes", *BUILDERS])
    for found in (found for pattern in UNUSED for found in PACKAGES.glob(pattern)):
        shutil.rmtree(found) if found.is_dir() else found.unlink()
    for record in PACKAGES.glob("*.dist-info/direct_url.json"):
        record.unlink()
    _compile(PACKAGES)


def fetch_jars() -> None:
    """Fetch Delta's jars and those for S3, checked by their hashes."""
    into, pyspark, trusted = PROGRAM / "jars", PACKAGES / "pyspark", authorities.setup()
    into.mkdir()
    java_home = Path(shutil.which("java") or "").resolve().parents[1]
    jars.fetch(jars.LOCK, into, java_home, PYTHON, pyspark, trusted)
    s3.fetch(into, into, java_home, PYTHON, pyspark, trusted)
    link_jars()


def link_jars() -> None:
    """Let the program find them where `tidemark setup` would have put them, beside those that a configuration names."""
    installed = PROGRAM / "venv" / "share" / "tidemark" / installed_folder().name
    installed.parent.mkdir(parents=True)
    installed.symlink_to(PROGRAM / "jars")


def program() -> None:
    """Put the program itself there, compile its decoder, and archive Spark's classes."""
    for package in ("actors", "pipeline", "tidemark"):
        shutil.copytree(REPOSITORY / package, PROGRAM / package, ignore=shutil.ignore_patterns("__pycache__"))
        _compile(PROGRAM / package)
    for name, text in COMMANDS.items():
        command = PROGRAM / "venv" / "bin" / name
        command.write_text(f"#!{PYTHON}\n{text}")
        command.chmod(0o755)
    run([PYTHON, "-m", "actors.service.warm_up"], cwd=PROGRAM)
    run([PYTHON, "-m", "actors.service.installation.spark_classes", PROGRAM / "jars"], cwd=PROGRAM)


def sbom() -> None:
    """Write what the image is made of. Debian's packages are those of the stage that becomes the image."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    found = [*PACKAGES.glob("pyspark/jars/*.jar"), *(PROGRAM / "jars").glob("*.jar")]
    program = {"name": project["name"], "version": project["version"]}
    status = (REPOSITORY / "dpkg-status").read_text(encoding="utf-8")
    (PROGRAM / "sbom.cdx.json").write_text(
        bill(program, PACKAGES, sorted(found), read_lock(jars.LOCK) | read_lock(s3.LOCK), status)
    )


def _compile(folder: Path) -> None:
    hashed = py_compile.PycInvalidationMode.UNCHECKED_HASH
    # What has been imported while PySpark was built is there already, with its time.
    compileall.compile_dir(folder, quiet=2, force=True, invalidation_mode=hashed)


if __name__ == "__main__":
    {"packages": packages, "jars": fetch_jars, "program": program, "sbom": sbom}[sys.argv[1]]()
