"""What Spark needs to reach S3, in a folder of its own. The product makes the same (`tidemark setup --s3`)."""

from pathlib import Path

from actors.service.installation.s3_jars import S3_LOCK, S3_SOURCE, compile_log_store
from deploy.toolchain import jars
from deploy.toolchain.cache import ToolchainError, digest, ensure, is_complete, root
from pipeline.errors import TidemarkError

LOCK = S3_LOCK


def folder() -> Path:
    """Return where the jars lie, whether they are there yet or not."""
    return root() / f"s3-{digest(LOCK.read_bytes(), S3_SOURCE.read_bytes(), jars.LOCK.read_bytes())}"


def find() -> Path | None:
    """Return the folder of the jars if they have been made."""
    return folder() if is_complete(folder()) else None


def setup(java_home: Path, python: Path, pyspark: Path, trusted: Path) -> Path:
    """Return the folder of the jars, making it if need be; the arguments are as for Delta's jars (`jars.setup`)."""
    ensure(
        "S3's jars",
        folder(),
        lambda: fetch(folder(), jars.folder(), java_home, python, pyspark, trusted),
    )
    return folder()


def fetch(into: Path, delta: Path, java_home: Path, python: Path, pyspark: Path, trusted: Path) -> None:
    """Fetch the jars into a folder, and make the store for logs there; `delta`: the folder of Delta's jars."""
    jars.fetch(LOCK, into, java_home, python, pyspark, trusted)
    try:
        compile_log_store(into, delta, java_home / "bin" / "java", pyspark)
    except TidemarkError as error:
        raise ToolchainError(str(error)) from error
