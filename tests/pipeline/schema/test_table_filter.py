"""Which tables patterns mean."""

import subprocess
import sys

import pytest

from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId


def test_patterns_match_whole_names_only() -> None:
    tables = TableFilter(("shop\\.orders", "crm\\..*"))
    assert tables.match(TableId("shop", "orders"))
    assert tables.match(TableId("crm", "people"))
    assert not tables.match(TableId("shop", "orders_old"))
    assert not tables.match(TableId("myshop", "orders"))


def test_of_many_tables_those_are_meant_that_a_pattern_matches() -> None:
    orders, items, people = TableId("shop", "orders"), TableId("shop", "items"), TableId("crm", "people")
    tables = TableFilter((r"shop\.i.*", r"crm\.", r"shop\.items|shop\.orders"))
    assert tables.among([people, orders, items]) == ([orders, items], [r"crm\."])
    assert tables.among([]) == ([], list(tables.patterns))
    assert ALL_TABLES.among([TableId("shop", "a\nb")]) == ([TableId("shop", "a\nb")], [])


def test_a_name_is_told_from_an_expression() -> None:
    patterns = (
        r"shop\.orders",
        "crm.people",
        "(?i)shop[.]Items",
        r"shop\..*",
        "orders",
        r"a\.b\.c",
        "a.b|c.d",
    )
    orders, people, items = TableId("shop", "orders"), TableId("crm", "people"), TableId("shop", "Items")
    assert TableFilter(patterns).named == (orders, people, items)


def test_a_dot_means_any_character_of_a_name() -> None:
    odd = TableId("shop", "a\nb")
    assert ALL_TABLES.match(odd)
    assert TableFilter(("shop\\..*",)).match(odd)
    assert not TableFilter(("shop\\.[a-z]*", "(?-s:.*)")).match(odd)


def test_no_pattern_means_a_table_of_the_servers_own() -> None:
    assert not ALL_TABLES.match(TableId("mysql", "rds_heartbeat2"))
    assert not TableFilter((r"sys\.sys_config",)).match(TableId("sys", "sys_config"))
    assert not ALL_TABLES.may_match_in("mysql")
    assert ALL_TABLES.match(TableId("mysql2", "t")) and ALL_TABLES.may_match_in("Sys")


def test_what_is_no_expression_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'shop\.\(' isn't a regular expression \(RE2\)"):
        TableFilter(("crm\\..*", "shop.("))


@pytest.mark.parametrize("pattern", [r"\Qshop.orders", r"shop\.\Qa", "a)|(b", "a)|(?:b"])
def test_what_is_an_expression_only_by_itself_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="isn't a regular expression"):
        TableFilter((pattern,))


@pytest.mark.parametrize(
    ("pattern", "database", "may"),
    [
        ("shop\\.orders", "shop", True),
        ("shop\\.orders", "sho", False),
        ("shop\\.orders", "crm", False),
        ("shop.*", "shop2", True),
        ("shop?\\.x", "sho", True),
        ("a\\.x|b\\.x", "b", True),
        (".*", "any", True),
    ],
)
def test_a_database_is_left_out_only_if_no_table_of_it_can_be_meant(
    pattern: str, database: str, *, may: bool
) -> None:
    assert TableFilter((pattern,)).may_match_in(database) is may


def test_patterns_are_made_without_what_takes_long_to_load() -> None:
    program = "import sys; import pipeline.config.settings; print({'numba', 'pandas', 'pyspark'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "set()\n"
