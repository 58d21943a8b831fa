"""Makes a journal and a lake as a service has them that has run for long, in a short time and while it is stopped."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

from actors.journal.store import JournalReader, JournalStore
from actors.lake.delta.table_opener import delta_tables
from actors.lake.files.file_placement import LakeFiles
from actors.lake.maintenance import Upkeep
from actors.lake.threads.table_locks import TableLocks
from actors.lake.transaction_log.delta_log import NO_REPORT
from bench._commits import plain_spark
from deploy.toolchain.parts import Parts
from pipeline.config.settings import LakeSettings
from pipeline.journal.entry import FileKind
from pipeline.lake.batch import Piece
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.tables.maintenance import CHECKPOINT_AFTER
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId


def lengthen_journal(journal: str, segments: int) -> None:
    """Seals so many more segments, in which nothing has changed."""
    pipeline = JournalReader(journal).identity.pipeline
    # Nothing of it has to outlast anything.
    with patch("os.fsync"), closing(JournalStore.open_single_writer(journal, pipeline)) as store:
        last = store.recover()
        assert last is not None
        empty = replace(
            last,
            files=(),
            first_scn=last.last_scn + 1,
            transactions=0,
            commit_times=None,
            chunks=(),
            alterations=(),
            statements=(),
            resumed=(),
            position_stays=True,
        )
        for segment in range(last.segment + 1, last.segment + 1 + segments):
            store.publish(replace(empty, segment=segment))


def feed_lake(parts: Parts, folder: str, table: TableId, commits: int) -> None:
    """Appends a file of the table's changes so many times to its changelog, compacted and with checkpoints as the
    service does it. The mirror has merged these changes, so that no reader counts them.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        process.submit(_feed, parts, folder, table, commits).result()


def _feed(parts: Parts, folder: str, table: TableId, commits: int) -> None:
    os.environ["JAVA_HOME"] = str(parts.java_home)
    journal, lake = JournalReader(f"{folder}/journal"), f"{folder}/lake"
    piece, changelog = _first_changes(journal, table), location(lake, table, Tier.CHANGELOG)
    compact_after = LakeSettings(lake).compact_files
    with plain_spark(parts, Path(folder, "plain")) as spark:
        tables, files = delta_tables(spark.session), LakeFiles(journal)
        upkeep = Upkeep(spark.session, lake, tables, TableLocks(), TableLocks())
        for number in range(1, commits + 1):
            place = partial(_place, files, [replace(piece, place=number)])
            tables(changelog).append(place, "feeding", range(number, number + 1), {}, NO_REPORT)
            if number % compact_after == 0:
                upkeep.compact(table, Tier.CHANGELOG)
            if number % CHECKPOINT_AFTER == 0:
                upkeep.checkpoint(table, Tier.CHANGELOG)


def _place(
    files: LakeFiles, pieces: Sequence[Piece], folder: str, columns: Mapping[str, Stored]
) -> Sequence[str]:
    return files.place(folder, Tier.CHANGELOG, pieces, columns)


def _first_changes(journal: JournalReader, table: TableId) -> Piece:
    for entry in journal.entries(0, journal.last_segment()):
        for file in entry.files:
            if file.table == table and file.kind is FileKind.CHANGES:
                schema = entry.schemas[file.version]
                return Piece(entry.segment, 0, file.path, schema, file.rows, file.bytes, absent=file.absent)
    raise AssertionError(f"the journal has no change of {table}")
