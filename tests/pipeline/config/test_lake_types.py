"""Rules for types of the lake's columns: which one holds, and when a table has other forms than they want."""

from dataclasses import replace

from pipeline.config.lake_types import (
    LakeType,
    LakeTypeRule,
    form_by_rules,
    forms_differ,
    keep_forms,
    refused_types,
)
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t
from pipeline.types.lake_forms import LakeForm

UNSIGNED = t.Integer(8, unsigned=True)
TINY = t.Integer(1, unsigned=False)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (
        Column("ID", UNSIGNED, False),
        Column("flag", TINY, True),
        Column("code", t.FixedBinary(16), True),
        Column("at", t.Time(0), True),
        Column("doc", t.Json(), True),
        Column("place", t.Geometry(), True),
    ),
    (0,),
)


def rule(columns: str, type_: LakeType, tables: str = r"shop\..*") -> LakeTypeRule:
    return LakeTypeRule(TableFilter((tables,)), (columns,), type_)


def forms(*rules: LakeTypeRule, schema: TableSchema = ORDERS) -> dict[str, str]:
    """The columns with another form."""
    return {c.name: c.form for c in form_by_rules(rules, schema).columns if c.form is not None}


def test_a_rule_is_about_the_columns_that_it_names_if_their_type_fits() -> None:
    assert forms() == {}
    assert forms(rule("id", LakeType.LONG)) == {"ID": "long"}
    assert forms(rule("i", LakeType.LONG)) == {}
    assert forms(rule("id", LakeType.LONG, tables=r"shop\.items")) == {}
    every = (LakeType.LONG, LakeType.BOOLEAN, LakeType.UUID, LakeType.TEXT, LakeType.WKB)
    wanted = {"ID": "long", "flag": "boolean", "code": "uuid", "at": "text", "place": "wkb"}
    assert forms(*(rule(".*", type_) for type_ in every)) == wanted
    for type_ in every:
        assert len(forms(rule(".*", type_))) == 1


def test_the_first_rule_that_fits_holds() -> None:
    wide = rule(".*", LakeType.LONG)
    assert forms(rule("id", LakeType.DEFAULT), wide) == {}
    assert forms(rule("id", LakeType.DECIMAL), wide) == {}
    assert forms(rule("id", LakeType.BOOLEAN), wide) == {"ID": "long"}
    assert forms(wide, rule("id", LakeType.DECIMAL)) == {"ID": "long"}
    assert forms(rule("code", LakeType.SWAPPED_UUID), rule(".*", LakeType.UUID)) == {"code": "uuid-swapped"}
    assert forms(rule("doc", LakeType.TEXT)) == {}


def test_a_column_keeps_its_form_and_a_new_one_has_that_of_the_rules() -> None:
    rules = (rule(".*", LakeType.LONG),)
    present = form_by_rules((rule("flag", LakeType.BOOLEAN),), ORDERS)
    wider = replace(ORDERS, columns=(*ORDERS.columns, Column("count", UNSIGNED, True)))
    kept = {c.name: c.form for c in keep_forms(rules, wider, present).columns if c.form}
    assert kept == {"flag": LakeForm.BOOLEAN, "count": LakeForm.LONG}
    ints = (replace(c, type=t.Integer(4, unsigned=False)) if c.name == "flag" else c for c in ORDERS.columns)
    assert keep_forms(rules, replace(ORDERS, columns=tuple(ints)), present).formed is False


def test_a_table_has_other_forms_than_the_rules_want_once_these_mean_another_thing() -> None:
    long, wide = (rule("id", LakeType.LONG),), (rule(".*", LakeType.LONG), rule("id", LakeType.DECIMAL))
    assert not forms_differ((), ORDERS)
    assert forms_differ(long, ORDERS)
    present = form_by_rules(long, ORDERS)
    assert not forms_differ(long, present)
    assert not forms_differ(wide, present)
    assert forms_differ((), present)
    assert forms_differ(tuple(reversed(wide)), present)


def test_a_spatial_column_of_a_key_is_refused_as_wkb() -> None:
    spatial = replace(ORDERS, key=(5,))
    assert refused_types((rule("place", LakeType.WKB),), ORDERS) is None
    assert refused_types((rule("place", LakeType.DEFAULT), rule(".*", LakeType.WKB)), spatial) is None
    why = refused_types((rule("place", LakeType.WKB),), spatial)
    assert why is not None
    assert why.startswith("column 'place' of shop.orders is in the primary key")
