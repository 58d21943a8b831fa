"""Small commits to Delta: a file of the journal placed, beside plain Spark reading it and appending its rows.

Both say the same application's version in the commit, so that either is made but once. The tables are of the
benchmark's own, as the lake makes them; those beyond the first are copies of its log.
"""

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from actors.journal.store import JournalStore
from actors.lake.delta.delta_table import DeltaTable
from actors.lake.delta.table_opener import delta_tables
from actors.lake.files.file_placement import LakeFiles
from actors.lake.spark import spark_session
from actors.lake.spark.spark_session import Spark
from actors.lake.threads.tables_at_work import TablesAtWork
from actors.spark_sink import TABLES_DELIVERED_AT_ONCE
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings
from pipeline.lake.batch import Piece
from pipeline.lake.tables.columns import columns
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.statements import create_sql
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import DateTime, Decimal, Double, Enum, Integer, Text, Timestamp
from tests.integration.history import History

_INT: Final = Integer(4, unsigned=False)
_TEXT: Final = Text("utf8mb4")
_COLUMNS: Final = tuple(
    Column(name, type_, name != "id")
    for name, type_ in (
        ("id", Integer(8, unsigned=True)),
        ("customer", _INT),
        ("status", Enum(("placed", "paid"))),
        ("total", Decimal(12, 2)),
        ("quantity", Integer(2, unsigned=False)),
        ("name", _TEXT),
        ("note", _TEXT),
        ("placed", DateTime(3)),
        ("paid", Timestamp(6)),
        ("stars", Integer(1, unsigned=False)),
        ("weight", Double()),
    )
)
_SCHEMA: Final = TableSchema(TableId("bench", "eleven"), _COLUMNS, (0,))
_ROWS: Final = 50
# The first ones are the JVM's way to learn its code, and not counted.
_UNCOUNTED: Final = 8
_COUNTED: Final = 8

# Commits a segment's file to a table.
Commit = Callable[[str, Piece], object]


@dataclass(frozen=True, slots=True)
class Commits:
    """Seconds: of one commit, of one in each of three tables at once, and of one in each of many, mostly its first."""

    one: float
    three: float
    many: float


def commits(parts: Parts, many: int) -> tuple[Commits, Commits]:
    """Placed ones and plain ones, measured in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(_commits, parts, many).result()


@contextmanager
def plain_spark(parts: Parts, folder: Path) -> Iterator[Spark]:
    """Spark as the sink starts it."""
    spark = spark_session.start_local(SparkSettings(jars=parts.jars, driver_memory="2g"), folder)
    try:
        yield spark
    finally:
        spark.stop()


def _commits(parts: Parts, many: int) -> tuple[Commits, Commits]:
    with (
        TemporaryDirectory(prefix="tidemark-bench-") as folder,
        plain_spark(parts, Path(folder) / "spark") as spark,
    ):
        history = History(Path(folder) / "journal")
        with closing(history.store) as store:
            pieces = list(_segments(history, _UNCOUNTED + _COUNTED + 1))
            made = _tables(spark, Path(folder), many)
            return _measured(_placing(spark, store), pieces, made), _measured(
                _appending(spark, store), pieces, made
            )


def _segments(history: History, number: int) -> Iterator[Piece]:
    """So many segments of a few changes each."""
    table = history.table(_SCHEMA)
    for segment in range(1, number + 1):
        row = (segment, 1, "paid", None, 5, "a name", "a note", None, None, 3, 0.5)
        history.transaction(*((table, "u", (segment * _ROWS + i, *row[1:])) for i in range(_ROWS)))
        history.seal()
        (file,) = history.store.entry(segment).files
        yield Piece(segment, 0, file.path, _SCHEMA, file.rows, file.bytes, absent=False)


def _tables(spark: Spark, folder: Path, many: int) -> Callable[[], list[str]]:
    """What makes new tables of nothing, and gives their paths."""
    first = folder / "table"
    properties = {**DeltaTable.checkpoints, Property.JOURNAL: "bench"}
    spark.session.sql(create_sql(str(first), Tier.CHANGELOG, columns(_SCHEMA, Tier.CHANGELOG), properties))
    rounds = iter(range(100))

    def made() -> list[str]:
        own = folder / f"round{next(rounds)}"
        for number in range(many):
            shutil.copytree(first, own / str(number))
        return [str(own / str(number)) for number in range(many)]

    return made


def _measured(commit: Commit, pieces: Sequence[Piece], made: Callable[[], list[str]]) -> Commits:
    paths = made()
    with ThreadPoolExecutor(TABLES_DELIVERED_AT_ONCE) as threads:

        def at_once(tables: Sequence[str], piece: Piece) -> float:
            began = time.perf_counter()
            list(threads.map(lambda path: commit(path, piece), tables))
            return time.perf_counter() - began

        *counted, last = pieces
        one, three = [], []
        for piece in counted:
            one.append(at_once(paths[:1], piece))
            three.append(at_once(paths[1:4], piece))
        many = at_once(paths, last)
    return Commits(statistics.median(one[_UNCOUNTED:]), statistics.median(three[_UNCOUNTED:]), many)


def _placing(spark: Spark, store: JournalStore) -> Commit:
    files = LakeFiles(store)
    tables = delta_tables(spark.session, files.sync_earlier, TablesAtWork().without)

    def commit(path: str, piece: Piece) -> None:
        table = tables(path)
        committed = table.append(
            lambda folder, there: files.place(folder, Tier.CHANGELOG, [piece], there),
            "bench",
            range(piece.segment, piece.segment + 1),
            {},
            "{}",
        )
        assert committed is not None
        files.sync_commit(path, committed, durable=table.is_durable(committed))

    return commit


def _appending(spark: Spark, store: JournalStore) -> Commit:
    schema: Any = None

    def commit(path: str, piece: Piece) -> None:
        nonlocal schema
        schema = schema or spark.session.read.format("delta").load(path).schema
        rows = spark.session.read.schema(schema).parquet(store.file(piece.segment, piece.path))
        rows.write.format("delta").mode("append").options(
            txnAppId="bench", txnVersion=str(piece.segment)
        ).save(path)

    return commit
