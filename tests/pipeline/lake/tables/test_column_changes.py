"""How a lake table's columns follow the source's, step by step."""

import json
from dataclasses import replace
from typing import Any

import pytest

from pipeline.lake.tables.column_changes import (
    ColumnPlan,
    Incompatible,
    PlannedColumn,
    Step,
    follow_steps,
    needed_features,
    owe_constants,
    schema_text,
    unchanged_plan,
    widened_type,
)
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.report import Constant
from pipeline.lake.tables.tier import Tier
from pipeline.schema.ddl.alter_table import Alteration, ColumnChanges
from pipeline.schema.ddl.column_definitions import ConstantColumn
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types import column_types as t

INT, LONG, TEXT = t.Integer(4, unsigned=False), t.Integer(8, unsigned=False), t.Text("utf8mb4")


def schema(**columns: t.ColumnType) -> TableSchema:
    table = TableId("shop", "orders")
    return TableSchema(table, tuple(Column(name, type_, True) for name, type_ in columns.items()), (0,))


V1 = schema(id=INT, a=INT, b=TEXT)
AS_IT_IS = unchanged_plan([LakeColumn("id", "int"), LakeColumn("a", "int"), LakeColumn("b", "string")], V1)


def dropped(*names: str) -> Alteration:
    return Alteration(V1, "ALTER TABLE", ColumnChanges(dropped=names))


def renamed(*pairs: tuple[str, str]) -> Alteration:
    return Alteration(V1, "ALTER TABLE", ColumnChanges(pairs))


def after(*changes: Alteration | TableSchema, anew: bool = False, plan: ColumnPlan = AS_IT_IS) -> list[str]:
    """The columns of a mirror of V1 after these, in segments from 5 on: each with what it was, if it's another one."""
    steps = [Step(5 + i, change, anew) for i, change in enumerate(changes)]
    told = []
    for each in follow_steps(plan, Tier.MIRROR, steps).columns:
        was = (
            "" if each.was == each.column else f" < {each.was.name} {each.was.type}" if each.was else " < new"
        )
        told.append(f"{each.column.name} {each.column.type.lower()}{was}")
    return told


def test_a_column_is_added_behind_the_one_before_it() -> None:
    assert after(schema(first=t.DateTime(0), id=INT, a=INT, n=t.Vector(), b=TEXT)) == [
        "first timestamp_ntz < new",
        "id int",
        "a int",
        "n array<float> < new",
        "b string",
    ]


def test_order_and_null_make_no_difference() -> None:
    moved = schema(b=TEXT, a=INT, id=INT)
    assert after(replace(moved, columns=tuple(replace(c, nullable=False) for c in moved.columns))) == [
        "id int",
        "a int",
        "b string",
    ]


def test_a_wider_type_is_taken_on_and_a_narrower_one_changes_nothing() -> None:
    assert after(schema(id=LONG, a=t.Double(), b=TEXT)) == [
        "id bigint < id int",
        "a double < a int",
        "b string",
    ]
    assert after(schema(id=LONG, a=INT, b=TEXT), V1) == ["id bigint < id int", "a int", "b string"]
    assert after(schema(id=t.Integer(1, unsigned=False), a=INT, b=TEXT)) == ["id int", "a int", "b string"]


def test_a_dropped_column_stays() -> None:
    assert after(dropped("a"), schema(id=INT, b=TEXT)) == ["id int", "a int", "b string"]


def test_a_column_that_takes_the_name_of_a_dropped_one_is_another_one() -> None:
    """Even of the same type: rows have lost what they had in the first."""
    for type_ in (TEXT, INT):
        name = "string" if type_ is TEXT else "int"
        found = after(dropped("a"), schema(id=INT, a=type_, b=TEXT))
        assert found == ["id int", f"a {name} < new", "a__until_6 int < a int", "b string"]
    again = after(dropped("a"), V1, dropped("a"), V1)
    assert again == ["id int", "a int < new", "a__until_8 int < new", "a__until_6 int < a int", "b string"]


def test_a_name_that_is_set_aside_is_nobodys() -> None:
    plan = unchanged_plan([*(each.column for each in AS_IT_IS.columns), LakeColumn("A__until_6", "int")], V1)
    assert after(dropped("a"), V1, plan=plan)[-3:] == [
        "a__until_6_ int < a int",
        "b string",
        "A__until_6 int",
    ]


def test_where_the_mirror_begins_anew_a_column_goes_on_if_it_can() -> None:
    assert after(dropped("a", "b"), schema(id=INT, a=LONG, b=TEXT), anew=True) == [
        "id int",
        "a bigint < a int",
        "b string",
    ]
    assert after(dropped("a"), schema(id=INT, a=TEXT, b=TEXT), anew=True)[1] == "a string < new"


def test_a_renamed_column_keeps_what_it_has() -> None:
    wider = schema(id=INT, note=LONG, b=TEXT)
    assert after(renamed(("a", "note")), wider) == ["id int", "note bigint < a int", "b string"]
    assert after(renamed(("a", "A"))) == ["id int", "A int < a int", "b string"]
    assert after(renamed(("a", "b"), ("b", "a"))) == ["id int", "b int < a int", "a string < b string"]


def test_a_name_may_go_from_a_dropped_column_to_another() -> None:
    both = Alteration(V1, "ALTER TABLE", ColumnChanges((("b", "a"),), ("a",)))
    assert after(both) == ["id int", "a__until_5 int < a int", "a string < b string"]
    assert after(dropped("a"), renamed(("b", "a"))) == [
        "id int",
        "a__until_6 int < a int",
        "a string < b string",
    ]


def test_what_no_type_holds_is_refused_by_name() -> None:
    with pytest.raises(
        Incompatible, match=r"'a' of shop\.orders was INT and is STRING, and no type holds both"
    ):
        after(schema(id=INT, a=TEXT, b=TEXT))
    # If the mirror begins again, no older row counts for it, so the history keeps its column under another name.
    aside = after(schema(id=INT, a=TEXT, b=TEXT), anew=True)
    assert [each for each in aside if each.startswith("a")] == ["a string < new", "a__until_5 int < a int"]
    with pytest.raises(Incompatible, match=r"'__Scn' of shop\.orders has the name .* rename it, or leave"):
        after(schema(__Scn=INT))


def test_a_changelog_has_our_columns_first() -> None:
    made = follow_steps(unchanged_plan([], None), Tier.CHANGELOG, [Step(1, V1)])
    assert [each.column.name for each in made.columns[-4:]] == ["__segment", "id", "a", "b"]
    assert {each.was for each in made.columns} == {None}
    assert (
        follow_steps(
            unchanged_plan([each.column for each in made.columns], V1), Tier.CHANGELOG, [Step(2, V1)]
        ).changes
        is False
    )


@pytest.mark.parametrize(
    ("has", "wanted", "both"),
    [
        ("tinyint", "smallint", "smallint"),
        ("bigint", "INT", "bigint"),
        ("float", "double", "double"),
        ("smallint", "double", "double"),
        ("bigint", "double", None),
        ("int", "float", None),
        ("date", "TIMESTAMP_NTZ", "timestamp_ntz"),
        ("date", "timestamp", None),
        ("bigint", "DECIMAL(20,0)", "decimal(20,0)"),
        ("int", "DECIMAL(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "INT", "decimal(12,2)"),
        ("decimal(10,2)", "DECIMAL(12,4)", "decimal(12,4)"),
        ("decimal(10,2)", "DECIMAL(8,4)", "decimal(12,4)"),
        ("decimal(38,2)", "DECIMAL(38,4)", None),
        ("decimal(10,2)", "double", None),
        ("string", "binary", None),
        ("boolean", "tinyint", None),
        ("array<float>", "string", None),
    ],
)
def test_the_type_of_both(has: str, wanted: str, both: str | None) -> None:
    assert widened_type(has, wanted) == both


def test_columns_get_a_life_of_their_own_only_when_they_need_one() -> None:
    def needed(*changes: Alteration | TableSchema, **properties: str) -> list[str]:
        plan = follow_steps(AS_IT_IS, Tier.MIRROR, [Step(5, change) for change in changes])
        return sorted(name.removeprefix("delta.") for name in needed_features(plan, properties))

    assert needed() == needed(schema(id=INT, a=INT, b=TEXT, c=INT)) == needed(dropped("a")) == []
    assert needed(schema(id=INT, a=LONG, b=TEXT)) == ["enableTypeWidening"]
    assert needed(schema(id=INT, a=INT, b=TEXT, m=t.DateTime(0))) == ["feature.timestampNtz"]
    assert not needed_features(
        unchanged_plan([LakeColumn("m", "timestamp_ntz")], schema(m=t.DateTime(0))), {}
    )
    assert needed(renamed(("a", "c"))) == needed(schema(**{"id": INT, "a;": INT})) == ["columnMapping.mode"]
    assert needed(renamed(("a", "c")), **{"delta.columnMapping.mode": "name"}) == []


def test_the_schema_as_delta_has_it() -> None:
    mapped = {"delta.columnMapping.id": 2}
    field: dict[str, Any] = {"name": "a", "type": "integer", "nullable": True, "metadata": mapped}
    present: dict[str, Any] = {
        "type": "struct",
        "fields": [{**field, "name": "id"}, field, {**field, "name": "b", "type": "string"}],
    }
    wanted = schema(id=INT, c=LONG, n=t.Float(), v=t.Vector(), d=t.Date(), e=t.Decimal(9, 2))
    steps = [Step(5, renamed(("a", "c"))), Step(6, wanted)]
    text = schema_text(follow_steps(AS_IT_IS, Tier.MIRROR, steps), json.dumps(present))
    change = {"fromType": "integer", "toType": "long"}
    found = json.loads(text)
    assert found["type"] == "struct"
    assert found["fields"][:2] == [
        {**field, "name": "id"},
        {
            **field,
            "name": "c",
            "type": "long",
            "metadata": {**field["metadata"], "delta.typeChanges": [change]},
        },
    ]
    array = {"type": "array", "elementType": "float", "containsNull": True}
    assert [each["type"] for each in found["fields"][2:-1]] == ["float", array, "date", "decimal(9,2)"]
    assert found["fields"][-1] == present["fields"][2]


FLAGGED = schema(id=INT, flag=INT, a=INT, b=TEXT)
ADDING = Alteration(
    FLAGGED, "ALTER TABLE", ColumnChanges(added=(ConstantColumn(Column("flag", INT, True), "7"),))
)


def test_a_column_with_a_constant_comes_with_the_statement() -> None:
    assert after(ADDING) == ["id int", "a int", "b string", "flag int < new"]
    assert after(ADDING, FLAGGED) == after(ADDING)
    before = unchanged_plan([LakeColumn(name, "int") for name in ("id", "flag")], schema(id=INT))
    assert after(ADDING, plan=before)[1:] == ["flag__until_5 int < flag int", "flag int < new"]
    reserved = Column("_metadata", INT, True)
    bad = replace(FLAGGED, columns=(*V1.columns, reserved))
    with pytest.raises(Incompatible, match="_metadata"):
        after(replace(ADDING, schema=bad, changes=ColumnChanges(added=(ConstantColumn(reserved, "7"),))))


def test_a_mirror_follows_all_steps_but_for_the_columns_whose_constants_it_owes() -> None:
    both = Alteration(FLAGGED, "ALTER TABLE", ColumnChanges((("flag", "a"), ("a", "c")), ("b",)))
    wide = schema(id=INT, a=LONG, c=INT, more=TEXT)
    steps = [Step(5, ADDING), Step(5, FLAGGED), Step(7, both), Step(8, wide)]
    owed, made = owe_constants([], steps)
    assert owed == (Constant("a", "7", 5),)
    assert made == (
        Step(5, replace(ADDING, changes=ColumnChanges())),
        Step(5, V1),
        Step(7, replace(both, changes=ColumnChanges((("a", "c"),), ("b",)))),
        Step(8, schema(id=INT, c=INT, more=TEXT)),
    )
    names = [each.column.name for each in follow_steps(AS_IT_IS, Tier.MIRROR, made).columns]
    assert names == ["id", "c", "more", "b"]
    assert owe_constants(owed, [Step(9, dropped("a"))]) == (
        (),
        (Step(9, replace(dropped("a"), changes=ColumnChanges())),),
    )
    more, _ = owe_constants(owed, [Step(9, ADDING)])
    assert more == (*owed, Constant("flag", "7", 9))


def test_the_parts_of_a_struct_keep_the_names_that_delta_gave_them() -> None:
    """Files have these names: under others no reader would find the parts."""
    parts = LakeColumn("g", "struct<srid:bigint,wkb:binary>")
    has = (LakeColumn("id", "int"), parts)
    table = schema(id=INT)
    plan = ColumnPlan((*unchanged_plan(has[:1], table).columns, PlannedColumn(parts, None)))
    made = json.loads(schema_text(plan, _fields("id")))
    assert [(part["name"], part["type"]) for part in made["fields"][1]["type"]["fields"]] == [
        ("srid", "long"),
        ("wkb", "binary"),
    ]
    for part in made["fields"][1]["type"]["fields"]:
        part["metadata"] = {"delta.columnMapping.physicalName": f"col-{part['name']}"}
    renamed_ = LakeColumn("place", parts.type)
    plan = ColumnPlan((*unchanged_plan(has[:1], table).columns, PlannedColumn(renamed_, parts)))
    then = json.loads(schema_text(plan, json.dumps(made), "__generation_7"))
    assert then["fields"][1] == {**made["fields"][1], "name": "place"}


def _fields(*names: str) -> str:
    fields = [{"name": name, "type": "integer", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})
