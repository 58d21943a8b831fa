"""Spark's classes as the JVM has them in memory, for tests: a Spark that finds them there costs half as much to start.

A JVM reads, checks and links the 20,000 classes that Spark and its queries need each time again, which is most of what
a test with a Spark of its own costs. An archive of them fits one build of Java and one folder of jars, and a JVM that
it doesn't fit says so and does without it: so it lies within the environment whose jars these are.

    python -m deploy.toolchain.spark_classes ARCHIVE      makes it; needs PySpark, so it runs in the environment

Source: Java 17 Virtual Machine Guide, "Class Data Sharing", dynamic archives (JEP 350).
"""

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from deploy.toolchain import jars, virtualenv
from deploy.toolchain.cache import REPOSITORY, digest, ensure, is_complete, run

# An archive is for any collector and compiler; these are those that cost the least to make it.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"

# What a batch makes of a table, in small.
_WORK = (
    """CREATE TABLE {table} (id BIGINT, value STRING) USING delta
       TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '2')""",
    """INSERT INTO {table} SELECT id, string(id) FROM range(100)""",
    """MERGE INTO {table} AS t USING (SELECT id * 2 AS id FROM range(100)) AS s ON t.id = s.id
       WHEN MATCHED AND t.id > 50 THEN DELETE
       WHEN MATCHED THEN UPDATE SET value = 'new'
       WHEN NOT MATCHED THEN INSERT (id, value) VALUES (s.id, 'more')""",
    """OPTIMIZE {table}""",
    """SELECT count(*), max(value) FROM {table} GROUP BY id % 3 ORDER BY 1""",
)


def folder(java_home: Path) -> Path:
    """Return where the archive lies for this Java, whether it is there yet or not."""
    return (
        virtualenv.folder() / f"spark-classes-{digest((java_home / 'release').read_bytes(), str(java_home))}"
    )


def find(java_home: Path) -> Path | None:
    """Return the archive if it has been made."""
    return _archive(java_home) if is_complete(folder(java_home)) else None


def setup(java_home: Path, python: Path) -> Path:
    """Return the archive, making it if need be by a Spark that does a little of everything."""

    def build() -> None:
        java = f"JAVA_HOME={java_home}"
        run(["env", java, python, "-m", "deploy.toolchain.spark_classes", _archive(java_home)], REPOSITORY)

    ensure("Spark's classes", folder(java_home), build)
    return _archive(java_home)


def make(archive: Path, scratch: Path) -> None:
    """Make the archive at the end of a JVM with Spark and Delta in it, which has worked in the folder `scratch`."""
    from actors.lake import spark_session
    from pipeline.config.settings import SparkSettings

    conf = {
        "spark.driver.extraJavaOptions": f"{_JAVA} -XX:ArchiveClassesAtExit={archive}",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    spark = spark_session.start_local(SparkSettings(jars=jars.paths(), conf=conf), scratch)
    for statement in _WORK:
        spark.session.sql(statement.format(table=f"delta.`{scratch / 'table'}`")).collect()
    os.kill(spark.pid, signal.SIGTERM)  # `stop` wouldn't wait until the archive is written
    while spark.alive:
        time.sleep(0.1)
    spark.stop()


def _archive(java_home: Path) -> Path:
    return folder(java_home) / "spark.jsa"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as there:
        make(Path(sys.argv[1]), Path(there))
