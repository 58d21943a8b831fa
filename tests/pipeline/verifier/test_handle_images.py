"""Images of transactions and of their parts: each table's get names, or stop it, by name, and only that one."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.config.column_protection import UNPROTECTED
from pipeline.gtid.gtid_set import Gtid, GtidSet
from pipeline.journal.segment import segment_tables
from pipeline.messages.binlog import LogAdvanced, RowsUnread, TransactionsRead
from pipeline.messages.changes import ChangesVerified, SchemasVerified, TableStopped, TransactionPartVerified
from pipeline.messages.journal import ChangePart
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableImages, TableUnreadable
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_map import FullMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.types import enum_labels
from pipeline.verifier.cascades import OutdatedForeignKeys
from pipeline.verifier.state import FromVerifier
from tests.pipeline.builders import Capture
from tests.pipeline.verifier.answers import start, step
from tests.pipeline.verifier.small_log import (
    FULL,
    MINIMAL,
    NAMES,
    NOTHING_KNOWN,
    ORDERS,
    RENAMED,
    SCHEMA,
    SERVER,
    SHOP,
    TAGS_GONE,
    end,
    fresh,
    images,
    kinds,
    part,
    restarts,
    run,
    schemas,
    slice_,
    statement,
    upto,
)

# -- full metadata


def test_a_full_map_names_the_columns_and_its_labels() -> None:
    state, (verified, changes) = step(fresh(), slice_(1))
    assert verified == SchemasVerified((SCHEMA,))
    assert isinstance(changes, ChangesVerified)
    [change] = changes.tables
    assert change.rows.schema == SCHEMA.arrow
    assert change.rows.to_pylist() == [{"id": 7, "state": "paid", "tags": "x,y"}]
    # Reported once, until it changes.
    _, again = step(state, slice_(2))
    assert kinds(list(again)) == ["ChangesVerified"]


def test_another_full_map_is_another_version() -> None:
    renamed = replace(FULL, metadata=FullMetadata(("id", "state", "labels"), (0,)))
    said = run(
        fresh(),
        slice_(1),
        statement(2, "ALTER TABLE orders COMMENT 'x'"),  # not what was done, as far as it's told
        slice_(3, maps=(renamed,)),
    )
    assert kinds(said) == [
        "SchemasVerified",
        "ChangesVerified",
        "SchemaChanged",
        "SchemasVerified",
        "ChangesVerified",
    ]
    assert schemas(said) == [SCHEMA, RENAMED]
    [restarted] = restarts(said)
    assert (restarted.table, restarted.emptied) == (ORDERS, False)
    assert restarted.reason == TAGS_GONE


# -- rows that change without an event


def test_a_table_that_the_server_lost_changes_of_is_empty_no_more() -> None:
    lost = LogAdvanced(end(3), unread=(RowsUnread("so", databases=None, lost=True),))
    renamed = replace(FULL, metadata=FullMetadata(("id", "state", "labels"), (0,)))
    said = run(fresh(), slice_(1), statement(2, "TRUNCATE orders"), lost, slice_(5, maps=(renamed,)))
    assert [each.emptied for each in restarts(said)] == [True, False, False]


# -- a stop or a restart, and the position that it belongs to

KEYLESS = replace(SCHEMA, key=())
ITEMS = TableId("shop", "items")
LOST = RowsUnread("so", databases=None, lost=True)


def sealed(message: TransactionsRead | LogAdvanced, before: Checkpoint) -> list[Checkpoint]:
    """The checkpoints of all segments that may end with or after this message."""
    verifier, _ = start(SHOP, KnownSchemas(before.schemas, before.position), before)
    capture = Capture(checkpoint=before)
    began = len(capture.appends)
    _, said = step(verifier, message)
    capture.give(*said)
    return [append.checkpoint for append in capture.appends[began:]]


def test_no_segment_has_the_position_without_the_stop_that_belongs_to_it() -> None:
    before = Checkpoint(upto(1), schemas={ORDERS: KEYLESS})
    unread = (RowsUnread("a statement changed it", frozenset({ORDERS})),)
    rows = slice_(2, maps=(replace(FULL, metadata=FullMetadata(NAMES, ())),))
    for message in (replace(rows, unread=unread), LogAdvanced(end(2), upto(2), unread=unread)):
        checkpoints = sealed(message, before)
        assert [each.position for each in checkpoints][-1] == upto(2)
        assert not [c for c in checkpoints if c.position == upto(2) and ORDERS not in c.stopped]


def test_no_segment_has_the_position_without_the_restarts_that_belong_to_it() -> None:
    tables = {ORDERS: SCHEMA, ITEMS: replace(SCHEMA, table=ITEMS)}
    before = Checkpoint(upto(1), 7, tables, {table: Ready(0) for table in tables})
    for message in (
        replace(slice_(2, maps=()), unread=(LOST,)),
        LogAdvanced(end(2), upto(2), unread=(LOST,)),
    ):
        checkpoints = sealed(message, before)
        assert [each.position for each in checkpoints][-1] == upto(2)
        moved = [set(map(type, c.mirrors.values())) for c in checkpoints if c.position == upto(2)]
        assert moved == [{Filling}] * len(moved)


def test_a_table_that_stops_with_a_slice_is_not_restarted_by_it() -> None:
    """It stops first. So a restart would begin its mirror again."""
    state, _ = start(
        SHOP,
        KnownSchemas({ORDERS: KEYLESS}, GtidSet()),
        Checkpoint(GtidSet(), schemas={ORDERS: KEYLESS}),
        foreign_keys=(ForeignKey(ORDERS, ITEMS, ("id",), deletes=True, updates=True),),
        outdated_keys=OutdatedForeignKeys(reread=True),
    )
    gone = images(replace(FULL, table=ITEMS))
    kind = pa.array([int(ImageKind.DELETE)], pa.int8())
    gone = replace(gone, images=gone.images.set_column(0, IMAGE_FIELDS.field("kind"), kind))
    unread = (RowsUnread("a statement changed it", frozenset({ORDERS})),)
    said = run(state, replace(slice_(1), tables=(gone,), unread=unread))
    assert kinds(said) == ["SchemasVerified", "TableStopped", "ChangesVerified"]
    assert isinstance(said[-1], ChangesVerified)
    assert said[-1].restarted == ()


# -- stopped tables


def test_a_stopped_table_is_named_once_and_dropped_and_the_others_go_on() -> None:
    items = replace(FULL, table=TableId("shop", "items"))
    misfit = replace(MINIMAL, nullable=(True, True, True))
    said = run(
        fresh(KnownSchemas({ORDERS: SCHEMA}, GtidSet())),
        slice_(1, maps=(misfit, items)),
        slice_(2, maps=(misfit, items)),
        slice_(3),
    )
    assert kinds(said) == [
        "TableStopped", "SchemasVerified", "ChangesVerified", "ChangesVerified", "ChangesVerified",
    ]  # fmt: skip
    assert {schema.table.name for schema in schemas(said)} == {"items"}
    assert [m.transactions.gtid(0).number for m in said if isinstance(m, ChangesVerified)] == [1, 2, 3]


def test_a_slice_in_which_a_table_is_stopped_has_none_of_it() -> None:
    """The news comes before the slice, so that nothing of the table may follow it."""
    other = replace(MINIMAL, nullable=(True, True, True))
    said = run(fresh(KnownSchemas({ORDERS: SCHEMA}, GtidSet())), slice_(1, maps=(FULL, other)))
    assert kinds(said) == ["SchemasVerified", "TableStopped", "ChangesVerified"]
    assert schemas(said) == []


def test_a_table_that_was_stopped_before_a_restart_stays_stopped() -> None:
    state, _ = start(
        SHOP, NOTHING_KNOWN, Checkpoint(GtidSet(), schemas={ORDERS: SCHEMA}, stopped={ORDERS: "it was"})
    )
    said = run(state, statement(1, "DROP TABLE orders"), slice_(2))
    assert kinds(said) == ["SchemaChanged", "ChangesVerified"]
    assert schemas(said) == []


def test_a_value_without_a_label_stops_the_table() -> None:
    for bad in (images(FULL, state=3), images(FULL, tags=4)):
        said = run(fresh(), replace(slice_(1), tables=(bad,)))
        assert kinds(said) == ["TableStopped", "ChangesVerified"]
        assert schemas(said) == []


def test_labels_that_no_array_has_room_for_stop_their_table_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 GiB of them, for which some bytes stand."""
    items = replace(FULL, table=TableId("shop", "items"))
    monkeypatch.setattr(enum_labels, "_MOST_BYTES", 2)
    said = run(fresh(), replace(slice_(1), tables=(images(FULL), images(items, state=0, tags=1))))
    assert [each.table for each in said if isinstance(each, TableStopped)] == [ORDERS]
    assert [schema.table.name for schema in schemas(said)] == ["items"]


def test_a_table_that_could_not_be_decoded_is_stopped_by_name_and_the_others_go_on() -> None:
    items = replace(FULL, table=TableId("shop", "items"))
    unreadable = replace(slice_(2), tables=(TableUnreadable(ORDERS, "a time of 25 hours"), images(items)))
    said = run(fresh(), slice_(1), unreadable, slice_(3))
    assert [m for m in said if isinstance(m, TableStopped)] == [TableStopped(ORDERS, "a time of 25 hours")]
    assert [schema.table.name for schema in schemas(said)] == ["orders", "items"]


# -- parts of a transaction


def test_a_part_is_verified_as_a_slice_is() -> None:
    state, (verified, changes) = step(fresh(), part(7, images(FULL)))
    assert verified == SchemasVerified((SCHEMA,))
    assert isinstance(changes, TransactionPartVerified)
    assert (changes.gtid, changes.commit_time) == (Gtid(SERVER, 7), 7)
    assert [change.rows.to_pylist() for change in changes.tables] == [
        [{"id": 7, "state": "paid", "tags": "x,y"}]
    ]
    said = run(state, part(7, images(MINIMAL)), part(7, TableUnreadable(ORDERS, "so")), slice_(7))
    assert kinds(said) == [
        "TransactionPartVerified", "TableStopped", "TransactionPartVerified", "ChangesVerified",
    ]  # fmt: skip
    assert schemas(said) == []


def test_a_part_has_not_passed() -> None:
    """What the server knew holds once all of it has passed, which a transaction has with its end."""
    state = fresh(KnownSchemas({ORDERS: SCHEMA}, upto(7)), position=6)
    assert kinds(run(state, part(7), slice_(7, maps=()), slice_(8, maps=(MINIMAL,)))) == [
        "TransactionPartVerified", "ChangesVerified", "SchemasVerified", "SchemasVerified", "ChangesVerified",
    ]  # fmt: skip
    assert kinds(run(state, part(7, images(MINIMAL)))) == []


# -- two maps of one table in a slice


def updates(table_map: TableMap, *places: tuple[int, int]) -> TableImages:
    """Updates of the row 7, each in its transaction (by index) and with the first of its ordinals."""
    one = images(table_map)
    count = 2 * len(places)
    described = [
        [1, 2] * len(places),
        [transaction for transaction, _ in places for _ in range(2)],
        [ordinal + i for _, ordinal in places for i in range(2)],
        [None] * count,
        [{"file": f"log of {table_map.metadata}", "pos": 4}] * count,
    ]
    fields = [pa.array(values, f.type) for values, f in zip(described, IMAGE_FIELDS, strict=True)]
    return replace(
        one,
        images=pa.record_batch(fields, IMAGE_FIELDS),
        rows=pa.record_batch([pa.concat_arrays([c] * count) for c in one.rows.columns], one.rows.schema),
    )


def in_segment(said: list[FromVerifier]) -> list[list[tuple[int, int]]]:
    """The SCN and the ordinal of each row, file by file."""
    parts = [
        ChangePart(changes, message.transactions, 1)
        for message in said
        if isinstance(message, ChangesVerified)
        for changes in message.tables
    ]
    return [
        list(zip(table.rows["__scn"].to_pylist(), table.rows["__ordinal"].to_pylist(), strict=True))
        for table in segment_tables(1, parts, (), UNPROTECTED)
    ]


def test_a_table_with_two_maps_in_a_slice_keeps_the_log_s_order() -> None:
    """A statement that began before binlog_row_metadata was set logs the earlier map after newer transactions."""
    full, minimal = updates(FULL, (0, 0), (2, 0), (2, 4)), updates(MINIMAL, (1, 0), (2, 2))
    other = replace(images(FULL), map=replace(FULL, table=TableId("shop", "items")))
    known = fresh(KnownSchemas({ORDERS: SCHEMA}, GtidSet()))
    said = run(known, replace(slice_(1, 2, 3), tables=(full, other, minimal)))
    assert kinds(said) == ["SchemasVerified", "SchemasVerified", "ChangesVerified"]
    assert in_segment(said) == [[(1, 1), (2, 1), (3, 1), (3, 3), (3, 5)], [(1, 0)]]
    (changes, _) = said[-1].tables if isinstance(said[-1], ChangesVerified) else ()
    files = [source["file"] for source in changes.images["source"].to_pylist()[::2]]
    assert [name == f"log of {MINIMAL.metadata}" for name in files] == [False, True, False, True, False]


def test_two_maps_of_two_versions_stay_apart() -> None:
    renamed = replace(FULL, metadata=FullMetadata(("id", "state", "labels"), (0,)))
    said = run(fresh(), replace(slice_(1, 2), tables=(updates(FULL, (0, 0)), updates(renamed, (1, 0)))))
    assert schemas(said) == [SCHEMA, RENAMED]


# -- absent columns


def lacking(*bitmaps: bytes | None) -> TransactionsRead:
    """A slice with a row for each of these bitmaps."""
    count = len(bitmaps)
    whole = images(FULL)
    rows = pa.record_batch(
        [pa.concat_arrays([column] * count) for column in whole.rows.columns], whole.rows.schema
    )
    fields = [[0] * count, [0] * count, range(count), bitmaps, [None] * count]
    meta = pa.record_batch(
        [pa.array(values, f.type) for values, f in zip(fields, IMAGE_FIELDS, strict=True)], IMAGE_FIELDS
    )
    return replace(slice_(1), tables=(replace(whole, images=meta, rows=rows),))


def test_absent_columns_stay_bits() -> None:
    bitmaps = [b"\x06", b"\x02", None]
    (changes,) = [m for m in run(fresh(), lacking(*bitmaps)) if isinstance(m, ChangesVerified)]
    (table,) = changes.tables
    assert table.images.schema == IMAGE_FIELDS
    assert table.images["absent"].to_pylist() == bitmaps
    assert table.images["ordinal"].to_pylist() == [0, 1, 2]


def test_an_absent_column_of_the_key_stops_the_table_by_name() -> None:
    said = run(fresh(), lacking(None, b"\x03"))
    (stopped,) = [m for m in said if isinstance(m, TableStopped)]
    assert stopped.table == ORDERS
    assert "without id of its primary key" in stopped.reason
    assert schemas(said) == []
