"""What a run would capture, from what is known of the source; with a source: tests/integration/service/test_run.py."""

from dataclasses import replace

from actors.service.table_listing import PlannedTable, captured_listing, listing, plan
from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.config.lake_types import LakeType, LakeTypeRule
from pipeline.config.settings import (
    JournalSettings,
    LakeSettings,
    Settings,
    SnapshotMode,
    SnapshotSettings,
    SourceSettings,
)
from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId
from pipeline.snapshot.checkpoint import Checkpoint, Ready
from pipeline.types.column_types import Geometry, Integer
from tests.pipeline.builders import ORDERS

SHOP = Settings(
    "shop", TableFilter((r"shop\..*",)), SourceSettings("db", "u", server_id=7), JournalSettings("journal")
)
LOOSE = replace(ORDERS, table=TableId("shop", "loose"), key=())
ODD = TableId("shop", "odd")
KNOWN = KnownSchemas(
    {ORDERS.table: ORDERS, LOOSE.table: LOOSE, TableId("other", "t"): ORDERS},
    NO_GTIDS,
    refused={ODD: "its charset is unknown"},
)
SIZES = {ORDERS.table: (1_200_000, 3 << 20)}


def test_each_table_says_what_it_gets_and_its_name_is_never_cut() -> None:
    loose, odd, orders = plan(KNOWN, SHOP, SIZES)
    assert (orders.key, orders.rows) == (ORDERS.key_names, 1_200_000)
    assert orders.gets.startswith("a snapshot of all rows")
    assert loose.gets == ("its changes only, since it has no primary key; a blocking snapshot reads its rows")
    assert odd.gets == "nothing, it can't be captured: its charset is unknown"
    head, *lines, total = listing([loose, odd, orders])
    assert head.split()[:2] == ["table", "key"]
    assert [line.split()[0] for line in lines] == ["shop.loose", "shop.odd", "shop.orders"]
    assert "1,200,000" in lines[2] and "3.0" in lines[2]
    assert total == "3 tables, about 1,200,000 rows and 3.0 MiB by the server's estimate"


def test_a_table_that_the_rules_for_columns_refuse_gets_nothing() -> None:
    rule = ProtectionRule(TableFilter((r"shop\.orders",)), ("no_such",), Treatment.EXCLUDE)
    orders = list(plan(KNOWN, replace(SHOP, protection=Protection(rules=(rule,))), SIZES))[2]
    assert orders.gets.startswith("nothing, it can't be captured: it has no column 'no_such'")


def test_types_by_rule_are_listed_with_their_columns() -> None:
    unsigned = Column("n", Integer(8, unsigned=True), True)
    place = Column("place", Geometry(), False)
    orders = replace(ORDERS, columns=(*ORDERS.columns, unsigned, place))
    by_place = replace(LOOSE, columns=(place,), key=(0,))
    known = replace(KNOWN, schemas={orders.table: orders, LOOSE.table: by_place}, refused={})
    rules = tuple(
        LakeTypeRule(TableFilter((".*",)), (".*",), type_) for type_ in (LakeType.LONG, LakeType.WKB)
    )
    settings = replace(SHOP, lake=LakeSettings("lake", types=rules))
    loose, listed = plan(known, settings, SIZES)
    assert listed.gets.endswith("; in the lake n as long, place as wkb")
    assert "nothing in the lake: column 'place' of shop.loose is in the primary key" in loose.gets
    (plain,) = plan(replace(known, schemas={orders.table: orders}), SHOP, SIZES)
    assert plain.gets == "a snapshot of all rows at its first start, and its changes"


def test_a_name_that_the_lake_refuses_is_listed_where_there_is_a_lake() -> None:
    orders = replace(ORDERS, columns=(*ORDERS.columns, Column("_metadata", Integer(8, unsigned=False), True)))
    known = replace(KNOWN, schemas={orders.table: orders}, refused={})
    with_lake, without = (
        next(plan(known, replace(SHOP, lake=lake), SIZES)).gets for lake in (LakeSettings("lake"), None)
    )
    assert with_lake == (
        f"{without}; nothing in the lake: column '_metadata' of shop.orders has a name that Spark and Delta keep for "
        "themselves; rename it, or leave the table out"
    )


def test_without_a_snapshot_by_itself_it_says_so() -> None:
    settings = replace(SHOP, snapshot=SnapshotSettings(mode=SnapshotMode.NO_DATA))
    assert [table.gets for table in plan(KNOWN, settings, SIZES)][2] == (
        "its changes, and a snapshot when a signal asks for it"
    )


def test_a_table_of_an_existing_journal_continues_where_that_ends() -> None:
    items, new = TableId("shop", "items"), TableId("shop", "new")
    schemas = {table: replace(ORDERS, table=table) for table in (items, new, ORDERS.table)}
    begun = Checkpoint(NO_GTIDS, mirrors={ORDERS.table: Ready(0)}, stopped={items: "it was dropped"})
    known = replace(KNOWN, schemas=schemas, refused={})
    assert [table.gets for table in plan(known, SHOP, SIZES, begun)] == [
        "nothing, it has stopped: it was dropped",
        "a snapshot of all rows at its first start, and its changes",
        "its changes, from where the journal ends",
    ]


def test_the_tables_of_a_service_say_their_snapshots_and_what_stops_them() -> None:
    lake = {"mirror": None, "pending_rows": None, "late": False, "stopped": None}
    of = {"stopped": None, "keyless": False, "unread_rows": 0, "snapshot": None, "lake": lake}
    done = {"state": "completed", "rows": 1_000, "given_up": 234}
    head, *lines, total = captured_listing(
        [
            {**of, "table": "shop.orders", "snapshot": done},
            {**of, "table": "shop.loose", "keyless": True},
            {**of, "table": "shop.odd", "stopped": "no schema is proven"},
            {**of, "table": "shop.bad", "lake": {**lake, "stopped": "another key"}},
            {**of, "table": "shop.old", "lake": {**lake, "mirror": Ready.wire}},
        ]
    )
    assert head.split() == ["table", "snapshot", "rows", "state"]
    assert [line.split()[:2] for line in lines] == [
        ["shop.orders", "completed"],
        ["shop.loose", "none"],
        ["shop.odd", "none"],
        ["shop.bad", "none"],
        ["shop.old", "completed"],  # by a snapshot that the service doesn't know any more
    ]
    assert "1,234" in lines[0]
    assert [line.rpartition("  ")[2].strip() for line in lines[1:]] == [
        "its changes are captured, and it has no primary key",
        "stopped: no schema is proven",
        "stopped: another key",
        "its changes are captured",
    ]
    assert total == "5 tables"


def test_no_name_moves_the_cursor_or_looks_like_another_line() -> None:
    key = ("id\x9b1A", "n")
    planned = PlannedTable(TableId("shop", "a\x1b[2J\nb"), key, 1, 1, "its changes", None)
    assert all(line.isprintable() for line in listing([planned]))
