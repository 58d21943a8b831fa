"""Tables that begin again, each with its reason."""

from dataclasses import replace

from pipeline.gtid.gtid_set import Gtid, Tsid
from pipeline.messages.binlog import RowsUnread
from pipeline.messages.changes import MirrorInvalidated
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.unlogged_changes import Effect
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits
from pipeline.verifier.table_restarts import (
    effects_of_unread_rows,
    restarts_after_gaps,
    restarts_after_statement,
    stops_for_engines,
)
from tests.pipeline.builders import ORDERS
from tests.pipeline.verifier.test_cascades import A, B, C, D, key

GTID = Gtid(Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562"), 7)


def test_a_statement_empties_tables_or_has_them_read_again() -> None:
    unlogged = {
        C: Unlogged("TRUNCATE TABLE", Effect.EMPTIED),
        B: Unlogged("RENAME TABLE", Effect.CHANGED),
        D: Unlogged("TRUNCATE TABLE", Effect.EMPTIED),
    }
    restarts = restarts_after_statement(unlogged, GTID, [D])
    assert [(restart.table, restart.emptied) for restart in restarts] == [(B, False), (C, True)]
    assert all(str(GTID) in restart.reason for restart in restarts)


def test_tables_whose_changes_nobody_could_name_are_restarted_behind_them() -> None:
    restarts = restarts_after_gaps({B: "so", A: "so it is", D: "so"}, [], [D])
    assert [(each.table, each.emptied, each.reason, each.gap) for each in restarts] == [
        (A, False, "so it is", True),
        (B, False, "so", True),
    ]


def test_what_foreign_keys_may_have_changed_along_with_what_nobody_could_name_is_restarted_too() -> None:
    restarts = restarts_after_gaps({A: "so"}, [key(B, A), key(C, B), key(D, A)], [D])
    assert [(each.table, each.gap) for each in restarts] == [(A, True), (B, False), (C, False)]
    assert "a foreign key may have changed its rows along with those of " in restarts[1].reason


def test_tables_stop_whose_rows_are_elsewhere() -> None:
    traits = {A: Traits("innodb"), B: Traits("blackhole"), C: Traits(""), D: Traits("mrg_myisam")}
    stops = stops_for_engines(traits, [A, B, C], [])
    assert [stop.table for stop in stops] == [B, C]
    assert [stop.reason.partition(",")[0] for stop in stops] == [
        "its engine is BLACKHOLE",
        "its engine is unknown",
    ]
    assert stops_for_engines(traits, [B, D], [B, D]) == ()


def test_a_table_stops_that_a_merge_table_has_in_its_union() -> None:
    [stop] = stops_for_engines({A: Traits("myisam"), B: Traits("myisam", merged_by=D)}, [A, B], [])
    assert stop.table == B
    assert stop.reason.startswith(f"the MERGE table {D} has it in its UNION")


def test_where_the_log_does_not_tell_the_rows_tables_are_read_anew_with_their_children() -> None:
    there, told = {A, B, C}, {table: replace(ORDERS, table=table) for table in (A, B, C, D)}

    def restarted(unread: RowsUnread) -> list[TableId]:
        stops, restarts = effects_of_unread_rows([unread], [key(B, A)], told, there)
        assert not stops
        assert {(each.emptied, each.reason) for each in restarts} <= {(False, "so")}
        return [each.table for each in restarts]

    assert restarted(RowsUnread("so", frozenset({C, D}))) == [C]
    assert restarted(RowsUnread("so", frozenset({A}))) == [A, B]
    assert restarted(RowsUnread("so", databases=frozenset({A.database.upper()}))) == sorted(there)
    assert restarted(RowsUnread("so", databases=None)) == sorted(there)
    assert restarted(RowsUnread("so")) == []


def test_a_table_without_a_key_stops_where_it_is_surely_meant() -> None:
    told = {A: replace(ORDERS, table=A, key=())}
    [stop], restarts = effects_of_unread_rows([RowsUnread("so", frozenset({A}))], [], told, {A})
    assert (stop.table, restarts) == (A, ())
    assert stop.reason.startswith("so; it has no primary key")
    assert effects_of_unread_rows([RowsUnread("so", databases=None)], [], told, {A}) == (
        (),
        (MirrorInvalidated(A, False, "so"),),  # it stops if a scan has read it
    )
    lost = RowsUnread("so", databases=None, lost=True)
    assert effects_of_unread_rows([lost], [], told, {A}) == (
        (),
        (MirrorInvalidated(A, False, "so", gap=True),),
    )
