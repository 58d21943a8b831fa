"""Tables that begin again, each with its reason."""

from dataclasses import replace

from pipeline.gtid.gtid_set import Gtid, Tsid
from pipeline.messages.binlog import RowsUnread
from pipeline.messages.changes import MirrorInvalidated
from pipeline.schema.ddl.effects import Unlogged
from pipeline.schema.ddl.unlogged_changes import Effect
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.schema.table_traits import Traits
from pipeline.verifier.table_restarts import (
    by_engines,
    by_foreign_keys,
    by_gaps,
    by_new_foreign_keys,
    by_statement,
    by_unread,
    orphaned_tables,
    parents_of,
)
from tests.pipeline.builders import ORDERS
from tests.pipeline.verifier.test_cascades import DELETED, INSERTED, A, B, C, D, key

GTID = Gtid(Tsid("3e11fa47-71ca-11e1-9e33-c80aa9429562"), 7)


def test_a_statement_empties_tables_or_has_them_read_again() -> None:
    unlogged = {
        C: Unlogged("TRUNCATE TABLE", Effect.EMPTIED),
        B: Unlogged("RENAME TABLE", Effect.CHANGED),
        D: Unlogged("TRUNCATE TABLE", Effect.EMPTIED),
    }
    restarts = by_statement(unlogged, GTID, [D])
    assert [(restart.table, restart.emptied) for restart in restarts] == [(B, False), (C, True)]
    assert all(str(GTID) in restart.reason for restart in restarts)


def test_tables_whose_changes_nobody_could_name_are_restarted_behind_them() -> None:
    restarts = by_gaps({B: "so", A: "so it is", D: "so"}, [], [D])
    assert [(each.table, each.emptied, each.reason, each.gap) for each in restarts] == [
        (A, False, "so it is", True),
        (B, False, "so", True),
    ]


def test_what_foreign_keys_may_have_changed_along_with_what_nobody_could_name_is_restarted_too() -> None:
    restarts = by_gaps({A: "so"}, [key(B, A), key(C, B), key(D, A)], [D])
    assert [(each.table, each.gap) for each in restarts] == [(A, True), (B, False), (C, False)]
    assert "a foreign key may have changed its rows along with those of " in restarts[1].reason


def test_tables_stop_whose_rows_are_elsewhere() -> None:
    traits = {A: Traits("innodb"), B: Traits("blackhole"), C: Traits(""), D: Traits("mrg_myisam")}
    stops = by_engines(traits, [A, B, C], [])
    assert [stop.table for stop in stops] == [B, C]
    assert [stop.reason.partition(",")[0] for stop in stops] == [
        "its engine is BLACKHOLE",
        "its engine is unknown",
    ]
    assert by_engines(traits, [B, D], [B, D]) == ()


def test_foreign_keys_have_children_read_anew_and_say_whose() -> None:
    keys = [key(B, A), key(C, B), key(D, A)]
    parents = parents_of(keys, [INSERTED, DELETED], {})
    assert parents == dict.fromkeys((B, C, D), frozenset({A}))
    restarts = by_foreign_keys(parents, [D])
    assert [restart.table for restart in restarts] == [B, C]
    assert not any(restart.emptied for restart in restarts)
    assert "along with those of d.a" in restarts[0].reason
    assert parents_of([], [DELETED], {}) == {}
    assert parents_of([key(B, A)], [DELETED], {C: frozenset({D})}) == {B: {A}, C: {D}}


def test_tables_stop_along_with_those_that_foreign_keys_change_them_by() -> None:
    keys = [key(B, A), key(C, B), key(D, C), key(A, D)]
    stops = orphaned_tables(keys, [A, D])
    assert [stop.table for stop in stops] == [B, C]
    assert "along with those of d.a, which is stopped" in stops[0].reason
    assert orphaned_tables(keys, []) == ()
    assert orphaned_tables([key(C, A), key(C, B)], [A, B])[0].reason.startswith(
        "a foreign key changes its rows along with those of d.a and d.b"
    )


def test_new_foreign_keys_have_all_read_anew_that_goes_along_or_stop_their_tables() -> None:
    keys = [key(B, A), key(C, B), key(D, C), key(D, A)]
    captured = TableFilter((r"d\.[b-d]",))
    stops, restarts = by_new_foreign_keys(keys, [key(C, B)], captured, [], reread=True)
    assert (stops, [restart.table for restart in restarts]) == ((), [C, D])
    stops, restarts = by_new_foreign_keys(keys, [key(C, B), key(D, A)], captured, [], reread=True)
    assert ([stop.table for stop in stops], [restart.table for restart in restarts]) == ([D], [C])
    assert "along with those of d.a, and this server doesn't log that" in stops[0].reason
    stops, restarts = by_new_foreign_keys(keys, [key(C, B), key(D, C)], captured, [D], reread=False)
    assert ([stop.table for stop in stops], restarts) == ([C], ())


def test_where_the_log_does_not_tell_the_rows_tables_are_read_anew_with_their_children() -> None:
    there, told = {A, B, C}, {table: replace(ORDERS, table=table) for table in (A, B, C, D)}

    def restarted(unread: RowsUnread) -> list[TableId]:
        stops, restarts = by_unread([unread], [key(B, A)], told, there)
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
    [stop], restarts = by_unread([RowsUnread("so", frozenset({A}))], [], told, {A})
    assert (stop.table, restarts) == (A, ())
    assert stop.reason.startswith("so; it has no primary key")
    assert by_unread([RowsUnread("so", databases=None)], [], told, {A}) == ((), ())
    lost = RowsUnread("so", databases=None, lost=True)
    assert by_unread([lost], [], told, {A}) == ((), (MirrorInvalidated(A, False, "so", gap=True),))
