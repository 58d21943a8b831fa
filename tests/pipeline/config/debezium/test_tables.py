"""Debezium's lists of databases and tables, as one list of ours."""

import pytest

from pipeline.config.debezium.tables import NotOurs, captured, javas_class
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId


@pytest.mark.parametrize(
    ("databases", "tables", "meant", "not_meant"),
    [
        (None, None, ["a.b"], []),
        ("shop", None, ["shop.orders", "SHOP.Orders"], ["shop2.orders", "crm.shop"]),
        ("shop|crm, hr", None, ["shop.a", "crm.a", "hr.a"], ["shop|crm.a"]),
        (None, "shop.orders, crm\\..*", ["shop.orders", "crm.x"], ["shop.orders2", "xcrm.y"]),
        (None, "shop.o{1\\,2}", ["shop.o", "shop.oo"], ["shop.ooo"]),
        ("shop", "shop.orders,crm.x", ["Shop.orders"], ["crm.x"]),
        ("shop", "shop.*", ["shop.orders", "SHOP.x"], ["shop_private.x", "crm.shop"]),
        ("shop", "shop.o.*", ["shop.orders", "shop.o"], ["shop_orders.t", "shop.x"]),
        ("shop", "shop\\.o.*, shop[.]x", ["shop.orders", "shop.x"], ["shop_orders.t", "shop.xx"]),
        ("shop,shop_old", "shop.orders,shop_old.orders", ["shop.orders", "shop_old.orders"], ["shop.x"]),
    ],
)
def test_tables_that_are_meant(
    databases: str | None, tables: str | None, meant: list[str], not_meant: list[str]
) -> None:
    ours = TableFilter(captured(databases, tables))
    for name in meant + not_meant:
        assert ours.match(TableId(*name.split(".", 1))) == (name in meant), name


@pytest.mark.parametrize(
    ("databases", "tables", "name"),
    [
        ("shop.*", "shop.orders", "database.include.list"),
        ("shop", ".*orders", "table.include.list"),
        ("shop", "shop.a|crm.b", "table.include.list"),
        ("shop", "crm.b", "table.include.list"),
        ("shop", "sho.\\.orders", "table.include.list"),
        ("shop", "shop.*orders", "table.include.list"),
        ("shop,shop_old", "shop.o.*", "table.include.list"),
        (None, "shop.(?=a).*", "table.include.list"),
        (None, "shop[.][a-z&&[^b]].*", "table.include.list"),
        (None, r"shop\.[a-d[m-p]].*", "table.include.list"),
        (r"[a-z]\[[x&&y]", None, "database.include.list"),
        ("sh(?!op)", None, "database.include.list"),
    ],
)
def test_what_cannot_be_said_here_names_its_property(
    databases: str | None, tables: str | None, name: str
) -> None:
    with pytest.raises(NotOurs) as refused:
        captured(databases, tables)
    assert refused.value.name == name


def test_classes_that_both_read_alike_are_no_mistake() -> None:
    assert javas_class([r"shop[.]o.*", r"[\[a&b]\.x", r"a\[b\[", r"[^\]&]"]) is None
