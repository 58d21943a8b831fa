"""The judge: is the lake equal to the source, and is each change in it once and in its order?

What MySQL holds is taken by a way that shares nothing with Tidemark: the server itself writes each table to a file
(SELECT … INTO OUTFILE, text as hexadecimal digits), and Spark reads it. What the writer committed is in its tally.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StringType, StructType

from deploy.toolchain.mysql_server import MysqlServer

# How many differences are shown.
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was compared: what, how much of it, and the differences found (none if it's right)."""

    what: str
    compared: int
    differences: tuple[str, ...]

    def __str__(self) -> str:
        verdict = "equal" if not self.differences else f"{len(self.differences)} or more DIFFERENCES"
        return f"{self.what}: {self.compared:,} compared, {verdict}"


def export(server: MysqlServer, database: str, table: str, folder: Path) -> Path:
    """Let the server write the table to a file, one line a row; returns the file."""
    columns = server.sql(
        f"SELECT COLUMN_NAME, DATA_TYPE FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{database}' AND TABLE_NAME = '{table}' ORDER BY ORDINAL_POSITION"
    )
    path = folder / f"{database}.{table}.tsv"
    path.unlink(missing_ok=True)
    chosen = ", ".join(_exported(str(name), str(kind)) for name, kind in columns)
    server.sql(
        "SET SESSION time_zone = '+00:00'",
        f"SELECT {chosen} INTO OUTFILE '{path}' CHARACTER SET utf8mb4 FROM `{database}`.`{table}`",
    )
    return path


def same_rows(spark: SparkSession, what: str, exported: Path, lake: DataFrame) -> Finding:
    """Every row of the exported table against every row of the lake's, as bags."""
    read = StructType(lake.schema.fields)
    for field in read.fields:
        if isinstance(field.dataType, StringType | BinaryType):
            field.dataType = StringType()
    source = spark.read.csv(str(exported), schema=read, sep="\t", nullValue="\\N", quote="")
    ours = lake.select(*(_comparable(lake, name) for name in lake.columns))
    both = source.withColumn("__n", f.lit(1)).unionAll(ours.withColumn("__n", f.lit(-1)))
    rows = both.groupBy(*lake.columns).agg(
        f.sum("__n").alias("__n"), f.count_if(f.col("__n") > 0).alias("__source")
    )
    compared = rows.agg(
        f.sum("__source").alias("source"), f.count_if(f.col("__n") != 0).alias("unequal")
    ).first()
    assert compared is not None
    unequal = rows.where("__n != 0").limit(SHOWN).collect() if compared["unequal"] else []
    differences = tuple(f"{_only_in(row['__n'])}: {row}" for row in unequal)
    return Finding(f"rows of {what}", compared["source"] or 0, differences)


def _only_in(n: int) -> str:
    return "only in MySQL" if n > 0 else "only in the lake"


def history(what: str, changelog: DataFrame, key: Sequence[str], tally: DataFrame) -> Finding:
    """The changelog against the tally: no change twice, none missing, none invented, no key back in time.

    `tally` has the columns op, key, version and op_no, of this table alone.
    """
    text = f.concat_ws("|", *(f.col(name).cast("string") for name in key))
    ours = changelog.select(
        "__scn", "__ordinal", f.col("__op").alias("op"), text.alias("key"), "version", "op_no"
    )
    ours = ours.withColumn("version", f.col("version").cast("long")).withColumn(
        "op_no", f.col("op_no").cast("long")
    )
    ours.cache()
    differences = _unequal(ours, tally) + _backwards(ours)
    compared = ours.count()
    ours.unpersist()
    return Finding(f"changes of {what}", compared, tuple(differences))


def _unequal(ours: DataFrame, tally: DataFrame) -> list[str]:
    names = ["op", "key", "version", "op_no"]
    counted = (
        tally.select(*names)
        .withColumn("n", f.lit(1))
        .unionAll(ours.select(*names).withColumn("n", f.lit(-1)))
    )
    unequal = counted.groupBy(*names).agg(f.sum("n").alias("n")).where("n != 0").limit(SHOWN).collect()
    return [f"{'missing from' if row['n'] > 0 else 'too much in'} the changelog: {row}" for row in unequal]


def _backwards(ours: DataFrame) -> list[str]:
    """Keys whose version doesn't rise, or that are written or deleted when they can't be.

    A key's versions rise by one with each write; a delete carries the version that it ends. So a change is legal
    behind another one of its key if it's a write with the next version, or the delete of a written one. Only a
    spelling that MySQL counts as the same key may be left and come back, which the versions show as well.
    """
    order = Window.partitionBy("key").orderBy("__scn", "__ordinal")
    before_op, before = f.lag("op").over(order), f.lag("version").over(order)
    legal = (
        f.when(before.isNull(), True)
        .when(f.col("op") == "d", (before_op != "d") & (f.col("version") == before))
        .when(f.col("op") == "c", (before_op == "d") & (f.col("version") == before + 1))
        .otherwise(f.col("version") == before + 1)
    )
    wrong = (
        ours.withColumn("before", before).withColumn("legal", legal).where("not legal").limit(SHOWN).collect()
    )
    return [f"a key goes back in time: {row}" for row in wrong]


def _exported(name: str, kind: str) -> str:
    quoted = f"`{name}`"
    textual = kind in {"char", "varchar", "text", "mediumtext", "longtext", "json", "enum", "set"}
    # The letter before the digits tells empty text from NULL, which CSV doesn't.
    return f"CONCAT('x', HEX(CONVERT({quoted} USING utf8mb4)))" if textual else quoted


def _comparable(lake: DataFrame, name: str) -> Column:
    column = f.col(f"`{name}`")
    textual = isinstance(lake.schema[name].dataType, StringType | BinaryType)
    return f.concat(f.lit("x"), f.hex(column)).alias(name) if textual else column
