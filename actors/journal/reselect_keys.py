"""The keys of rows that a start has to read again, from the journal's own changes files
(`pipeline.coordinator.reselect`).

If a file or an entry is gone or damaged, the keys in it are lost. Then all rows of their table are read again, and the
other tables continue.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

from actors.journal.store import JournalReader
from actors.runtime.redaction import safe_message
from pipeline.errors import Definite
from pipeline.journal.entry import Entry, File, FileKind
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot import reselect_keys
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()


def unread_rows_keys(
    journal: JournalReader, last: Entry | None, checkpoint: Checkpoint
) -> dict[TableId, pa.RecordBatch | None]:
    """The keys of the tables that have such rows by the checkpoint, which is the `last` segment's or follows from it.

    None of a table whose key's types have no room for one of them, or of which some are lost.
    """
    marks = {table: scn for table, scn in checkpoint.unread.items() if table in checkpoint.schemas}
    found: dict[TableId, list[pa.RecordBatch | None]] = {table: [] for table in marks}
    entry = last
    while marks and entry is not None and entry.last_scn > min(marks.values()):
        for file in entry.files:
            if (
                file.kind is FileKind.CHANGES
                and file.absent
                and entry.last_scn > marks.get(file.table, entry.last_scn)
            ):
                found[file.table].insert(0, _keys(journal, entry, file, checkpoint, marks))
        # What lies before the marks may have been removed by retention.
        before = entry.first_scn - 1
        try:
            entry = journal.entry(entry.segment - 1) if before > min(marks.values()) else None
        except Definite as damaged:
            for table in (table for table, mark in marks.items() if before > mark):
                _warn_of_lost(table, damaged)
                found[table].append(None)
            break
    return {table: _joined(checkpoint.schemas[table], batches) for table, batches in found.items()}


def _warn_of_lost(table: TableId, error: Exception) -> None:
    log.warning(
        "keys of rows to read again are lost: the table is read again",
        table=str(table),
        reason=safe_message(error),
    )


def _joined(schema: TableSchema, batches: list[pa.RecordBatch | None]) -> pa.RecordBatch | None:
    there = [batch for batch in batches if batch is not None]
    if len(there) < len(batches):
        return None
    return pa.concat_batches(there) if there else reselect_keys.no_keys(schema)


def _keys(
    journal: JournalReader, entry: Entry, file: File, checkpoint: Checkpoint, marks: Mapping[TableId, int]
) -> pa.RecordBatch | None:
    version, path = entry.schemas[file.version], journal.file(entry.segment, file.path)
    try:
        with journal.files.filesystem.open_input_file(path) as opened, pq.ParquetFile(opened) as parquet:
            rows = parquet.read(columns=[*reselect_keys.NEEDED, *version.key_names])
    except (pa.ArrowException, OSError) as error:
        if journal.is_whole(entry.segment, file):
            raise
        _warn_of_lost(file.table, error)
        return None
    return reselect_keys.keys_after(checkpoint.schemas[file.table], rows, marks[file.table])
