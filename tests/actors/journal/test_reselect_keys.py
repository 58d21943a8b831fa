"""The keys of rows that are to be read again, found in a journal."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from actors.journal.reselect_keys import unread_rows_keys
from actors.journal.store import JournalReader, JournalStore
from pipeline.config.column_protection import UNPROTECTED
from pipeline.journal import segment as journal
from pipeline.journal.entry import Entry
from pipeline.messages.journal import Append, ChangePart
from pipeline.messages.row_images import TableChanges
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.types.column_types import Decimal, Integer
from tests.actors.crashing_journal import ALL_OLD, LATER
from tests.actors.segments import COMMIT_TIME, ITEMS, part, position
from tests.pipeline.builders import lacks

KIND = Integer(8, unsigned=False)
LOST = "keys of rows to read again are lost: the table is read again"
WIDE = TableSchema(ITEMS.table, (*ITEMS.columns, Column("more", KIND, nullable=True)), key=(0,))


def lacking(number: int, *partial: int) -> ChangePart:
    """The numbers of the n-th append as inserts, some of which lack a column."""
    whole = part(number, 0, 10)
    ids = whole.changes.rows.column(0)
    field = whole.changes.images.schema.field(3)
    bitmaps = [lacks(WIDE, ["more"]) if each in partial else None for each in ids.to_pylist()]
    images = whole.changes.images.set_column(3, field, pa.array(bitmaps, field.type))
    rows = pa.RecordBatch.from_arrays([ids, ids], schema=WIDE.arrow)
    return replace(whole, changes=TableChanges.unshared(WIDE, images, rows))


def sealed(store: JournalStore, number: int, *partial: int, mark: int) -> Entry:
    changes = lacking(number, *partial)
    scn = changes.first_scn
    checkpoint = Checkpoint(position(number), scn, {WIDE.table: WIDE}, unread={WIDE.table: mark})
    files = store.write(number, journal.segment_tables(number, [changes], (), UNPROTECTED))
    before = Checkpoint(position(number - 1), scn - 1)
    entry = journal.seal(number, [Append((changes,), checkpoint)], files, before, COMMIT_TIME, UNPROTECTED)
    store.publish(entry)
    return entry


def keys_of(store: JournalStore, last: Entry, checkpoint: Checkpoint) -> list[int] | None:
    keys = unread_rows_keys(store, last, checkpoint)[WIDE.table]
    return None if keys is None else keys.column(0).to_pylist()


def test_the_keys_behind_the_mark_are_found_in_the_stream_s_order(tmp_path: Path) -> None:
    store = JournalStore.open_single_writer(tmp_path, "shop")
    entries = [sealed(store, number, 10 * number, 10 * number + 3, mark=11) for number in (1, 2, 3)]
    found = keys_of(store, entries[-1], entries[-1].checkpoint)
    assert found == [20, 23, 30, 33], "those of the first segment aren't behind it"
    store.close()


def test_what_retention_may_have_removed_is_not_looked_for(tmp_path: Path) -> None:
    store = JournalStore.open_single_writer(tmp_path, "shop")
    _, last = (sealed(store, number, 10 * number, mark=10 * number) for number in (1, 2))
    store.consumers.record_progress("lake", last.segment)
    assert store.retain(ALL_OLD, LATER).segments == 1
    assert keys_of(store, last, last.checkpoint) == [20]
    store.close()


def test_nothing_is_looked_for_where_nothing_is_unread(tmp_path: Path) -> None:
    store = JournalStore.open_single_writer(tmp_path, "shop")
    entry = sealed(store, 1, 10, mark=0)
    assert unread_rows_keys(store, entry, replace(entry.checkpoint, unread={})) == {}
    assert unread_rows_keys(store, None, Checkpoint(position(0))) == {}
    assert keys_of(store, entry, replace(entry.checkpoint, unread={WIDE.table: 11})) == []
    store.close()


def test_keys_that_the_schema_has_no_room_for_are_unavailable(tmp_path: Path) -> None:
    store = JournalStore.open_single_writer(tmp_path, "shop")
    entry = sealed(store, 1, 10, mark=10)
    for kind, room in ((Integer(2, unsigned=False), True), (Decimal(10, 0), False)):
        narrow = replace(WIDE, columns=(replace(WIDE.columns[0], type=kind), *WIDE.columns[1:]))
        altered = replace(entry.checkpoint, schemas={WIDE.table: narrow})
        assert (keys_of(store, entry, altered) is not None) == room
    store.close()


@pytest.mark.parametrize("content", [None, b"", b"PAR1", b"\0" * 400])
def test_keys_in_a_damaged_file_are_lost_for_their_table_alone(tmp_path: Path, content: bytes | None) -> None:
    store = JournalStore.open_single_writer(tmp_path, "shop")
    first, last = (sealed(store, number, 10 * number, mark=10) for number in (1, 2))
    other = replace(WIDE, table=TableId("shop", "others"))
    known = replace(
        last.checkpoint,
        schemas={WIDE.table: WIDE, other.table: other},
        unread={WIDE.table: 10, other.table: 10},
    )
    path = store.path(first, first.files[0])
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with capture_logs() as logged:
        found = unread_rows_keys(store, last, known)
    assert found[WIDE.table] is None
    assert found[other.table] is not None
    assert [(each["event"], each["table"]) for each in logged] == [(LOST, str(WIDE.table))]
    assert keys_of(store, last, replace(last.checkpoint, unread={WIDE.table: 20})) == [20]
    store.close()


def test_keys_before_a_damaged_entry_are_lost_for_the_tables_that_need_it(tmp_path: Path) -> None:
    store = JournalStore.open_single_writer(tmp_path, "shop")
    _, _, last = (sealed(store, number, 10 * number, mark=10) for number in (1, 2, 3))
    store.close()
    other = replace(WIDE, table=TableId("shop", "others"))
    (path,) = (tmp_path / "manifest").glob("000000000002-*")
    path.write_bytes(b"")
    known = replace(
        last.checkpoint,
        schemas={WIDE.table: WIDE, other.table: other},
        unread={other.table: 10, WIDE.table: 30},
    )
    with capture_logs() as logged:
        found = unread_rows_keys(JournalReader(tmp_path), last, known)
    keys = found[WIDE.table]
    assert keys is not None
    assert keys.column(0).to_pylist() == [30]
    assert found[other.table] is None
    assert [(each["event"], each["table"]) for each in logged] == [(LOST, str(other.table))]
