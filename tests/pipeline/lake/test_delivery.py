"""Batches, and the schemas that the lake takes on."""

from dataclasses import replace

import pytest

from pipeline.config.lake_types import LakeType, LakeTypeRule, form_by_rules
from pipeline.config.table_rules import SchemaChanges
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.change_rows import changes_schema
from pipeline.journal.entry import CommitTimes, Entry, File, FileKind, SealedChunk
from pipeline.lake.batch import (
    DeliveryStop,
    Generation,
    LakeTableState,
    Pieces,
    missing_pieces,
    next_batch,
    reported_segment,
)
from pipeline.lake.delivery import accept_batch
from pipeline.lake.files.parquet_files import Rewrite, Stored, fit
from pipeline.lake.files.value_conversion import ValueRefused
from pipeline.lake.tables.column_changes import Step
from pipeline.lake.tables.columns import LakeColumn, columns
from pipeline.lake.tables.tier import Tier
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from pipeline.snapshot.snapshot import ChunkId
from pipeline.types.column_types import ColumnType, Date, Geometry, Integer, Text

INT = Integer(8, unsigned=False)
ID = Column("id", INT, False)
V1 = TableSchema(TableId("shop", "orders"), (ID, Column("note", Text("utf8mb4"), True)), (0,))
V2 = replace(V1, columns=(*V1.columns, Column("added", INT, True)))
BAD = replace(V1, columns=(ID,))
ITEMS = replace(V1, table=TableId("shop", "items"))
MIRRORED: dict[TableId, Mirror] = {V1.table: Ready(0)}


def entry(
    segment: int,
    *schemas: TableSchema,
    kind: FileKind = FileKind.CHANGES,
    size: int = 10,
    mirror: Mirror | None = None,
) -> Entry:
    """A segment with a file of each of these versions, the last of which holds at its end (V1 without any)."""
    files = tuple(File(f"{s.version}.{kind}", s.table, s.version, kind, 5, size, "", False) for s in schemas)
    times = CommitTimes(segment, segment + 1, (segment, segment + 1)) if schemas else None
    holding = {V1.table: V1} | {schema.table: schema for schema in schemas}
    checkpoint = Checkpoint(GtidSet(), segment, holding, {V1.table: mirror} if mirror else {})
    return Entry(
        segment,
        files,
        segment,
        segment,
        1,
        times,
        (),
        checkpoint,
        {s.version: s for s in schemas},
        10 * segment,
    )


def changelog(schema: TableSchema) -> tuple[LakeColumn, ...]:
    """The columns of a changelog that was made for this schema."""
    return columns(schema, Tier.CHANGELOG)


def test_a_batch_takes_segments_until_it_is_full_and_no_more() -> None:
    entries = iter([entry(4, V1), entry(5), entry(6, V1, ITEMS), entry(7, V1)])
    batch = next_batch(entries, 30)
    assert (batch.after, batch.through) == (3, 6)
    assert [piece.segment for piece in batch.tables[V1.table].changes] == [4, 6]
    assert [piece.place for piece in batch.tables[ITEMS.table].changes] == [1]
    assert batch.commit_times == (4, 5, 6, 7)
    assert batch.newest == 7
    assert batch.sealed == {4: 40, 5: 50, 6: 60}
    assert next(entries).segment == 7


def test_a_lake_without_tables_says_less_than_one_whose_first_batch_came() -> None:
    assert reported_segment([]) == reported_segment([LakeTableState()]) == -1
    assert reported_segment([LakeTableState(), LakeTableState(V1)]) == 0
    assert reported_segment([LakeTableState(V1, after=3), LakeTableState(V1, after=7)]) == 7


RESERVED = replace(V1, columns=(ID, Column("__op", Text("utf8mb4"), True)))


def test_a_generation_begins_with_no_name_that_the_lake_refuses_before_the_stream_proves_it() -> None:
    """A recaptured table has its schema of before the stop until then, and that may be why it stopped."""

    def begins(*entries: Entry) -> list[tuple[int, TableSchema]]:
        found = next_batch(entries).generations.get(V1.table, ())
        return [(each.segment, each.schema) for each in found]

    def holding(schema: TableSchema, segment: int, *, unproven: bool) -> Entry:
        at = entry(segment, mirror=Filling(7))
        doubtful = frozenset({V1.table} if unproven else ())
        return replace(at, checkpoint=replace(at.checkpoint, schemas={V1.table: schema}, unproven=doubtful))

    stale = holding(RESERVED, 1, unproven=True)
    assert begins(stale) == []
    assert begins(stale, holding(RESERVED, 2, unproven=True)) == []
    assert begins(stale, holding(V1, 2, unproven=False), entry(3, V1, mirror=Filling(7))) == [(2, V1)]
    assert begins(stale, holding(RESERVED, 2, unproven=False)) == [(2, RESERVED)]
    assert begins(holding(V1, 1, unproven=True)) == [(1, V1)]
    with_rows = entry(1, RESERVED, kind=FileKind.ROWS, mirror=Filling(7))
    with_rows = replace(with_rows, checkpoint=replace(with_rows.checkpoint, unproven=frozenset({V1.table})))
    assert begins(with_rows) == [(1, RESERVED)]


def test_what_is_there_is_not_taken_again() -> None:
    batch = next_batch([entry(1, V1), entry(2, V1, kind=FileKind.ROWS), entry(3, V1, kind=FileKind.ROWS)])
    left = missing_pieces(LakeTableState(V1, changes=1, rows=2), V1.table, batch)
    assert [piece.segment for piece in (*left.changes, *left.rows)] == [3]


def test_a_stopped_table_comes_back_with_a_generation_that_begins_behind_its_stop() -> None:
    """What came while it was stopped isn't taken, whatever it is; nor does an older generation bring it back."""
    stopped = LakeTableState(
        V1, since=1, columns=changelog(V1), changes=1, rows=1, generation=0, stopped=DeliveryStop("so", 3)
    )
    retyped = replace(V1, columns=(ID, Column("note", INT, True)))
    older = [entry(4, BAD, mirror=Ready(2)), entry(5, V2, kind=FileKind.ROWS, mirror=Ready(2))]
    assert next_batch(older).resumed(V1.table, stopped) is None
    batch = next_batch(
        [
            entry(4, BAD),
            entry(5, V2, kind=FileKind.ROWS),
            entry(6, retyped, kind=FileKind.ROWS, mirror=Filling(5)),
            entry(7, retyped, mirror=Filling(5)),
        ]
    )
    assert batch.resumed(V1.table, stopped) == Generation(5, 6, retyped, ready=False)
    assert batch.resumed(V1.table, replace(stopped, stopped=None)) is None
    todo = accept_batch(stopped, V1.table, batch)
    assert (todo.reason, todo.generation, todo.schema, todo.through) == ("", 5, retyped, 7)
    assert [piece.segment for piece in (*todo.pieces.rows, *todo.pieces.changes)] == [6, 7]
    names = [column.name for column in todo.plan.after]
    assert "note" in names and "note__until_6" in names, "the history keeps its values"
    # Behind a crash its mirror has the generation, and the stop isn't taken back yet.
    again = replace(stopped, schema=retyped, since=6, columns=todo.plan.after, generation=5, mirror_since=6)
    assert accept_batch(again, V1.table, batch).reason == ""
    assert [piece.segment for piece in missing_pieces(again, V1.table, batch).changes] == [7]


def test_a_batch_ends_for_a_table_before_the_segment_that_it_cannot_take() -> None:
    entries = [entry(1, V1), entry(2, V2), entry(3, V2, BAD), entry(4, V1)]
    batch = next_batch([replace(e, checkpoint=replace(e.checkpoint, mirrors=MIRRORED)) for e in entries])
    todo = accept_batch(LakeTableState(), V1.table, batch)
    assert (todo.schema, todo.since, todo.through) == (V2, 2, 2)
    assert todo.steps == (Step(1, V1, begins=True), Step(2, V2))
    assert [piece.segment for piece in todo.pieces.changes] == [1, 2]
    assert todo.reason.startswith("from segment 3 on: column 'note' of shop.orders was dropped or renamed")


def test_rows_that_lack_columns_are_taken_and_make_the_table_partial() -> None:
    lacking = entry(3, V1, ITEMS)
    files = (replace(lacking.files[0], absent=True), lacking.files[1])
    batch = next_batch([entry(1, V1), entry(2, V1), replace(lacking, files=files), entry(4, V1, ITEMS)])
    todo = accept_batch(LakeTableState(), V1.table, batch)
    assert (todo.partial, todo.through, todo.reason) == (True, 4, "")
    assert [piece.segment for piece in todo.pieces.changes] == [1, 2, 3, 4]
    # Also behind a schema that came with a later segment, as it's found after a crash in between.
    assert accept_batch(LakeTableState(V1, since=4), V1.table, batch).partial
    assert accept_batch(LakeTableState(V1, partial=True), V1.table, next_batch([entry(1, V1)])).partial
    assert not accept_batch(LakeTableState(), ITEMS.table, batch).partial


def test_files_with_an_older_schema_that_come_again_are_known_as_older() -> None:
    there = LakeTableState(V2, since=2, columns=changelog(V2), generation=0)
    batch = next_batch([entry(1, V1), entry(2, V1, V2)])
    assert accept_batch(there, V1.table, batch).reason == ""
    again = next_batch([entry(1, V1), entry(2, V1, V2), entry(3, V1)])
    assert accept_batch(there, V1.table, again).reason.startswith("from segment 3 on: column 'added'")


def test_the_version_of_a_first_snapshots_rows_counts_in_the_order_of_the_stream() -> None:
    first, second = entry(1, V1, kind=FileKind.ROWS), entry(1, V2)
    both = replace(second, files=(*first.files, *second.files), schemas={**first.schemas, **second.schemas})
    todo = accept_batch(LakeTableState(), V1.table, next_batch([both]))
    assert (todo.schema, todo.reason) == (V2, "")


def test_an_empty_table_gets_its_mirror() -> None:
    todo = accept_batch(LakeTableState(), V1.table, next_batch([entry(1, mirror=Ready(0))]))
    assert (todo.schema, todo.steps, todo.generation) == (V1, (Step(1, V1, begins=True),), 0)
    assert todo.pieces == Pieces()
    assert accept_batch(LakeTableState(), ITEMS.table, next_batch([entry(1)])).schema is None


def test_a_mirror_that_begins_anew_takes_any_schema_and_no_rows_of_before() -> None:
    rows = FileKind.ROWS
    entries = [
        entry(1, V1, kind=rows, mirror=Filling(5)),
        entry(2, V1, BAD, mirror=Filling(5)),
        entry(3, BAD, V1, mirror=Filling(30)),
        entry(4, V1, kind=rows, mirror=Ready(30)),
        entry(5, V2, kind=rows, mirror=Ready(70)),
    ]
    first, second, third = next_batch(entries), next_batch(entries[2:]), next_batch(entries[4:])
    assert [each.through for each in (first, second, third)] == [2, 4, 5], (
        "what was there ends with its batch"
    )
    assert [each.generations[V1.table] for each in (first, second, third)] == [
        (Generation(5, 1, V1, ready=False),),
        (Generation(30, 3, V1, ready=False),),
        (Generation(70, 5, V2),),
    ]
    # Within the generation that it had the table stops, since nothing said what became of its rows.
    stopped = accept_batch(LakeTableState(), V1.table, first)
    assert (stopped.through, stopped.generation) == (1, 5)
    there = LakeTableState(V1, since=1, columns=changelog(V1), changes=2, rows=2, generation=5)
    todo = accept_batch(there, V1.table, second)
    assert (todo.reason, todo.generation, todo.schema, todo.since) == ("", 30, V1, 3)
    assert [piece.segment for piece in todo.pieces.rows] == [4]
    assert [piece.segment for piece in todo.pieces.changes] == [3, 3]


@pytest.mark.parametrize("first", [True, False], ids=["with rows of before", "without"])
@pytest.mark.parametrize("last", [Text("utf8mb4"), Date()], ids=["as before", "a third type"])
def test_a_segment_may_bring_types_between_two_that_have_nothing_in_common(
    last: ColumnType, *, first: bool
) -> None:
    """Each statement begins a generation, and only the last one of the segment counts."""
    between, ends = (replace(V1, columns=(ID, Column("note", type_, True))) for type_ in (INT, last))
    there = LakeTableState(V1, since=1, columns=changelog(V1), changes=1, rows=1, generation=5)
    versions = [V1, between, ends] if first else [between, ends]
    todo = accept_batch(there, V1.table, next_batch([entry(2, *versions, mirror=Filling(30))]))
    assert (todo.reason, todo.through, todo.generation, todo.schema) == ("", 2, 30, ends)
    now = {each.column.name: each.column.type.lower() for each in todo.plan.columns}
    of = columns(ends, Tier.CHANGELOG)[-1].type.lower()
    assert {name: type_ for name, type_ in now.items() if name.startswith("note")} == {
        "note": of,
        "note__until_2": "string",
        "note__until_2_": "bigint",
    }
    stored = {name: Stored(name, type_) for name, type_ in now.items()}
    for schema, into in ((between, "note__until_2_"), (ends, "note")):
        fitting = fit(changes_schema(schema), stored)
        names = fitting.schema.names if isinstance(fitting, Rewrite) else changes_schema(schema).names
        assert names[-1] == into


def test_a_generation_is_complete_with_its_batch_only_where_no_snapshot_fills_it() -> None:
    truncated = (Altered(30, Alteration(V1, "TRUNCATE TABLE", emptied=True)),)
    emptied = replace(entry(3, V1, mirror=Ready(30)), alterations=truncated)
    filled = entry(4, V1, kind=FileKind.ROWS, mirror=Ready(30))
    filling = replace(emptied, checkpoint=entry(3, V1, mirror=Filling(30)).checkpoint)
    begun, superseded = entry(3, mirror=Filling(30)), entry(4, V1, mirror=Ready(30))
    for shown in (False, True):

        def completes(*entries: Entry, shown: bool = shown) -> bool:
            return next_batch(list(entries)).completes(V1.table, 30, shown=shown)

        assert completes(emptied)
        assert not completes(filling, filled)
        assert not completes(entry(3, V1, mirror=Filling(30)))
        # Changes have superseded all rows of its snapshot.
        assert not completes(begun, superseded)
        assert completes(begun, entry(4, mirror=Ready(30)))
        # The same in one segment, also after a statement that emptied the table.
        chunk = SealedChunk(ChunkId("s", V1.table, 1), GtidSet(), Coordinates("binlog.000001", 4), 0, 31)
        assert not completes(replace(entry(3, V1, mirror=Ready(30)), chunks=(chunk,)))
        assert not completes(replace(emptied, chunks=(chunk,)))
        assert completes(replace(entry(3, mirror=Ready(30)), chunks=(chunk,)))
        # No snapshot has read it, so it began without a row, unless readers know an earlier generation.
        assert completes(entry(3, V1, mirror=Ready(30))) is not shown


def test_behind_a_crash_the_mirror_may_be_ahead_of_a_batch() -> None:
    there = LakeTableState(V1, since=1, columns=changelog(V1), changes=1, rows=1, generation=30)
    old = next_batch([entry(2, V1, kind=FileKind.ROWS, mirror=Filling(5)), entry(3, V1, mirror=Filling(5))])
    todo = accept_batch(there, V1.table, old)
    assert (todo.generation, todo.reason) == (30, "")
    assert todo.pieces.rows == ()
    assert not old.newly_begun(V1.table, there)
    new = next_batch([entry(4, BAD, mirror=Ready(30)), entry(5, BAD, kind=FileKind.ROWS, mirror=Ready(30))])
    assert not new.newly_begun(V1.table, there)
    assert next_batch([entry(6, mirror=Ready(31))]).newly_begun(V1.table, there)
    assert old.newly_begun(V1.table, LakeTableState())


def test_a_table_without_a_mirror_takes_any_schema_as_long_as_its_columns_keep_their_types() -> None:
    retyped = replace(V1, columns=(ID, Column("Note", INT, True)))
    batch = next_batch([entry(1, V1), entry(2, BAD), entry(3, V2), entry(4, retyped)])
    todo = accept_batch(LakeTableState(), V1.table, batch)
    assert (todo.schema, todo.through) == (V2, 3)
    assert todo.steps == (Step(1, V1), Step(2, BAD), Step(3, V2))
    assert todo.reason.startswith("from segment 4 on: column 'Note' of shop.orders was STRING and is BIGINT")
    # Of two columns that were called note, one behind the other, each keeps what it had.
    names = [each.column.name for each in todo.plan.columns]
    assert names[-4:] == ["id", "note", "added", "note__until_3"]


EXTRA = Column("extra", INT, False)
RENAMED = replace(V1, columns=(ID, replace(V1.columns[1], name="text")))
RENAMING = Alteration(RENAMED, "ALTER TABLE", ColumnChanges((("note", "text"),)))


def altering(segment: int, alteration: Alteration, *schemas: TableSchema) -> Entry:
    """A segment that begins behind a statement."""
    return replace(entry(segment, *schemas, mirror=Ready(0)), alterations=(Altered(segment, alteration),))


def test_a_batch_ends_before_columns_are_altered() -> None:
    emptied = Alteration(V1, "TRUNCATE TABLE", emptied=True)
    entries = [entry(1, V1), altering(2, emptied, V1), altering(3, RENAMING, RENAMED), entry(4, RENAMED)]
    batch = next_batch(entries)
    assert (batch.through, batch.alterations) == (2, {})
    batch = next_batch(entries[2:])
    assert (batch.after, batch.through) == (2, 4)
    assert batch.alterations == {V1.table: (Step(3, RENAMING),)}


def test_what_a_statement_did_comes_before_the_rows_behind_it() -> None:
    there = LakeTableState(
        V1, since=1, mirror_since=1, columns=changelog(V1), changes=2, rows=2, generation=0
    )
    wider = replace(RENAMED, columns=(*RENAMED.columns, Column("n", INT, True)))
    todo = accept_batch(
        there, V1.table, next_batch([altering(3, RENAMING, RENAMED), altering(4, RENAMING, wider)][:1])
    )
    assert (todo.reason, todo.schema, todo.since) == ("", RENAMED, 3)
    assert todo.steps == (Step(3, RENAMING),)
    assert [each.column.name for each in todo.plan.columns][-2:] == ["id", "text"]
    # Without any row behind it as well, and once only.
    alone = next_batch([altering(3, RENAMING)])
    assert accept_batch(there, V1.table, alone).schema == RENAMED
    again = replace(there, schema=RENAMED, since=3, columns=changelog(RENAMED))
    todo = accept_batch(again, V1.table, alone)
    assert (todo.plan.changes, todo.since) == (False, 3)
    assert todo.steps == (Step(3, RENAMING),), "the mirror may not have come so far"
    assert accept_batch(LakeTableState(), V1.table, replace(alone, generations={})).schema is None


def test_columns_that_came_without_a_row_come_with_the_first_one_behind_another_statement() -> None:
    there = LakeTableState(
        V1, since=1, mirror_since=1, columns=changelog(V1), changes=2, rows=2, generation=0
    )
    wider = replace(RENAMED, columns=(*RENAMED.columns, Column("n", INT, True)))
    renaming = replace(RENAMING, schema=wider)
    alone = accept_batch(there, V1.table, next_batch([altering(3, renaming)]))
    assert (alone.schema, [each.column.name for each in alone.plan.columns][-2:]) == (RENAMED, ["id", "text"])
    todo = accept_batch(there, V1.table, next_batch([altering(3, renaming, wider)]))
    assert (todo.schema, todo.steps) == (wider, (Step(3, renaming), Step(3, wider)))
    assert [each.column.name for each in todo.plan.columns][-3:] == ["id", "text", "n"]
    # Also where it's such a column that the statement is about.
    of_it = Alteration(wider, "ALTER TABLE", ColumnChanges((("m", "n"),)))
    assert accept_batch(there, V1.table, next_batch([altering(3, of_it)])).schema == V1


def test_a_segment_of_which_something_cannot_be_taken_is_not_begun() -> None:
    there = LakeTableState(V1, since=1, columns=changelog(V1), changes=2, rows=2, generation=0)
    retyped = replace(RENAMED, columns=(ID, Column("text", INT, True)))
    todo = accept_batch(there, V1.table, next_batch([altering(3, RENAMING, retyped)]))
    assert (todo.schema, todo.since, todo.steps) == (V1, 1, ())
    assert todo.reason.startswith("from segment 3 on: column 'text' of shop.orders was")


@pytest.mark.parametrize(
    ("entries", "additive", "refuse"),
    [
        ([altering(3, RENAMING)], "column 'note' was renamed 'text'", "column 'note' was renamed 'text'"),
        (
            [altering(3, replace(RENAMING, changes=ColumnChanges(dropped=("note",))))],
            "column 'note' was dropped",
            "'note'",
        ),
        (
            [altering(3, replace(RENAMING, changes=ColumnChanges(added=(ConstantColumn(EXTRA, "7"),))))],
            "",
            "column 'extra' was added",
        ),
        ([entry(3, V2, mirror=Ready(0))], "", "columns were added or widened"),
        ([entry(3, BAD, mirror=Ready(3))], "note went", "note went"),
        ([entry(3, replace(V1, columns=V1.columns[::-1], key=(1,)), mirror=Ready(0))], "", ""),
        ([entry(3, V1, mirror=Ready(3))], "", ""),
    ],
)
def test_a_rule_may_want_less_than_what_can_be_done(entries: list[Entry], additive: str, refuse: str) -> None:
    there = LakeTableState(V1, since=1, columns=changelog(V1), changes=2, rows=2, generation=0)
    batch = next_batch(entries)
    assert accept_batch(there, V1.table, batch).reason == ""
    for rule, why in ((SchemaChanges.ADDITIVE, additive), (SchemaChanges.REFUSE, refuse)):
        reason = accept_batch(there, V1.table, batch, rule).reason
        assert why in reason and bool(why) is bool(reason)
        assert not why or f"schema_changes = '{rule}'" in reason
    assert accept_batch(LakeTableState(), V1.table, batch, SchemaChanges.REFUSE).reason == ""


# Types by rule

TINY = Integer(1, unsigned=False)
FLAGGED = replace(V1, columns=(*V1.columns, Column("flag", TINY, True)))


def rule(columns: str, type_: LakeType) -> LakeTypeRule:
    return LakeTypeRule(TableFilter((r"shop\.orders",)), (columns,), type_)


BOOLEAN = (rule("flag.*", LakeType.BOOLEAN),)
IN_LAKE = form_by_rules(BOOLEAN, FLAGGED)


def having(schema: TableSchema, generation: int = 0) -> LakeTableState:
    """What a lake has that took this schema with the first segment."""
    return LakeTableState(schema, 1, 1, changelog(schema), 1, 1, generation)


def test_a_new_table_has_the_types_that_rules_want() -> None:
    batch = next_batch([entry(1, FLAGGED, mirror=Ready(0))])
    todo = accept_batch(LakeTableState(), V1.table, batch, types=BOOLEAN)
    assert todo.schema == IN_LAKE
    assert [piece.schema for piece in todo.pieces.changes] == [IN_LAKE]
    assert todo.plan.after == changelog(IN_LAKE)
    assert {c.name: c.type for c in todo.plan.after}["flag"] == "BOOLEAN"
    assert accept_batch(LakeTableState(), V1.table, batch).schema == FLAGGED
    assert (
        accept_batch(LakeTableState(), ITEMS.table, next_batch([entry(1, ITEMS)]), types=BOOLEAN).schema
        == ITEMS
    )


@pytest.mark.parametrize(("present", "types"), [(FLAGGED, BOOLEAN), (IN_LAKE, ())])
def test_columns_keep_their_types_until_another_generation_begins(
    present: TableSchema, types: tuple[LakeTypeRule, ...]
) -> None:
    wanted = form_by_rules(types, FLAGGED)
    same = [entry(2, FLAGGED, mirror=Ready(0)), entry(3, FLAGGED, kind=FileKind.ROWS, mirror=Ready(0))]
    todo = accept_batch(having(present), V1.table, next_batch(same), types=types)
    assert (todo.schema, todo.reason, todo.steps) == (present, "", ())
    assert [piece.schema for piece in (*todo.pieces.changes, *todo.pieces.rows)] == [present, present]
    begun = [entry(4, FLAGGED, mirror=Filling(4)), entry(5, FLAGGED, kind=FileKind.ROWS, mirror=Filling(4))]
    todo = accept_batch(having(present), V1.table, next_batch(begun), types=types)
    assert (todo.schema, todo.reason, todo.generation) == (wanted, "", 4)
    assert [piece.schema for piece in (*todo.pieces.changes, *todo.pieces.rows)] == [wanted, wanted]
    assert "flag__until_4" in {column.name for column in todo.plan.after}, "its values stay in the changelog"


def test_types_by_rule_are_no_change_of_columns_for_a_rule_that_refuses_these() -> None:
    batch = next_batch([entry(4, FLAGGED, mirror=Filling(4))])
    for present, types in ((IN_LAKE, ()), (FLAGGED, BOOLEAN)):
        todo = accept_batch(having(present), V1.table, batch, SchemaChanges.REFUSE, types)
        assert (todo.reason, todo.schema) == ("", form_by_rules(types, FLAGGED))


def test_a_wider_column_is_set_aside_for_one_that_has_its_type_by_rule() -> None:
    """Else readers would see a DECIMAL, because the live view has the type that holds both."""
    counted = replace(V1, columns=(*V1.columns, Column("n", Integer(8, unsigned=True), True)))
    long, begun = (rule("n", LakeType.LONG),), next_batch([entry(4, counted, mirror=Filling(4))])
    types = {c.name: c.type for c in accept_batch(having(counted), V1.table, begun, types=long).plan.after}
    assert (types["n"], types["n__until_4"]) == ("BIGINT", "DECIMAL(20,0)")
    present = having(form_by_rules(long, counted))
    types = {c.name: c.type for c in accept_batch(present, V1.table, begun).plan.after}
    assert types["n"].upper() == "DECIMAL(20,0)"


def test_a_generation_that_the_changelog_has_begun_keeps_its_types_after_a_crash() -> None:
    begun = next_batch([entry(4, FLAGGED, mirror=Filling(4))])
    there = replace(having(IN_LAKE), since=4, changes=3)
    todo = accept_batch(there, V1.table, begun, types=())
    assert (todo.schema, todo.generation) == (IN_LAKE, 4)
    assert [piece.schema for piece in todo.pieces.changes] == [IN_LAKE]


def test_a_stopped_table_resumes_with_the_types_that_rules_want() -> None:
    there = replace(having(IN_LAKE), stopped=DeliveryStop("a value was refused", 3))
    todo = accept_batch(there, V1.table, next_batch([entry(4, FLAGGED, mirror=Filling(4))]), types=())
    assert (todo.schema, todo.reason) == (FLAGGED, "")


def test_a_type_that_no_longer_fits_its_rule_stops_the_table() -> None:
    wide = replace(FLAGGED, columns=(*V1.columns, Column("flag", INT, True)))
    batch = next_batch([entry(2, wide, mirror=Ready(0))])
    todo = accept_batch(having(IN_LAKE), V1.table, batch, types=BOOLEAN)
    assert todo.through == 1
    assert "lake.types has type = \"boolean\" for column 'flag' of shop.orders" in todo.reason


def with_statement(changes: ColumnChanges, after: TableSchema) -> Entry:
    """A segment that begins with an ALTER TABLE, and has changes after it."""
    made = entry(2, after, mirror=Ready(0))
    return replace(made, alterations=(Altered(2, Alteration(after, "ALTER TABLE", changes)),))


def test_a_renamed_column_keeps_its_type() -> None:
    renamed = replace(FLAGGED, columns=(*V1.columns, Column("on", TINY, True)))
    batch = next_batch([with_statement(ColumnChanges((("flag", "on"),)), renamed)])
    todo = accept_batch(having(IN_LAKE), V1.table, batch, types=BOOLEAN)
    assert todo.reason == ""
    assert todo.schema is not None
    assert {c.name: c.form for c in todo.schema.columns if c.form} == {"on": "boolean"}
    assert {c.name: c.type for c in todo.plan.after}["on"] == "BOOLEAN"


def test_a_new_column_and_its_constant_have_the_type_that_rules_want() -> None:
    column = Column("flag2", TINY, False)
    after = replace(FLAGGED, columns=(*FLAGGED.columns, column))
    for value, text in (("1", "true"), ("0", "false")):
        changes = ColumnChanges(added=(ConstantColumn(column, value),))
        todo = accept_batch(
            having(IN_LAKE), V1.table, next_batch([with_statement(changes, after)]), types=BOOLEAN
        )
        assert todo.schema == form_by_rules(BOOLEAN, after)
        assert isinstance(todo.steps[0].change, Alteration)
        (added,) = todo.steps[0].change.changes.added
        assert (added.value, added.column.form) == (text, "boolean")
    changes = ColumnChanges(added=(ConstantColumn(column, "7"),))
    todo = accept_batch(
        having(IN_LAKE), V1.table, next_batch([with_statement(changes, after)]), types=BOOLEAN
    )
    assert todo.through == 1
    assert todo.reason.startswith(
        "from segment 2 on: a value of column 'flag2' of shop.orders is neither 0 nor 1"
    )


def test_rows_to_be_compared_have_the_types_of_the_lake() -> None:
    batch = next_batch([entry(2, FLAGGED, kind=FileKind.VERIFIED, mirror=Ready(0))])
    todo = accept_batch(having(IN_LAKE), V1.table, batch, types=())
    assert [piece.schema for piece in todo.pieces.verified] == [IN_LAKE]
    todo = accept_batch(having(FLAGGED), V1.table, batch, types=BOOLEAN)
    assert [piece.schema for piece in todo.pieces.verified] == [FLAGGED]


def test_rows_to_be_compared_bring_the_columns_of_a_statement_without_a_change() -> None:
    verified = entry(2, V2, kind=FileKind.VERIFIED, mirror=Ready(0))
    todo = accept_batch(having(V1), V1.table, next_batch([verified]))
    assert (todo.schema, todo.since, todo.steps) == (V2, 2, (Step(2, V2),))
    assert todo.plan.after == changelog(V2)
    # After a crash between the two tables' commits the mirror still needs the step.
    again = accept_batch(replace(having(V2), since=2), V1.table, next_batch([verified]))
    assert (again.schema, again.since, again.steps) == (V2, 2, (Step(2, V2),))


def test_rows_to_be_compared_bring_no_columns_that_the_lake_cannot_have_or_that_are_older() -> None:
    verified = entry(2, V2, kind=FileKind.VERIFIED, mirror=Ready(0))
    refused = accept_batch(having(V1), V1.table, next_batch([verified]), SchemaChanges.REFUSE)
    older = replace(verified, checkpoint=replace(verified.checkpoint, schemas={V1.table: V1}))
    bad = entry(2, BAD, kind=FileKind.VERIFIED, mirror=Ready(0))
    for todo in (
        refused,
        accept_batch(having(V1), V1.table, next_batch([older])),
        accept_batch(having(V1), V1.table, next_batch([bad])),
    ):
        assert (todo.schema, todo.steps, todo.reason, todo.through) == (V1, (), "", 2)


def test_rows_to_be_compared_create_no_table_and_bring_nothing_from_before_a_resumption() -> None:
    unmirrored = entry(2, V2, kind=FileKind.VERIFIED)
    assert accept_batch(LakeTableState(), V1.table, next_batch([unmirrored])).schema is None
    mirrored = entry(2, V2, kind=FileKind.VERIFIED, mirror=Ready(0))
    begun = accept_batch(LakeTableState(), V1.table, next_batch([mirrored]))
    assert (begun.generation, begun.schema) == (0, V2), "a mirror begins with the schema of its segment's end"
    stopped = replace(having(V1), stopped=DeliveryStop("so", 3))
    todo = accept_batch(stopped, V1.table, next_batch([unmirrored, entry(4, V1, mirror=Ready(3))]))
    assert (todo.generation, todo.schema, todo.steps) == (3, V1, ()), "it resumes after them"


def test_a_refused_value_ends_the_batch_before_its_segment() -> None:
    entries = [entry(2, FLAGGED, mirror=Ready(0)), entry(3, FLAGGED, mirror=Ready(0))]
    todo = accept_batch(having(IN_LAKE), V1.table, next_batch(entries), types=BOOLEAN)
    until = todo.until(ValueRefused(3, "it is too large"))
    assert (until.through, until.reason) == (2, "from segment 3 on: it is too large")
    assert [piece.segment for piece in until.pieces.changes] == [2]


def test_a_spatial_key_stops_its_table_if_it_is_to_be_wkb() -> None:
    spatial = replace(V1, columns=(Column("id", Geometry(), False), *V1.columns[1:]))
    batch = next_batch([entry(1, spatial, mirror=Ready(0))])
    todo = accept_batch(LakeTableState(), V1.table, batch, types=(rule("id", LakeType.WKB),))
    assert "column 'id' of shop.orders is in the primary key" in todo.reason
