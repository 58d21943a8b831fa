"""Statements and schemas: mirrors that begin again, and statements that the journal keeps."""

from dataclasses import replace

import pyarrow as pa
import pytest

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator import step as coordinator
from pipeline.coordinator.snapshots.ended_snapshots import SNAPSHOTS_REMEMBERED
from pipeline.coordinator.state import Overlapping
from pipeline.gtid.coordinates import Coordinates
from pipeline.messages.changes import (
    CreationStatements,
    ForeignKeysFollowed,
    MirrorInvalidated,
    SchemasVerified,
    TableStopped,
)
from pipeline.messages.chunks import PlanFailed
from pipeline.messages.journal import Append, ChangePart, StatementPart
from pipeline.messages.row_images import ImageKind
from pipeline.messages.signals import SignalReceived
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column
from pipeline.signals.signal import VerifyTables
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Ready
from pipeline.snapshot.snapshot import SnapshotFailed, SnapshotWaiting
from pipeline.types.column_types import Integer
from tests.pipeline.builders import (
    ITEMS,
    LIMITS,
    ORDERS,
    USERS,
    Capture,
    altered,
    execute,
    gtid,
    gtids,
    insert,
    of,
    part,
    passed,
    planned,
    read,
    statement,
    stop,
    wrote,
)

# Tables whose rows aren't so any more

EMPTIED = MirrorInvalidated(ORDERS.table, "a statement changed it", emptied=True)


def ready() -> Capture:
    """A coordinator with a complete snapshot s1 of ORDERS, whose mirror is ready; its SCN is 2."""
    capture = Capture(ORDERS)
    capture.give(read(capture.begin(ORDERS), 1))
    assert capture.checkpoint.mirrors == {ORDERS.table: Ready(0)}
    return capture


def test_schemas_that_come_at_once_make_one_append() -> None:
    """Each that is new gets a snapshot, and each whose rows can't stay begins again."""
    checkpoint = Checkpoint(
        gtids("a:1-5"), schemas={ORDERS.table: ORDERS}, mirrors={ORDERS.table: Ready(0)}, scn=7
    )
    state, _ = coordinator.start(checkpoint, LIMITS, Overlapping(4), snapshot_mode=SnapshotMode.INITIAL)
    again = MirrorInvalidated(ORDERS.table, "column 'note' was dropped or renamed")
    _, orders = coordinator.step(state, SchemasVerified((ITEMS, altered(ORDERS), USERS), (again,)))
    [append] = of(Append, orders)
    after = append.checkpoint
    assert after.schemas == {each.table: each for each in (altered(ORDERS), ITEMS, USERS)}
    assert after.mirrors.keys() == after.schemas.keys()
    assert all(isinstance(mirror, Filling) for mirror in after.mirrors.values())
    assert [set(snapshot.tables) for snapshot in after.snapshots] == [
        {ORDERS.table},
        {ITEMS.table, USERS.table},
    ]


def test_a_column_with_a_constant_begins_again_what_is_being_filled() -> None:
    """A mirror that's complete gets it from the alteration."""
    flag = ConstantColumn(Column("flag", Integer(4, unsigned=False), False), "7")
    schema = replace(ORDERS, columns=(*ORDERS.columns, flag.column))
    adding = Alteration(schema, "ALTER TABLE", ColumnChanges(added=(flag,)))
    complete, filling = ready(), Capture(ORDERS)
    complete.give(replace(statement("a:6", 20, ORDERS), alterations=(adding,)))
    assert complete.checkpoint.mirrors == {ORDERS.table: Ready(0)}
    assert complete.checkpoint.schemas == {ORDERS.table: schema}
    filling.begin(ORDERS)
    assert filling.checkpoint.mirrors == {ORDERS.table: Filling(0)}
    filling.give(replace(statement("a:6", 20, ORDERS), alterations=(adding,)))
    assert filling.checkpoint.mirrors == {ORDERS.table: Filling(2)}
    [snapshot] = filling.checkpoint.snapshots
    assert snapshot.tables == {ORDERS.table: SnapshotWaiting()}


def test_what_a_statement_made_of_a_table_goes_out_with_it() -> None:
    """Names are known from here on, though not proven; a table's last row is followed by the word that it's empty."""
    capture = ready()
    renamed = Alteration(altered(ORDERS), "ALTER TABLE", ColumnChanges((("a", "b"),)))
    capture.give(replace(statement("a:6", 20, ORDERS), alterations=(renamed,)))
    [append] = capture.appends[-1:]
    assert (append.alterations, append.parts) == ((Altered(3, renamed),), ())
    assert append.checkpoint.schemas == {ORDERS.table: altered(ORDERS)}
    assert append.checkpoint.unproven == {ORDERS.table}
    emptied = Alteration(altered(ORDERS), "TRUNCATE TABLE", emptied=True)
    capture.give(replace(statement("a:7", 30, ORDERS), restarted=(EMPTIED,), alterations=(emptied,)))
    [append] = capture.appends[-1:]
    [said] = append.parts
    assert isinstance(said, ChangePart)
    assert (said.changes.schema, said.first_scn) == (altered(ORDERS), 4)
    assert said.transactions.gtid(0) == gtid("a:7")
    assert said.changes.images["kind"].to_pylist() == [ImageKind.EMPTIED]
    assert said.changes.rows.to_pylist() == [dict.fromkeys(altered(ORDERS).arrow.names)]
    assert append.checkpoint.mirrors == {ORDERS.table: Ready(4)}, (
        "nothing up to there counts, itself included"
    )


def test_an_empty_table_that_gets_another_schema_goes_out_as_still_empty() -> None:
    """Another generation begins with the schema, and no statement that empties the table comes with it."""
    capture, schema = ready(), altered(ORDERS)
    emptied = Alteration(ORDERS, "DROP TABLE", emptied=True)
    capture.give(replace(statement("a:6", 20, ORDERS), restarted=(EMPTIED,), alterations=(emptied,)))
    capture.give(statement("a:7", 30, ORDERS), SchemasVerified((schema,), (EMPTIED,)))
    [append] = capture.appends[-1:]
    since = append.checkpoint.mirrors[ORDERS.table].since
    assert append.checkpoint.mirrors == {ORDERS.table: Ready(since)}
    still_empty = Alteration(schema, "CREATE TABLE", emptied=True)
    assert (append.alterations, append.parts) == ((Altered(since, still_empty),), ())
    # One that isn't empty is read again.
    again = replace(EMPTIED, emptied=False)
    capture.give(statement("a:8", 40, ORDERS), SchemasVerified((ORDERS,), (again,)))
    assert isinstance(capture.checkpoint.mirrors[ORDERS.table], Filling)
    assert capture.appends[-1].alterations == ()


def test_a_schema_that_comes_within_a_transaction_goes_out_as_still_empty_with_its_end() -> None:
    capture, schema = ready(), altered(ORDERS)
    emptied = Alteration(ORDERS, "DROP TABLE", emptied=True)
    capture.give(replace(statement("a:6", 20, ORDERS), restarted=(EMPTIED,), alterations=(emptied,)))
    capture.give(statement("a:7", 30, ORDERS), part("a:8", insert(1, ITEMS)))
    sent = len(capture.appends)
    capture.give(SchemasVerified((schema,), (EMPTIED,)), part("a:8", insert(1, schema)))
    assert len(capture.appends) == sent
    capture.give(passed(40, wrote("a:8", insert(2, schema))))
    [append] = capture.appends[sent:]
    since = append.checkpoint.mirrors[ORDERS.table].since
    assert append.checkpoint.mirrors == {ORDERS.table: Ready(since)}
    assert append.alterations == (Altered(since, Alteration(schema, "CREATE TABLE", emptied=True)),)
    assert append.checkpoint.scn == since + 1, "the transaction's rows count"


def test_the_checkpoint_has_the_foreign_keys_that_are_followed() -> None:
    capture = Capture(ORDERS)
    keys = (ForeignKey(ITEMS.table, ORDERS.table, ("id",), deletes=True, updates=True),)
    capture.give(ForeignKeysFollowed(keys))
    assert capture.appends[-1].checkpoint.foreign_keys == keys


def test_a_table_without_a_key_that_is_emptied_has_no_complete_mirror() -> None:
    capture, keyless = ready(), replace(ORDERS, key=())
    again = MirrorInvalidated(ORDERS.table, "its key is another one")
    capture.give(statement("a:6", 20, ORDERS), SchemasVerified((keyless,), (again,)))
    assert capture.checkpoint.mirrors == {ORDERS.table: Filling(3)}
    capture.give(replace(statement("a:7", 30, ORDERS), restarted=(EMPTIED,)))
    assert isinstance(capture.checkpoint.mirrors[ORDERS.table], Filling)


# Tables that have stopped


@pytest.mark.parametrize("emptied", [True, False])
def test_a_stopped_table_begins_no_generation_by_itself(emptied: bool) -> None:
    """The coordinator stopped it, so that the verifier still says what statements do to it. Its changes are dropped.

    A generation would show readers a table that misses them.
    """
    complete, filling = ready(), stopped_by_a_chunk()
    complete.give(TableStopped(ORDERS.table, "a row of it can't be told apart"))
    for stopped in (complete, filling):
        before, sent = stopped.checkpoint, len(stopped.parts)
        assert ORDERS.table in before.stopped
        again = MirrorInvalidated(ORDERS.table, "a statement changed it", emptied=emptied)
        taking = Alteration(altered(ORDERS), "TRUNCATE TABLE", emptied=emptied)
        stopped.give(
            replace(statement("a:7", 20, ORDERS), restarted=(again,), alterations=(taking,)),
            again,
            SchemasVerified((altered(ORDERS),), (again,)),
            replace(passed(30, wrote("a:8", insert(9, ITEMS))), restarted=(again,)),
        )
        after = stopped.checkpoint
        assert (after.mirrors, after.snapshots) == (before.mirrors, before.snapshots)
        assert [part.changes.schema for part in stopped.parts[sent:] if isinstance(part, ChangePart)] == [
            ITEMS
        ]
        assert not any(append.alterations for append in stopped.appends)


def stopped_by_a_chunk() -> Capture:
    """A coordinator that has stopped its table, by a row of a chunk that was to fill the mirror."""
    capture = Capture(ORDERS)
    chunk = read(capture.begin(ORDERS), 1, 2, high=10)
    capture.give(replace(chunk, rows=chunk.rows.set_column(0, "id", pa.array([1, None], pa.int64()))))
    return capture


# Tables that couldn't be read

VERIFIED = SchemasVerified((ORDERS,), ())
NO_TABLE = PlanFailed(ORDERS.table, "it doesn't exist")


def unreadable() -> Capture:
    """A coordinator whose table was to be read again behind a statement, and wasn't there."""
    capture = ready()
    again = MirrorInvalidated(ORDERS.table, "a statement changed it")
    capture.give(replace(statement("a:6", 20, ORDERS), restarted=(again,)), NO_TABLE)
    assert isinstance(capture.table(ORDERS, f"restart-3-{ORDERS.table}"), SnapshotFailed)
    return capture


def test_a_table_that_could_not_be_read_is_read_again_behind_the_next_statement() -> None:
    capture = unreadable()
    capture.give(statement("a:7", 30, ORDERS), VERIFIED)
    [again] = [snapshot for snapshot in capture.checkpoint.snapshots if not snapshot.ended]
    assert again.tables == {ORDERS.table: SnapshotWaiting()}
    assert isinstance(capture.checkpoint.mirrors[ORDERS.table], Filling)


def test_a_table_that_could_not_be_read_is_not_read_again_without_a_statement() -> None:
    capture = unreadable()
    capture.give(VERIFIED, NO_TABLE)  # the statement before, which may have created it in the meantime
    before = capture.checkpoint
    capture.give(VERIFIED)
    assert capture.checkpoint == before


def test_what_somebody_stopped_stays_stopped() -> None:
    capture = ready()
    again = MirrorInvalidated(ORDERS.table, "a statement changed it")
    capture.give(replace(statement("a:6", 20, ORDERS), restarted=(again,)), stop("s2", ORDERS))
    capture.give(statement("a:7", 30, ORDERS), VERIFIED)
    assert [snapshot for snapshot in capture.checkpoint.snapshots if not snapshot.ended] == []


def test_what_somebody_stopped_stays_stopped_however_many_snapshots_came_after_it() -> None:
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("s1", ORDERS), stop("s2", ORDERS))
    for number in range(SNAPSHOTS_REMEMBERED + 3):
        capture.give(execute(f"i{number}", ITEMS), planned(ITEMS, end=None))
    remembered = [snapshot.id for snapshot in capture.checkpoint.snapshots]
    assert remembered == ["s1", *(f"i{number}" for number in range(3, SNAPSHOTS_REMEMBERED + 3))]
    capture.give(statement("a:7", 30, ORDERS), VERIFIED)
    assert [snapshot.id for snapshot in capture.checkpoint.snapshots] == remembered
    capture.give(execute("s3", ORDERS), planned(ORDERS, end=None), planned(ORDERS, end=None, high=30))
    assert isinstance(capture.checkpoint.mirrors[ORDERS.table], Ready)
    capture.give(execute("i13", ITEMS), planned(ITEMS, end=None, high=30))
    assert "s1" not in [snapshot.id for snapshot in capture.checkpoint.snapshots], "it says nothing any more"


def test_what_somebody_stopped_stays_stopped_also_after_a_verification() -> None:
    """The verification says of the table that its mirror isn't complete."""
    capture = Capture(ORDERS, ITEMS)
    capture.give(execute("i1", ITEMS), planned(ITEMS, end=None))
    capture.give(execute("s1", ORDERS), stop("s2", ORDERS))
    capture.give(SignalReceived(VerifyTables("v1", TableFilter((r"shop\..*",)))), planned(ITEMS, end=None))
    assert isinstance(capture.table(ORDERS, "v1"), SnapshotFailed)
    capture.give(statement("a:7", 30, ORDERS), VERIFIED)
    assert [snapshot.id for snapshot in capture.checkpoint.snapshots] == ["i1", "s1", "v1"]


# Statements that the journal keeps


def test_a_statement_goes_out_at_its_place() -> None:
    dropped = SchemaStatement(
        SchemaObject.DROPPED_TABLE, "shop", (ORDERS.table,), ("orders",), "DROP TABLE orders"
    )
    begins = Coordinates("binlog.000001", 4)
    capture = ready()
    passing = statement("a:6", 20, ORDERS)
    capture.give(
        replace(passing, kept=(dropped, dropped), begins=begins, server=5, commit_time=20, original_time=10)
    )
    [append] = capture.appends[-1:]
    assert append.statements == (StatementPart(3, f"{gtid('a:6')}", 10, begins, 5, dropped),) * 2
    assert append.checkpoint.scn == 3
    capture.give(statement("a:7", 30, ORDERS))
    assert capture.appends[-1].statements == ()


def test_the_statement_that_created_a_filled_table_has_the_scn_of_its_rows() -> None:
    created = SchemaStatement(
        SchemaObject.TABLE, "shop", (ORDERS.table,), ("orders",), "CREATE TABLE orders …"
    )
    capture = ready()
    filled = replace(
        passed(20, (gtid("a:6"), []), (gtid("a:7"), [])), creation=CreationStatements((created,), None, 5)
    )
    capture.give(filled)
    [append] = capture.appends[-1:]
    assert [(each.scn, each.gtid, each.statement) for each in append.statements] == [
        (3, f"{gtid('a:6')}", created)
    ]
