"""The order of a segment's files, and a journal on a full filesystem.

On that one nothing is lost, whichever process dies, and the journal continues when there's room. The filesystem is a
real one, of a few MiB, in a namespace of its own where an ordinary user may mount it.
"""

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from actors.journal.store import JournalStore
from actors.journal.writer_thread import WriterThread
from pipeline.config.column_protection import UNPROTECTED
from pipeline.config.settings import JournalSettings
from pipeline.journal import segment as segments
from pipeline.journal.state import FlushEarly, Seal
from pipeline.journal.step import FlushedEarly, Published
from pipeline.lake.batch import LakeTableState, next_batch
from pipeline.lake.delivery import accept_batch
from pipeline.lake.tables.columns import columns
from pipeline.lake.tables.tier import Tier
from pipeline.messages.journal import Append
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.snapshot.checkpoint import Ready
from pipeline.types.column_types import Integer
from tests.actors.segments import ITEMS, ROWS, moved, part

_ROOT = Path(__file__).parents[3]

# With a column that a statement has added.
NEWER = replace(ITEMS, columns=(*ITEMS.columns, Column("added", Integer(8, unsigned=False), nullable=True)))


def append(number: int, rows: int, schema: TableSchema) -> Append:
    """The n-th append, of so many changes of a table that has this schema then, and a mirror."""
    at = moved(number).checkpoint
    checkpoint = replace(at, schemas={ITEMS.table: schema}, mirrors={ITEMS.table: Ready(0)})
    return Append((part(number, 0, rows, schema),), checkpoint)


def test_files_are_in_the_order_of_the_stream_whichever_are_written_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version with few changes comes before one with many. So the lake takes the columns that have come."""
    few, many = append(1, 1, ITEMS), append(2, ROWS, NEWER)
    waiting = segments.add_append(segments.add_append(None, few, None, 0.0), many, None, 0.0)
    monkeypatch.setattr(segments, "AHEAD", max(waiting.unwritten.values()))
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as store:
        thread = WriterThread(store, JournalSettings("journal"), (), UNPROTECTED)
        left, early = segments.split_early_parts(waiting)
        flushed = thread.do(FlushEarly(1, early, 0, many.checkpoint.scn))
        assert isinstance(flushed, FlushedEarly)
        assert [each.file.version for each in flushed.files] == [NEWER.version]
        published = thread.do(Seal(1, left, flushed.files, None))
    assert isinstance(published, Published)
    assert [file.version for file in published.entry.files] == [ITEMS.version, NEWER.version]
    present = LakeTableState(ITEMS, columns=columns(ITEMS, Tier.CHANGELOG), generation=0)
    todo = accept_batch(present, ITEMS.table, next_batch([published.entry]))
    assert (todo.schema, todo.reason) == (NEWER, "")


_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")


def test_a_full_filesystem_is_waited_for_and_survives_a_kill(tmp_path: Path) -> None:
    mounting = ("mount", "-t", "tmpfs", "tmpfs", str(tmp_path))
    if subprocess.run([*_NAMESPACE, *mounting], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets no user mount a filesystem of his own")
    ended = subprocess.run(
        [*_NAMESPACE, sys.executable, "-m", "tests.actors.full_disk", tmp_path],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
