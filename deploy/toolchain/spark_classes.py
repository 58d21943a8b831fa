"""The archive of Spark's classes, in the environment: `tidemark setup` makes the same (`actors.lake.spark.java`)."""

from pathlib import Path

from actors.lake.spark.java import class_archive
from deploy.toolchain import jars, virtualenv
from deploy.toolchain.cache import REPOSITORY, megabytes, run, say


def setup(java_home: Path, python: Path) -> None:
    """Make the archive if it isn't there."""
    archive = class_archive(str(java_home / "bin" / "java"), virtualenv.folder())
    if not archive.exists():
        maker = "actors.service.installation.spark_classes"
        run(["env", f"JAVA_HOME={java_home}", python, "-m", maker, *jars.paths()], REPOSITORY)
        say(f"Spark's classes: ready, {megabytes(archive)}")
