"""Make the archive of Spark's classes (`actors.lake.spark.java`), by `tidemark setup` or as this module with JARs.

A JAR is one that PySpark lacks, or a folder of them. A Spark does a little of everything with them, and its JVM
leaves the archive when it ends.
"""

import os
import select
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from actors.lake.spark import spark_session
from actors.lake.spark.java import class_archive, java_program
from actors.runtime.filesystem import sync
from pipeline.config.settings import SparkSettings
from pipeline.errors import Definite, Transient

# An archive is for any collector and compiler. These are the ones that cost the least to make it.
_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:cds=off -Xlog:cds+dynamic=off"

# Java's own archive, which a JVM has by default, and on which this one builds.
_BASE: Final = Path("lib/server/classes.jsa")

# How many lines of Java's an error has.
_LAST_LINES: Final = 15

# What a batch makes of a table, in small.
_STATEMENTS: Final = (
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


def archive_spark_classes(jars: Sequence[Path]) -> Path:
    """Makes the archive of this Java and this Python, in place of one that is there. Returns where it lies.

    `jars`: as in the setting `spark.jars`. Raises Definite if it can't be made.
    """
    program = java_program()
    if program is None:
        raise Definite("there's no Java")
    archive = class_archive(program, Path(sys.prefix))
    base = Path(program).resolve().parents[1] / _BASE
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".spark-", dir=archive.parent) as draft:
            made = Path(draft) / archive.name
            _leave_archive(made, base, jars, Path(draft))
            sync(made)  # a JVM that maps an archive with pages missing ends with SIGBUS
            for other in archive.parent.glob("spark-*.jsa"):  # of a Java that has been replaced
                other.unlink()
            made.replace(archive)
    except OSError as error:
        raise Definite(f"{archive} can't be written ({error.strerror})") from error
    return archive


def _leave_archive(archive: Path, base: Path, jars: Sequence[Path], scratch: Path) -> None:
    """Has a JVM write the archive as it ends, after Spark has worked in the folder `scratch`."""
    conf = {
        "spark.driver.extraJavaOptions": (
            f'{_JAVA} "-XX:SharedArchiveFile={base}" "-XX:ArchiveClassesAtExit={archive}"'
        ),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    try:
        _work(SparkSettings(jars=tuple(jars), conf=conf), scratch)
    except (Transient, Py4JError, PySparkException) as error:
        told = (scratch / "output.log").read_text(errors="replace").splitlines()[-_LAST_LINES:]
        raise Definite("\n  ".join([f"Spark failed with these jars: {error}", *told])) from error
    if not archive.exists():
        raise Definite("Java left no archive of Spark's classes, and didn't say why")


def _work(settings: SparkSettings, scratch: Path) -> None:
    """Has a Spark do a little of everything, and its JVM end by itself."""
    spark = spark_session.start_local(settings, scratch)
    try:
        for statement in _STATEMENTS:
            spark.session.sql(statement.format(table=f"delta.`{scratch / 'table'}`")).collect()
        os.kill(spark.pid, signal.SIGTERM)  # `stop` wouldn't wait until the archive is written
        _wait_for_end(spark.pid)
    finally:
        spark.stop()


def _wait_for_end(pid: int) -> None:
    process = os.pidfd_open(pid)
    try:
        select.select([process], [], [])
    finally:
        os.close(process)


if __name__ == "__main__":
    archive_spark_classes([Path(each) for each in sys.argv[1:]])
