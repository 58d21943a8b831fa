"""What goes into the journal's files, against a plain-Python model; entries; and when a segment is sealed."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.config.column_protection import UNPROTECTED, Protection, ProtectionRule, Treatment
from pipeline.config.secret import Secret
from pipeline.config.settings import JournalSettings
from pipeline.config.table_rules import LakeRule, Tiers
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid, GtidSet, Tsid
from pipeline.gtid.transactions import Transactions
from pipeline.journal import change_rows, manifest
from pipeline.journal import segment as journal
from pipeline.journal.entry import CommitTimes, File, FileKind
from pipeline.journal.segment import EarlyFile, OpenTransactionRows, Unsealed
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart, StatementPart
from pipeline.messages.message_size import of_part
from pipeline.messages.row_images import IMAGE_FIELDS, SOURCE_TYPE, ImageKind, TableChanges
from pipeline.messages.signals import SignalAccepted
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling
from pipeline.snapshot.snapshot import ChunkId
from pipeline.types.column_types import Date, Integer, Text
from tests.pipeline.builders import change_table, lacks

SOURCE = Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562")
TAGGED = Tsid("a0b1c2d3-0000-4000-8000-000000000001", "batch")
ITEMS = TableId("shop", "items")
COLUMNS = (
    Column("value", Text("utf8mb4"), nullable=True),
    Column("number", Integer(8, unsigned=False), nullable=False),
    Column("code", Text("utf8mb4"), nullable=False),
)
KEYED = TableSchema(ITEMS, COLUMNS, key=(2, 1))
KEYLESS = TableSchema(ITEMS, COLUMNS, key=())
BY_NUMBER = TableSchema(TableId("shop", "counts"), COLUMNS, key=(1,))
SEGMENT = 2**40

tables_of = partial(journal.segment_tables, rules=(), protection=UNPROTECTED)
seal = partial(journal.seal, protection=UNPROTECTED)
files_of = partial(journal.files_of_segment, protection=UNPROTECTED)

Row = tuple[str | None, int, str]
Key = tuple[str, int]


@dataclass(frozen=True)
class Change:
    """A row change as a server makes it; an insert has no `before`, a delete no `after`."""

    transaction: int
    before: Row | None
    after: Row | None


def key_of(row: Row) -> Key:
    return row[2], row[1]


def part_of(changes: list[Change], schema: TableSchema, first_scn: int = 1) -> ChangePart:
    images: list[tuple[ImageKind, int, Row]] = []
    for change in changes:
        if change.before is not None:
            kind = ImageKind.DELETE if change.after is None else ImageKind.UPDATE_BEFORE
            images.append((kind, change.transaction, change.before))
        if change.after is not None:
            kind = ImageKind.INSERT if change.before is None else ImageKind.UPDATE_AFTER
            images.append((kind, change.transaction, change.after))
    return images_of(images, schema, first_scn)


def images_of(
    images: list[tuple[ImageKind, int, Row]], schema: TableSchema, first_scn: int = 1
) -> ChangePart:
    ordinals: Counter[int] = Counter()
    described: dict[str, list[int | None]] = {
        "kind": [],
        "transaction": [],
        "ordinal": [],
        "absent": [],
        "source": [],
    }
    for kind, transaction, _ in images:
        described["kind"].append(kind)
        described["transaction"].append(transaction)
        described["ordinal"].append(ordinals[transaction])
        described["absent"].append(None)
        described["source"].append(None)
        ordinals[transaction] += 1
    rows = {name: [row[i] for _, _, row in images] for i, name in enumerate(schema.arrow.names)}
    return ChangePart(
        TableChanges.unshared(
            schema,
            pa.RecordBatch.from_pydict(described, IMAGE_FIELDS),
            pa.RecordBatch.from_pydict(rows, schema.arrow),
        ),
        run(1 + max((transaction for _, transaction, _ in images), default=0)),
        first_scn,
    )


def file_of(path: str, schema: TableSchema, kind: FileKind = FileKind.CHANGES) -> File:
    return File(path, schema.table, schema.version, kind, 1, 1, "", False)


def run(length: int) -> Transactions:
    sources = (SOURCE, TAGGED)
    return Transactions.of(
        (Gtid(sources[i % 2], 10 + i), 1_700_000_000_000_000 + 7 * i) for i in range(length)
    )


def chunk_of(rows: list[Row], first: bool, number: int = 3, scn: int = 9) -> ChunkPart:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(KEYED.arrow.names)}
    return ChunkPart(
        chunk=ChunkId("s1", ITEMS, number),
        schema=KEYED,
        rows=pa.RecordBatch.from_pydict(columns, KEYED.arrow),
        low=GtidSet.parse(f"{SOURCE}:1-5"),
        high=Coordinates("binlog.000007", 1234),
        scn=scn,
        first=first,
    )


def test_rows_of_a_verification_are_in_a_file_of_their_own() -> None:
    read = replace(chunk_of([("x", 1, "a")], first=False), verifies=True)
    (file,) = tables_of(7, [read])
    assert file.kind is FileKind.VERIFIED
    assert (file.rows["__chunk"].to_pylist(), file.rows["__scn"].to_pylist()) == (["s1"], [9])
    kinds = [each.kind for each in tables_of(7, [read, chunk_of([("y", 2, "b")], first=False)])]
    assert kinds == [FileKind.VERIFIED, FileKind.CHANGES]


# Few keys, so that they're changed, deleted and inserted again and again.
numbers = st.integers(-2, 2)
codes = st.sampled_from(["", "a", "A", "1:", "ä"])
row = st.tuples(st.sampled_from([None, "", "x", "y"]), numbers, codes)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Change], dict[Key, Row]]:
    """Changes that a table with a primary key can undergo, and the rows in the end."""
    table: dict[Key, Row] = {}
    changes: list[Change] = []
    transaction = 0
    for _ in range(draw(st.integers(0, 25))):
        transaction += draw(st.integers(0, 2))
        new = draw(row)
        old = draw(st.none() | st.sampled_from(list(table.values()))) if table else None
        if old is not None and draw(st.booleans()):
            del table[key_of(old)]
            changes.append(Change(transaction, old, None))
        elif key_of(new) not in table or (old is not None and key_of(old) == key_of(new)):
            if old is not None:
                del table[key_of(old)]
            table[key_of(new)] = new
            changes.append(Change(transaction, old, new))
    return changes, table


@given(histories(), st.integers(1, 2**40))
def test_changes_of_a_table_with_a_key(history: tuple[list[Change], dict[Key, Row]], first_scn: int) -> None:
    changes, _ = history
    expected: list[dict[str, Any]] = []
    ordinals: Counter[int] = Counter()

    def image(op: str | None, change: Change, row: Row) -> None:
        ordinal = ordinals[change.transaction]
        ordinals[change.transaction] += 1
        gtid = run(change.transaction + 1).gtid(change.transaction)
        time = 1_700_000_000_000_000 + 7 * change.transaction
        meta = (op, first_scn + change.transaction, ordinal, str(gtid), time, None, None, SEGMENT)
        if op:
            expected.append(
                dict(zip((*change_rows.META.names, *KEYED.arrow.names), (*meta, *row), strict=True))
            )

    for change in changes:
        if change.before is None:
            assert change.after is not None
            image("c", change, change.after)
        elif change.after is None:
            image("d", change, change.before)
        else:
            image("d" if key_of(change.before) != key_of(change.after) else None, change, change.before)
            image("u", change, change.after)

    table = change_table(SEGMENT, part_of(changes, KEYED, first_scn))
    assert table.schema.equals(change_rows.file_schema(KEYED))
    table = table.drop_columns(change_rows.SOURCE.name)
    at = table.schema.get_field_index("__commit_time")
    assert table.set_column(at, "__commit_time", table.column(at).cast(pa.int64())).to_pylist() == expected


@given(histories())
def test_the_last_row_of_each_key_is_the_source(history: tuple[list[Change], dict[Key, Row]]) -> None:
    changes, source = history
    last: dict[Key, Row | None] = {}
    for found in change_table(SEGMENT, part_of(changes, KEYED)).to_pylist():
        image = (found["value"], found["number"], found["code"])
        last[key_of(image)] = None if found["__op"] == "d" else image
    assert {key: row for key, row in last.items() if row is not None} == source


@given(st.lists(st.tuples(st.none() | row, st.none() | row).filter(any), max_size=20))
def test_changes_of_a_table_without_a_key_are_a_sum(pairs: list[tuple[Row | None, Row | None]]) -> None:
    expected: Counter[Row] = Counter()
    for before, after in pairs:
        expected.update(() if after is None else (after,))
        expected.subtract(() if before is None else (before,))
    changes = [Change(0, before, after) for before, after in pairs]
    found: Counter[Row] = Counter()
    for line in change_table(SEGMENT, part_of(changes, KEYLESS)).to_pylist():
        found[line["value"], line["number"], line["code"]] += {"c": 1, "d": -1}[line["__op"]]
    assert found == expected


@given(st.lists(st.tuples(histories(), st.integers(0, 5)), min_size=1, max_size=4))
def test_parts_made_rows_together_are_what_they_are_alone(given: list[Any]) -> None:
    parts, scn = [], 1
    for (changes, _), between in given:
        part = part_of(changes, KEYED, scn)
        scn += len(part.transactions) + between
        parts.append(part)
    alone = pa.concat_tables(change_table(SEGMENT, each) for each in parts)
    assert change_table(SEGMENT, *parts).equals(alone)


@given(
    st.lists(
        st.tuples(histories(), st.sampled_from([KEYED, KEYLESS, BY_NUMBER]), st.booleans()),
        min_size=1,
        max_size=4,
    ),
    st.booleans(),
)
def test_tables_made_rows_together_are_what_they_are_alone(given: list[Any], one_slice: bool) -> None:
    runs, transactions = [], run(100)
    for first_scn, ((changes, _), schema, before_images) in enumerate(given, 1):
        part = part_of(changes, schema, 1 if one_slice else first_scn)
        part = replace(part, transactions=transactions) if one_slice else part
        runs.append(change_rows.ChangeRun([part], before_images))
    for each, table in zip(runs, change_rows.change_tables(SEGMENT, runs), strict=True):
        assert table.equals(change_table(SEGMENT, *each.parts, before_images=each.before_images))


def test_an_update_s_images_are_of_one_table() -> None:
    half = images_of([(ImageKind.UPDATE_BEFORE, 0, ("x", 1, "a"))], KEYED)
    other = images_of([(ImageKind.UPDATE_AFTER, 0, ("x", 1, "a"))], BY_NUMBER)
    with pytest.raises(InvariantBroken, match=r"shop\.items"):
        change_rows.change_tables(SEGMENT, [change_rows.ChangeRun([each]) for each in (half, other)])


def test_an_update_of_a_number_that_is_the_key_is_a_row_of_each_number() -> None:
    changes = [Change(0, ("x", 1, "a"), ("y", 1, "b")), Change(0, ("x", 2, "a"), ("x", 3, "a"))]
    table = change_table(SEGMENT, part_of(changes, BY_NUMBER))
    assert table.column("__op").to_pylist() == ["u", "d", "u"]
    assert table.column("number").to_pylist() == [1, 2, 3]


def test_many_slices_become_rows_together_and_chunks_between_them_keep_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = [part_of([Change(0, None, (str(n), n, "a"))], KEYED, n) for n in range(1, 8)]
    chunk = chunk_of([("8", 8, "a"), ("9", 9, "a")], first=False, scn=5)
    (whole,) = tables_of(SEGMENT, [*parts[:4], chunk, *parts[4:]])
    assert whole.rows["value"].to_pylist() == ["1", "2", "3", "4", "8", "9", "5", "6", "7"]
    assert whole.rows.column("value").num_chunks == 3
    monkeypatch.setattr(journal, "IMAGES_TOGETHER", 2)
    (two_by_two,) = tables_of(SEGMENT, [*parts[:4], chunk, *parts[4:]])
    assert two_by_two.rows.equals(whole.rows)
    assert two_by_two.rows.column("value").num_chunks == 5


def test_a_key_that_is_null_counts_as_changed() -> None:
    columns = (Column("day", Date(), nullable=False), Column("n", Integer(4, unsigned=False), nullable=False))
    schema = TableSchema(ITEMS, columns, key=(0, 1))
    images = [(ImageKind.UPDATE_BEFORE, 0, (None, 1)), (ImageKind.UPDATE_AFTER, 0, (None, 2))]
    table = change_table(SEGMENT, images_of(images, schema))  # type: ignore[arg-type]
    assert table.column("__op").to_pylist() == ["d", "u"]
    assert table.column("n").to_pylist() == [1, 2]


def test_by_rule_an_update_has_a_row_of_what_it_found() -> None:
    changes = [
        Change(0, None, ("x", 1, "a")),
        Change(0, ("x", 1, "a"), ("y", 1, "a")),
        Change(1, ("y", 1, "a"), ("y", 2, "a")),
        Change(1, ("y", 2, "a"), None),
    ]
    rules = (LakeRule(TableFilter((".*",)), before_images=True),)
    (table,) = tables_of(SEGMENT, [part_of(changes, KEYED)], rules=rules)
    assert table.rows["__op"].to_pylist() == ["c", "b", "u", "d", "u", "d"]
    assert table.rows["value"].to_pylist() == ["x", "x", "y", "y", "y", "y"]
    assert table.rows["__ordinal"].to_pylist() == [0, 1, 2, 0, 1, 2]
    assert table.rows["__scn"].to_pylist() == [1, 1, 1, 2, 2, 2]
    (table,) = tables_of(SEGMENT, [part_of(changes, KEYLESS)], rules=rules)
    assert table.rows["__op"].to_pylist() == ["c", "d", "c", "d", "c", "d"]


def test_by_rule_a_first_snapshot_goes_to_the_changelog() -> None:
    rule = LakeRule(TableFilter((".*",)), Tiers.CHANGELOG)
    chunk, changed = chunk_of([("x", 1, "a")], first=True), part_of([Change(0, None, ("z", 3, "c"))], KEYED)
    append = Append((chunk, changed), checkpoint(1))
    assert (
        change_rows.turn_chunks_into_changes(append, (LakeRule(TableFilter((".*",)), Tiers.MIRROR),))
        == append
    )
    (table,) = tables_of(SEGMENT, change_rows.turn_chunks_into_changes(append, (rule,)).parts)
    assert table.kind is FileKind.CHANGES
    assert table.rows["__op"].to_pylist() == ["r", "c"]


def test_a_row_says_which_columns_it_lacks_and_its_file_that_there_is_such_a_row() -> None:
    changes = [
        Change(0, None, ("x", 1, "a")),
        Change(0, ("x", 1, "a"), (None, 1, "a")),
        Change(0, (None, 2, "b"), None),
    ]
    part = part_of(changes, KEYED)
    lacking = [None, None, lacks(KEYED, ["value"]), lacks(KEYED, ["value"])]
    absent = IMAGE_FIELDS.field("absent")
    images = part.changes.images.set_column(3, absent, pa.array(lacking, absent.type))
    part = replace(part, changes=replace(part.changes, images=images))
    (table,) = tables_of(SEGMENT, [part])
    assert table.rows["__op"].to_pylist() == ["c", "u", "d"]
    assert table.rows["__absent"].to_pylist() == [None, ["value"], ["value"]]
    assert table.absent
    whole = part_of(changes, KEYED), chunk_of([("x", 1, "a")], first=True)
    assert [table.absent for table in tables_of(SEGMENT, whole)] == [False, False]


def test_rows_of_several_tables_name_the_columns_that_they_lack_of_their_own() -> None:
    other = replace(
        KEYED, columns=tuple(replace(each, name=f"its {each.name}") for each in COLUMNS[:2]), key=(1,)
    )
    absent = IMAGE_FIELDS.field("absent")
    parts = []
    for schema, bitmaps in ((KEYED, [None, b"\x02", b"\x03"]), (other, [b"\x01", None, b"\x01"])):
        images = part_of([Change(n, None, ("x", n, "a")) for n in range(3)], KEYED).changes.images
        images = images.set_column(3, absent, pa.array(bitmaps, absent.type))
        rows = pa.RecordBatch.from_pylist([{schema.key_names[-1]: n} for n in range(3)], schema.arrow)
        parts.append(ChangePart(TableChanges.unshared(schema, images, rows), run(3), 1))
    tables = tables_of(SEGMENT, parts)
    assert [table.rows["__absent"].to_pylist() for table in tables] == [
        [None, ["number"], ["value", "number"]],
        [["its value"], None, ["its value"]],
    ]


def test_images_that_lack_many_columns_become_rows_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of their rows names these columns."""
    monkeypatch.setattr(journal, "IMAGES_TOGETHER", 7)
    monkeypatch.setattr(journal, "COLUMNS_NAMED", 3)
    absent, made = IMAGE_FIELDS.field("absent"), list[int]()
    told = change_rows.change_tables

    def change_tables(segment: int, runs: Sequence[change_rows.ChangeRun]) -> list[pa.Table]:
        made.append(sum(len(part.changes.images) for each in runs for part in each.parts))
        return told(segment, runs)

    monkeypatch.setattr(journal, "change_tables", change_tables)
    for bitmap in (None, b"\x01"):
        parts = []
        for first in range(1, 13, 3):
            part = part_of([Change(n, None, ("x", n, "a")) for n in range(3)], KEYED, first)
            images = part.changes.images.set_column(3, absent, pa.array([bitmap] * 3, absent.type))
            parts.append(replace(part, changes=replace(part.changes, images=images)))
        tables_of(SEGMENT, parts)
    assert made == [6, 6, 3, 3, 3, 3]


def test_a_row_says_where_it_comes_from() -> None:
    part = part_of([Change(0, None, ("x", 1, "a")), Change(1, ("x", 1, "a"), ("y", 1, "a"))], KEYED)
    known = {"file": "binlog.000001", "pos": 4, "row": 0, "server_id": 7, "thread": None, "query": None}
    images = part.changes.images
    sources = pa.array(
        [{**known, "pos": at, "thread": thread} for at, thread in ((4, 1), (9, None), (9, None))]
    )
    images = images.set_column(4, IMAGE_FIELDS.field("source"), sources.cast(SOURCE_TYPE))
    run = part.transactions
    moved = replace(run, original_time=run.commit_time - np.array([5, 0]))
    part = ChangePart(replace(part.changes, images=images), moved, part.first_scn)
    found = change_table(SEGMENT, part)[change_rows.SOURCE.name].to_pylist()
    assert found == [
        {"time": int(run.commit_time[0]) - 5, "update": None, **known, "thread": 1},
        {"time": None, "update": None, **known, "pos": 9},
    ]


def test_a_row_of_a_chunk_says_where_the_log_was() -> None:
    chunk = replace(chunk_of([("x", 1, "a")], first=False), at=Coordinates("binlog.000001", 4))
    [found] = change_rows.chunk_table(SEGMENT, chunk)[change_rows.SOURCE.name].to_pylist()
    assert (found["file"], found["pos"], found["row"], found["server_id"]) == ("binlog.000001", 4, 0, None)


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_a_table_that_was_emptied_says_so_in_a_row_of_its_own(schema: TableSchema) -> None:
    changes = TableChanges.unshared(
        schema,
        pa.RecordBatch.from_pylist(
            [{"kind": ImageKind.EMPTIED, "transaction": 0, "ordinal": 0}], IMAGE_FIELDS
        ),
        pa.RecordBatch.from_pylist([{}], schema.arrow),
    )
    [row] = change_table(SEGMENT, ChangePart(changes, run(1), 7)).to_pylist()
    assert (row["__op"], row["__scn"]) == ("t", 7)
    assert {row[column.name] for column in schema.columns} == {None}


@pytest.mark.parametrize(
    "kinds",
    [
        [ImageKind.UPDATE_BEFORE],
        [ImageKind.UPDATE_AFTER],
        [ImageKind.UPDATE_AFTER, ImageKind.UPDATE_BEFORE],
        [ImageKind.UPDATE_BEFORE, ImageKind.INSERT, ImageKind.UPDATE_AFTER],
        [ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER, ImageKind.UPDATE_AFTER],
    ],
)
@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_an_update_torn_apart_is_refused(kinds: list[ImageKind], schema: TableSchema) -> None:
    with pytest.raises(InvariantBroken, match=r"shop\.items"):
        change_table(SEGMENT, images_of([(kind, 0, ("x", 1, "a")) for kind in kinds], schema))


@pytest.mark.parametrize("name", ["__op", "__SCN", "__Commit_Time", "__segment"])
def test_a_column_with_the_name_of_ours_is_refused_by_name(name: str) -> None:
    schema = TableSchema(ITEMS, (Column(name, Integer(4, unsigned=False), nullable=True),), key=())
    assert f"its column {name!r} has the name of a column that Tidemark adds" in str(
        change_rows.uncapturable(schema, UNPROTECTED)
    )
    assert change_rows.uncapturable(KEYED, UNPROTECTED) is None


def test_a_chunk_of_a_first_snapshot_is_its_rows_alone() -> None:
    table = change_rows.chunk_table(SEGMENT, chunk_of([("x", 1, "a"), (None, 2, "b")], first=True))
    assert table.schema.equals(KEYED.arrow)
    assert table.to_pylist() == [
        {"value": "x", "number": 1, "code": "a"},
        {"value": None, "number": 2, "code": "b"},
    ]


def test_a_chunk_of_a_later_snapshot_is_changes_of_its_own() -> None:
    table = change_rows.chunk_table(SEGMENT, chunk_of([("x", 1, "a"), (None, 2, "b")], first=False))
    assert table.schema.equals(change_rows.file_schema(KEYED))
    assert table.select(change_rows.META.names).to_pylist() == [
        {
            "__op": "r",
            "__scn": 9,
            "__ordinal": ordinal,
            "__gtid": None,
            "__commit_time": None,
            "__chunk": "s1/shop.items/3",
            "__absent": None,
            "__segment": SEGMENT,
        }
        for ordinal in (0, 1)
    ]


def checkpoint(scn: int, **more: Any) -> Checkpoint:
    return Checkpoint(GtidSet.parse(f"{SOURCE}:1-{scn}"), scn, **more)


def test_a_segment_has_one_table_for_each_version_and_kind_in_the_order_of_the_stream() -> None:
    other = TableSchema(TableId("shop", "others"), COLUMNS, key=(1,))
    newer = TableSchema(ITEMS, COLUMNS[:2], key=(1,))
    appends = [
        Append(
            (
                part_of([Change(0, None, ("1", 1, "a"))], KEYED, 1),
                chunk_of([("2", 2, "a")], first=False, scn=2),
            ),
            checkpoint(2),
        ),
        Append((part_of([Change(0, None, ("3", 3, "a"))], other, 3),), checkpoint(3)),
        Append((chunk_of([("4", 4, "a")], first=True), chunk_of([], first=True)), checkpoint(4)),
        Append((part_of([Change(0, None, ("5", 5, "a"))], KEYED, 5),), checkpoint(5)),
        Append((part_of([Change(0, None, ("6", 6, "a"))], newer, 6),), checkpoint(6)),
        Append((chunk_of([], first=False),), checkpoint(7)),
    ]
    tables = tables_of(SEGMENT, journal.parts_of_appends(appends))
    assert [(table.schema, table.kind, table.rows.column("value").to_pylist()) for table in tables] == [
        (KEYED, FileKind.CHANGES, ["1", "2", "5"]),
        (other, FileKind.CHANGES, ["3"]),
        (KEYED, FileKind.ROWS, ["4"]),
        (newer, FileKind.CHANGES, ["6"]),
    ]
    assert tables_of(SEGMENT, [chunk_of([], first=True)]) == ()


def test_what_an_entry_says() -> None:
    captured = TableSchema(TableId("shop", "idle"), COLUMNS, key=(1,))
    slice_of_two = part_of([Change(1, None, ("1", 1, "a"))], KEYED, 11)
    same_slice = ChangePart(part_of([Change(0, None, ("1", 1, "a"))], KEYLESS).changes, run(2), 11)
    last = checkpoint(13, schemas={captured.table: captured})
    appends = [
        Append((slice_of_two, same_slice), checkpoint(12)),
        Append(
            (chunk_of([("4", 4, "a")], first=True, number=5, scn=13), chunk_of([], first=True, number=6)),
            last,
        ),
    ]
    entry = seal(4, appends, (), checkpoint(10), sealed_at=1_700_000_000_500_000)
    assert (entry.segment, entry.first_scn, entry.last_scn, entry.transactions) == (4, 11, 13, 2)
    assert entry.checkpoint == last
    assert [(chunk.chunk.number, chunk.rows) for chunk in entry.chunks] == [(5, 1), (6, 0)]
    assert entry.commit_times == CommitTimes(
        1_700_000_000_000_000, 1_700_000_000_000_007, (1_700_000_000_000_000, 1_700_000_000_000_007)
    )
    assert entry.schemas == {schema.version: schema for schema in (KEYED, KEYLESS, captured)}
    first = seal(1, [Append((), checkpoint(3))], (), None, sealed_at=5)
    assert (first.first_scn, first.last_scn, first.transactions, first.commit_times) == (1, 3, 0, None)


def test_an_entry_names_the_tables_whose_stop_has_ended_in_it() -> None:
    dropped, still = TableId("shop", "dropped"), TableId("shop", "still")
    before = replace(checkpoint(3), stopped=dict.fromkeys((ITEMS, dropped, still), "so"))
    after = replace(checkpoint(4, schemas={ITEMS: KEYED, still: KEYED}), stopped={still: "so"})
    assert seal(2, [Append((), after)], (), before, sealed_at=5).resumed == (ITEMS,)
    assert seal(1, [Append((), after)], (), None, sealed_at=5).resumed == ()


def test_an_entry_says_that_nothing_in_it_has_a_gtid() -> None:
    before, moved = checkpoint(3), replace(checkpoint(4), position=checkpoint(9).position)
    assert moved.position != before.position
    for after, stays in ((replace(moved, position=before.position), True), (moved, False)):
        assert seal(2, [Append((), after)], (), before, sealed_at=5).position_stays is stays
    assert not seal(1, [Append((), before)], (), None, sealed_at=5).position_stays


def test_a_segment_in_which_a_mirror_begins_anew_has_no_chunk_of_before() -> None:
    """Changes of before stay, and so do the chunks of a later snapshot, which are changes as well."""
    chunks = [chunk_of([(str(n), n, "a")], first=n != 2, number=n, scn=10 + n) for n in range(1, 5)]
    appends = [
        Append((part_of([Change(1, None, ("1", 1, "a"))], KEYED, 10), *chunks[:2]), checkpoint(12)),
        Append(tuple(chunks[2:]), checkpoint(14, mirrors={ITEMS: Filling(13)})),
    ]
    entry = seal(4, appends, (), checkpoint(9), sealed_at=5)
    assert [chunk.chunk.number for chunk in entry.chunks] == [2, 4]
    tables = tables_of(SEGMENT, journal.parts_of_appends(appends))
    found = {table.kind: table.rows for table in tables}
    assert found[FileKind.ROWS].num_rows == 1
    assert found[FileKind.CHANGES]["__op"].to_pylist() == ["c", "r"]
    assert [chunk.version for chunk in entry.chunks] == [None, KEYED.version]
    # With the generation that all of them are of, all of them are there.
    whole = [*appends, Append((), checkpoint(15, mirrors={ITEMS: Filling(9)}))]
    assert len(seal(4, whole, (), checkpoint(9), sealed_at=5).chunks) == 4


@given(st.lists(st.integers(0, 2**52), min_size=1, max_size=100))
def test_samples_of_commit_times(times: list[int]) -> None:
    numbers, committed = np.arange(1, len(times) + 1), np.array(times)
    transactions = Transactions((SOURCE,), np.zeros(len(times), np.int32), numbers, committed, committed)
    changes = part_of([Change(0, None, ("1", 1, "a"))], KEYED).changes
    appends = [Append((ChangePart(changes, transactions, 1),), checkpoint(len(times)))]
    found = seal(1, appends, (), None, 0).commit_times
    assert found is not None
    assert (found.oldest, found.newest) == (min(times), max(times))
    assert len(found.samples) == min(len(times), journal.COMMIT_TIME_SAMPLES)
    assert (found.samples[0], found.samples[-1]) == (times[0], times[-1] if len(times) > 1 else times[0])
    remaining = iter(times)
    assert all(sample in remaining for sample in found.samples), "samples aren't in the order of the commits"


SETTINGS = JournalSettings("journal", seal_after_ms=200, seal_mib=1)
DROPPED = StatementPart(
    11, None, 0, None, 0, SchemaStatement(SchemaObject.DATABASE, "shop", (), (), "DROP DATABASE shop")
)


def test_statements_are_in_the_entry_and_count_as_bytes() -> None:
    later = replace(DROPPED, scn=12)
    appends = [
        Append((), checkpoint(11), statements=(DROPPED,)),
        Append((), checkpoint(12), statements=(later,)),
    ]
    assert seal(4, appends, (), checkpoint(10), sealed_at=5).statements == (DROPPED, later)
    assert waiting(*((100.0, append) for append in appends)).bytes == 2 * len("DROP DATABASE shop")


BEFORE = checkpoint(5)


def waiting(*arrivals: tuple[float, Append], before: Checkpoint | None = BEFORE) -> Unsealed:
    result: Unsealed | None = None
    for now, append in arrivals:
        result = journal.add_append(result, append, before, now)
    assert result is not None
    return result


@pytest.mark.parametrize(
    "urgent",
    [
        Append((part_of([Change(0, None, ("1", 1, "a"))], KEYED),), checkpoint(6)),
        Append((chunk_of([], first=True),), checkpoint(6)),
        Append((), checkpoint(6), statements=(DROPPED,)),
        Append((), checkpoint(6), (SignalAccepted("s1", "begun"),)),
        Append((), checkpoint(6, paused=True)),
        Append((), checkpoint(6, mirrors={ITEMS: Filling(0)})),
    ],
)
def test_what_somebody_waits_for_is_sealed_soon(urgent: Append) -> None:
    quiet = Append((), checkpoint(6))
    assert journal.seal_at(waiting((100.0, urgent)), SETTINGS) == pytest.approx(100.2)
    assert journal.seal_at(
        waiting((99.0, quiet), (100.0, urgent), (100.1, quiet)), SETTINGS
    ) == pytest.approx(100.2)
    assert journal.seal_at(waiting((100.0, urgent), (100.1, urgent)), SETTINGS) == pytest.approx(100.2)


def test_a_new_position_alone_can_wait() -> None:
    quiet = Append((), checkpoint(6))
    assert journal.seal_at(waiting((100.0, quiet), (104.9, quiet)), SETTINGS) == 105.0
    assert journal.seal_at(waiting((100.0, quiet), before=None), SETTINGS) == pytest.approx(100.2)


def test_a_full_segment_is_sealed_at_once() -> None:
    half = Append((part_of([Change(0, None, ("x" * (600 << 10), 1, "a"))], KEYED),), checkpoint(6))
    assert not journal.is_full(None, OpenTransactionRows(), SETTINGS)
    assert not journal.is_full(waiting((100.0, half)), OpenTransactionRows(), SETTINGS)
    both = waiting((100.0, half), (100.1, half))
    assert both.appends == (half, half)
    assert journal.is_full(both, OpenTransactionRows(), SETTINGS)


# A transaction whose end hasn't come

OTHERS = TableSchema(TableId("shop", "others"), COLUMNS, key=(1,))
NEWER = replace(KEYED, columns=(*COLUMNS[:2], replace(COLUMNS[2], nullable=True)))


def rows_of(*values: str, schema: TableSchema = KEYED) -> AppendRows:
    return AppendRows((part_of([Change(0, None, (value, 1, "a")) for value in values], schema, 8),))


def values(parts: Iterable[ChangePart | ChunkPart]) -> list[str]:
    return [value for table in tables_of(SEGMENT, parts) for value in table.rows["value"].to_pylist()]


def test_rows_that_were_kept_come_before_those_of_the_append_that_ends_their_transaction() -> None:
    unfinished = journal.add_rows(journal.add_rows(OpenTransactionRows(), rows_of("1")), rows_of("2"))
    assert unfinished.bytes == 2 * journal.add_rows(OpenTransactionRows(), rows_of("1")).bytes > 0
    end = Append(rows_of("3").parts, checkpoint(8), (SignalAccepted("s", ""),))
    whole = journal.end_transaction(unfinished, end)
    assert values(whole.parts) == ["1", "2", "3"]
    assert (whole.checkpoint, whole.answers) == (end.checkpoint, end.answers)


def test_rows_in_memory_fill_a_segment_whether_their_transaction_has_ended_or_not() -> None:
    half = "x" * (600 << 10)
    whole = waiting((100.0, Append(rows_of(half).parts, checkpoint(6))))
    unfinished = journal.add_rows(OpenTransactionRows(), rows_of(half))
    assert not journal.is_full(None, unfinished, SETTINGS)
    assert journal.is_full(whole, unfinished, SETTINGS)
    assert journal.is_full(None, journal.add_rows(unfinished, rows_of(half)), SETTINGS)


def test_what_is_written_ahead_leaves_nothing_in_memory_but_whose_it_was() -> None:
    unfinished = OpenTransactionRows()
    for rows in (rows_of("1"), rows_of("2", schema=OTHERS), rows_of("3"), rows_of("4", schema=OTHERS)):
        unfinished = journal.add_rows(unfinished, rows)
    left = journal.drop_written_rows(unfinished)
    assert left.bytes == 0
    assert values(left.parts) == []
    entry = seal(
        4, [journal.end_transaction(left, Append((), checkpoint(8)))], (), checkpoint(7), sealed_at=1
    )
    assert entry.transactions == 1
    assert entry.commit_times is not None
    assert {schema.table for schema in entry.schemas.values()} == {ITEMS, OTHERS.table}


def test_rows_of_a_scan_are_kept_and_withdrawn_like_those_of_a_transaction() -> None:
    begins = replace(chunk_of([], first=False, number=1, scn=9), begins_scan=True)
    chunks = [
        chunk_of([(text, 1, "a")], first=False, number=n, scn=9 + n) for n, text in ((1, "x"), (2, "y"))
    ]
    unfinished = journal.add_rows(OpenTransactionRows(), AppendRows((begins, *chunks)))
    end = Append((), checkpoint(11))
    (table,) = tables_of(SEGMENT, journal.end_transaction(unfinished, end).parts)
    assert table.rows["__op"].to_pylist() == ["t", "r", "r"]
    assert table.rows["__scn"].to_pylist() == [9, 10, 11]
    assert table.rows["value"].to_pylist() == [None, "x", "y"]
    assert None not in table.rows["__chunk"].to_pylist()
    left = journal.drop_written_rows(unfinished)
    assert left.bytes == 0
    assert values(left.parts) == []
    entry = seal(4, [journal.end_transaction(left, end)], (), checkpoint(8), sealed_at=1)
    assert [(chunk.scn, chunk.rows) for chunk in entry.chunks] == [(9, 0), (10, 1), (11, 1)]
    withdrawn = replace(end, withdrawn=frozenset({ITEMS}))
    assert journal.end_transaction(left, withdrawn).parts == ()


def test_a_table_that_is_withdrawn_has_nothing_of_the_transaction_in_the_segment() -> None:
    unfinished = journal.add_rows(OpenTransactionRows(), rows_of("1"))
    unfinished = journal.add_rows(unfinished, rows_of("2", schema=OTHERS))
    end = Append((), checkpoint(8), withdrawn=frozenset({ITEMS}))
    ended = journal.end_transaction(unfinished, end)
    assert values(ended.parts) == ["2"]
    ahead = [
        EarlyFile(file_of("0", KEYED)),
        EarlyFile(file_of("1", OTHERS)),
        EarlyFile(file_of("2", KEYED), scn=9),
    ]
    files = tuple(each.file for each in ahead)
    later = Append(rows_of("3").parts, checkpoint(9))
    assert files_of(ahead, (), [ended, later]) == files[1:]
    # A later transaction's withdrawal isn't about files that were written ahead of the first one's end.
    first = journal.end_transaction(unfinished, Append((), checkpoint(8)))
    assert files_of(ahead, (), [first, end]) == (files[0], files[2], files[1])


# What's written ahead of its segment's end


@given(
    st.lists(
        st.sampled_from(["changes", "newer", "others", "chunk", "later chunk", "many", "anew", "ahead"]),
        max_size=25,
    )
)
@example(["changes", "newer", "chunk", "ahead"])
def test_what_is_written_ahead_makes_no_difference_to_what_is_in_a_segment(steps: list[str]) -> None:
    """The rows of each version and kind in their order, these in theirs, and the entry, with any rows that a new
    generation leaves out."""
    appends, scn, mirrors = [Append((), checkpoint(9))], 9, {ITEMS: Filling(9)}
    small = journal.add_append(None, appends[0], BEFORE, 0.0)
    ahead: list[EarlyFile] = []
    rows: dict[File, pa.Table] = {}

    def written(parts: Iterable[ChangePart | ChunkPart]) -> list[File]:
        tables = tables_of(SEGMENT, parts)
        files = [file_of(str(len(rows) + n), table.schema, table.kind) for n, table in enumerate(tables)]
        rows.update(zip(files, (table.rows for table in tables), strict=True))
        return files

    for step in steps:
        scn += 1
        match step:
            case "changes" | "newer" | "others" | "many":
                schema = {"newer": NEWER, "others": OTHERS}.get(step, KEYED)
                new = [Change(0, None, (f"{scn}/{n}", n, "a")) for n in range(9 if step == "many" else 1)]
                append = Append((part_of(new, schema, scn),), checkpoint(scn, mirrors=mirrors))
            case "chunk" | "later chunk":
                chunk = chunk_of([(f"{scn}", scn, "a")] * 5, first=step == "chunk", number=scn, scn=scn)
                append = Append((chunk,), checkpoint(scn, mirrors=mirrors))
            case "anew":
                mirrors = {ITEMS: Filling(scn)}
                append = Append((), checkpoint(scn, mirrors=mirrors))
            case _:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(journal, "AHEAD", 100)
                    small, parts = journal.split_early_parts(small)
                at = small.appends[-1].checkpoint.scn
                ahead += [EarlyFile(file, at) for file in written(parts)]
                continue
        appends.append(append)
        small = journal.add_append(small, append, BEFORE, 0.0)

    def by_file(tables: Iterable[tuple[str, FileKind, pa.Table]]) -> dict[tuple[str, FileKind], list[Any]]:
        found: dict[tuple[str, FileKind], list[Any]] = {}
        for version, kind, table in tables:
            found.setdefault((version, kind), []).extend(table.to_pylist())
        return found

    tables = tables_of(SEGMENT, journal.parts_of_appends(appends))
    expected = by_file((each.schema.version, each.kind, each.rows) for each in tables)
    rest = written(journal.parts_of_appends(small.appends))
    files = files_of(ahead, rest, small.appends)
    found = by_file((file.version, file.kind, rows[file]) for file in files)
    assert found == expected
    assert list(found) == list(expected), "the order of the stream"
    whole, lean = (seal(4, each, (), BEFORE, sealed_at=1) for each in (appends, small.appends))
    assert lean == whole
    assert small.bytes == sum(of_part(part) for append in appends for part in append.parts)


def test_only_what_is_worth_a_file_is_written_ahead() -> None:
    large = chunk_of([("x" * journal.AHEAD, 1, "a")], first=True, scn=6)
    few = part_of([Change(0, None, ("1", 1, "a"))], KEYED, 7)
    before, none = journal.split_early_parts(waiting((1.0, Append((few,), checkpoint(7)))))
    assert (none, before.appends) == ([], (Append((few,), checkpoint(7)),))
    after, parts = journal.split_early_parts(waiting((1.0, Append((large, few), checkpoint(7)))))
    assert parts == [large]
    assert [of_part(part) for part in after.appends[0].parts] == [0, of_part(few)]
    assert after.bytes == of_part(large) + of_part(few)
    assert journal.split_early_parts(after) == (after, [])


# Protected columns

GUARDED = Protection(
    Secret("s" * 16),
    (ProtectionRule(TableFilter((r"shop\.items",)), ("value",), Treatment.EXCLUDE),),
)
STORED = TableSchema(ITEMS, COLUMNS[1:], key=(1, 0))


def test_no_file_of_any_kind_has_a_protected_column() -> None:
    """Changes with what updates found, chunks of a first and of a later snapshot, rows of a verification."""
    changes = [Change(0, None, ("planted", 1, "a")), Change(1, ("planted", 2, "b"), ("planted", 2, "b"))]
    rows: list[Row] = [("planted", 3, "c")]
    read = replace(chunk_of(rows, first=False), verifies=True)
    parts: list[ChangePart | ChunkPart] = [part_of(changes, KEYED), chunk_of(rows, first=True), read]
    parts.append(chunk_of(rows, first=False))
    rules = (LakeRule(TableFilter((".*",)), before_images=True),)
    tables = journal.segment_tables(SEGMENT, parts, rules, GUARDED)
    assert {each.kind for each in tables} == set(FileKind)
    assert {each.schema for each in tables} == {STORED}
    for each in tables:
        assert "value" not in each.rows.schema.names
        assert "planted" not in str(each.rows.to_pylist())
        assert each.rows.schema.names[-1 if each.kind is FileKind.ROWS else -2] == "code"
    assert "b" in tables[0].rows["__op"].to_pylist()


def test_an_entry_names_what_readers_find_and_keeps_what_capture_knows() -> None:
    part = part_of([Change(0, None, ("planted", 1, "a"))], KEYED)
    constant = ConstantColumn(COLUMNS[0], "planted")
    other = ConstantColumn(COLUMNS[1], "7")
    alteration = Alteration(KEYED, "ALTER TABLE", ColumnChanges(added=(constant, other)))
    sealed = replace(checkpoint(3), schemas={ITEMS: KEYED})
    append = Append((part,), sealed, alterations=(Altered(3, alteration),))
    entry = journal.seal(1, [append], (), None, 5, GUARDED)
    assert entry.checkpoint.schemas == {ITEMS: KEYED}
    assert entry.stored_schemas == {ITEMS: STORED}
    assert entry.schemas.keys() == {KEYED.version, STORED.version}
    (altered,) = entry.alterations
    assert altered.alteration.schema == STORED
    assert altered.alteration.changes.added == (other,)
    text = manifest.to_json(entry, "journal")
    assert "planted" not in text
    assert manifest.from_json(text, "journal", entry.schemas.__getitem__) == entry
    plain = seal(1, [Append((part,), sealed)], (), None, 5)
    assert plain.stored_schemas == {ITEMS: KEYED}
    formats = [json.loads(manifest.to_json(each, "journal"))["format"] for each in (plain, entry)]
    assert formats == [manifest.FORMAT, manifest.PROTECTED_FORMAT]
