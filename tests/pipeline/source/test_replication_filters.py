"""Which tables a replica with filters leaves out."""

from typing import Final

import pytest

from pipeline.schema.table_schema import TableId
from pipeline.source.replication_filters import ReplicationFilters, find_left_out

TABLES: Final = tuple(
    TableId(*name.split(".")) for name in ("shop.orders", "shop.o_d", "other.t", "Shop.orders")
)


def kept(filters: ReplicationFilters) -> list[str]:
    return [str(table) for table in TABLES if filters.leave_out(table) is None]


@pytest.mark.parametrize(
    ("filters", "applied"),
    [
        ({}, [*map(str, TABLES)]),
        ({"do_databases": "shop,more"}, ["shop.orders", "shop.o_d"]),
        ({"ignore_databases": "mysql"}, [*map(str, TABLES)]),
        ({"ignore_databases": "shop"}, ["other.t"]),  # names may be folded there
        ({"do_databases": "shop", "ignore_databases": "shop"}, ["shop.orders", "shop.o_d"]),
        ({"do_tables": "shop.orders"}, ["shop.orders"]),
        ({"ignore_tables": "mysql.rds_monitor,mysql.rds_sysinfo"}, [*map(str, TABLES)]),
        ({"ignore_tables": "mysql.rds_monitor,other.t"}, ["shop.orders", "shop.o_d", "Shop.orders"]),
        ({"wild_do_tables": "shop.%"}, ["shop.orders", "shop.o_d"]),
        ({"wild_do_tables": r"shop.o\_d,mysql.%"}, ["shop.o_d"]),
        ({"wild_ignore_tables": "shop.o_d"}, ["shop.orders", "other.t", "Shop.orders"]),
        ({"wild_ignore_tables": "shop.o%", "do_tables": "shop.orders"}, ["shop.orders"]),
        ({"wild_ignore_tables": "shop.o%", "wild_do_tables": "%.o_d"}, ["shop.o_d"]),
        ({"rewritten_databases": "(shop,shop_copy),(a,other)"}, []),
    ],
)
def test_a_table_is_applied_or_left_out_as_the_server_decides(
    filters: dict[str, str], applied: list[str]
) -> None:
    assert kept(ReplicationFilters(**filters)) == applied


def test_the_filters_of_each_channel_count() -> None:
    channels = (ReplicationFilters(), ReplicationFilters(ignore_tables="other.t"))
    assert find_left_out(channels, TABLES) == (TableId("other", "t"), "Replicate_Ignore_Table=other.t")
    assert find_left_out(channels[:1], TABLES) is None


def test_filters_are_read_from_a_channels_columns() -> None:
    status = ["0", *[""] * 60]
    status[12], status[17], status[54] = "a", "b.%", "(c,d)"
    assert ReplicationFilters.of_channel(status) == ReplicationFilters(
        do_databases="a", wild_ignore_tables="b.%", rewritten_databases="(c,d)"
    )
    assert ReplicationFilters.of_channel(status[:54]).rewritten_databases == ""
