"""How a lake table's columns follow those of its source.

A lake table keeps each column that it ever had, because its values are the table's history:

- A column is added: the lake adds it, null in the existing rows. If the source has a constant in all of these, the
  mirror is written again with it (below). The changelog's rows stay as they were.
- A column gets a wider type: the lake widens it. If the source's type becomes narrower, the lake's stays. A type must
  hold the values of both, and Delta must be able to widen the present one to it.
- A column is renamed: the lake renames it with its values, if the statement says so
  (`pipeline.schema.ddl.alter_table`).
- A column is dropped: it stays, and is null in new rows. If another column takes its name, the lake *sets it aside*. It
  keeps its values under a name that says until which segment it had the first one. A column of the same name isn't the
  same column. Rows lost their values in the first one, and the changelog must not give these to the second.
- NULL and NOT NULL, character sets, labels and the columns' order in the source make no difference here.

If the mirror begins a new generation with another schema, no earlier row counts for it. Then a new column continues in
one of the same name, if that can hold its values. Otherwise the sink sets that one aside. It does so too if a rule
gives the new column its type (`pipeline.types.lake_forms`) and the other one has a wider type.

**Constants.** A column that comes with a constant (`pipeline.schema.ddl.alter_table`) isn't added to the mirror at
once. The mirror reports which columns it lacks (`pipeline.lake.tables.report.Constant`), and follows all other steps
without them (`owe_constants`). It is complete as the table without these columns. No later change is merged into it.
Then one commit writes it with the columns (`pipeline.lake.live_view.filled_sql`).

Each of the two lake tables may also have a *pin* (`pipeline.lake.live_view`): a column without a value, whose name is
all that matters. It belongs to no schema, and a plan leaves it as it is.

One commit of Delta's log (`actors.lake.lake`) leads from a lake table's columns to the wanted ones, over any number of
such steps. So a plan lists the columns at the end, and which column each of them was. Column mapping is enabled with
the first name that needs it or changes, and type widening with the first type that changes.

Source: Delta Transaction Log Protocol, sections Column Mapping and Type Widening.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.errors import Definite
from pipeline.lake.tables.columns import META_COLUMNS, PIN_TYPE, LakeColumn, columns
from pipeline.lake.tables.properties import MAPPING, need_mapping
from pipeline.lake.tables.report import Constant, without_constants
from pipeline.lake.tables.tier import Tier
from pipeline.schema.ddl.alter_table import Alteration, ColumnChanges
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableSchema


class Incompatible(Definite):
    """The lake tables of a table can't have its new schema, or its rows."""


COLUMNS_REMEDY = "the lake tables of {table} are laid out for its new schema when it begins again"


@dataclass(frozen=True, slots=True)
class Step:
    """A change that came with a segment: a schema, with which a generation may begin (`begins`), or the effect of a
    statement.
    """

    segment: int
    change: Alteration | TableSchema
    begins: bool = False


@dataclass(frozen=True, slots=True)
class PlannedColumn:
    """A wanted column of a lake table, and what it `was` there; None if the plan adds it."""

    column: LakeColumn
    was: LakeColumn | None


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The wanted columns of a lake table; `present`: the names of those of its schema, `fold_name`."""

    columns: tuple[PlannedColumn, ...]
    present: frozenset[str] = frozenset()

    @property
    def before(self) -> tuple[LakeColumn, ...]:
        """Returns the columns that the lake table has."""
        return tuple(each.was for each in self.columns if each.was is not None)

    @property
    def after(self) -> tuple[LakeColumn, ...]:
        """Returns the wanted columns."""
        return tuple(each.column for each in self.columns)

    @property
    def changes(self) -> bool:
        """Returns whether any column changes."""
        return any(each.was != each.column for each in self.columns)

    @property
    def renames(self) -> bool:
        """Returns whether columns get other names."""
        return any(each.was is not None and each.was.name != each.column.name for each in self.columns)

    @property
    def widens(self) -> bool:
        """Returns whether columns get other types."""
        return any(each.was is not None and each.was.type != each.column.type for each in self.columns)


def unchanged_plan(has: Iterable[LakeColumn], schema: TableSchema | None) -> ColumnPlan:
    """Returns the plan that changes nothing in a lake table with these columns and this schema."""
    names = schema.columns if schema is not None else ()
    return ColumnPlan(
        tuple(PlannedColumn(column, column) for column in has), frozenset(fold_name(c.name) for c in names)
    )


def follow_steps(plan: ColumnPlan, tier: Tier, steps: Iterable[Step]) -> ColumnPlan:
    """Returns the plan with these steps. Raises Incompatible if a step is impossible, with the reason."""
    for step in steps:
        match step.change:
            case Alteration() as alteration:
                plan = _altered(plan, alteration, step.segment)
            case TableSchema() as schema:
                plan = _with_schema(plan, tier, schema, step)
    return plan


def _altered(plan: ColumnPlan, alteration: Alteration, segment: int) -> ColumnPlan:
    present = plan.present - {fold_name(name) for name in alteration.changes.dropped}
    names = {fold_name(old): new for old, new in alteration.changes.renamed if fold_name(old) in present}
    taken = {fold_name(new) for new in names.values()}
    for name in sorted(taken - names.keys()):
        plan = _aside(plan, name, segment)
    renamed = tuple(
        replace(each, column=replace(each.column, name=names[fold_name(each.column.name)]))
        if fold_name(each.column.name) in names
        else each
        for each in plan.columns
    )
    plan = ColumnPlan(renamed, present - names.keys() | taken)
    added = {each.column.name for each in alteration.changes.added}
    for column in _lake_columns(alteration.schema, Tier.MIRROR) if added else ():
        if column.name in added:
            plan = _aside(plan, column.name, segment)
            plan = ColumnPlan(
                (*plan.columns, PlannedColumn(column, None)), plan.present | {fold_name(column.name)}
            )
    return plan


def owe_constants(
    owed: Iterable[Constant], steps: Iterable[Step]
) -> tuple[tuple[Constant, ...], tuple[Step, ...]]:
    """Returns the constants that a mirror owes after these steps, and its steps without their columns."""
    left, made = tuple(owed), list[Step]()
    for step in steps:
        match step.change:
            case Alteration(_, _, changes) as alteration:
                names = {each.name for each in left}
                to = dict(changes.renamed)
                left = tuple(
                    replace(each, name=to.get(each.name, each.name))
                    for each in left
                    if each.name not in changes.dropped
                )
                left += tuple(Constant(each.column.name, each.value, step.segment) for each in changes.added)
                renamed = tuple((old, new) for old, new in changes.renamed if old not in names)
                dropped = tuple(name for name in changes.dropped if name not in names)
                made.append(
                    replace(step, change=replace(alteration, changes=ColumnChanges(renamed, dropped)))
                )
            case TableSchema() as schema:
                made.append(replace(step, change=without_constants(schema, left)))
    return left, tuple(made)


def _with_schema(plan: ColumnPlan, tier: Tier, schema: TableSchema, step: Step) -> ColumnPlan:
    place = 0
    for column in _lake_columns(schema, tier):
        there = _index(plan, column.name)
        if there is not None and (held := _held(plan, plan.columns[there], column, schema, step)):
            found = tuple(held if i == there else each for i, each in enumerate(plan.columns))
            plan, place = replace(plan, columns=found), there + 1
            continue
        if there is not None:
            plan = _aside(plan, column.name, step.segment)
        before, behind = plan.columns[:place], plan.columns[place:]
        plan, place = replace(plan, columns=(*before, PlannedColumn(column, None), *behind)), place + 1
    return replace(plan, present=frozenset(fold_name(column.name) for column in schema.columns))


def has_common_types(plan: ColumnPlan, tier: Tier, schema: TableSchema) -> bool:
    """Returns whether each column of a schema has a type in common with the present one of its name."""
    there = {fold_name(column.name): column.type for column in plan.after}
    return all(
        fold_name(column.name) not in plan.present
        or widened_type(there[fold_name(column.name)], column.type) is not None
        for column in _lake_columns(schema, tier)
    )


def _lake_columns(schema: TableSchema, tier: Tier) -> tuple[LakeColumn, ...]:
    try:
        return columns(schema, tier)
    except Definite as error:
        raise Incompatible(f"{error}: rename it, or leave the table out") from error


def _held(
    plan: ColumnPlan, there: PlannedColumn, column: LakeColumn, schema: TableSchema, step: Step
) -> PlannedColumn | None:
    """Returns the existing column, with the type that this one's values need; None if it is another column."""
    ours = column in META_COLUMNS
    same = there.column.type.casefold() == column.type.casefold()
    if step.begins and not same and _has_form(schema, column.name):
        return None  # a wider type would show in the live view
    type_ = there.column.type if same else widened_type(there.column.type, column.type)
    if type_ is not None and (ours or step.begins or fold_name(column.name) in plan.present):
        return replace(there, column=replace(there.column, type=type_))
    if ours or (fold_name(column.name) in plan.present and not step.begins):
        raise Incompatible(
            f"column {column.name!r} of {schema.table} was {there.column.type.upper()} and is {column.type.upper()}, "
            f"and no type holds both: {COLUMNS_REMEDY.format(table=schema.table)}"
        )
    return None


def _has_form(schema: TableSchema, name: str) -> bool:
    return any(column.name == name and column.form is not None for column in schema.columns)


def retired_name(name: str, segment: object) -> str:
    """Returns the later name of a column that had this name until a segment."""
    return f"{name}__until_{segment}"


def can_hold(has: str, wanted: str) -> bool:
    """Returns whether a column of the type `has` holds all values of `wanted` unchanged."""
    return widened_type(has, wanted) == has.lower()


def _aside(plan: ColumnPlan, name: str, segment: int) -> ColumnPlan:
    """Returns the plan with the column of this name set aside, if there is one."""
    there = _index(plan, name)
    if there is None:
        return plan
    old = plan.columns[there]
    other = retired_name(old.column.name, segment)
    while _index(plan, other) is not None:
        other += "_"
    set_aside = replace(old, column=replace(old.column, name=other))
    return replace(
        plan, columns=tuple(set_aside if i == there else each for i, each in enumerate(plan.columns))
    )


def _index(plan: ColumnPlan, name: str) -> int | None:
    found = (i for i, each in enumerate(plan.columns) if fold_name(each.column.name) == fold_name(name))
    return next(found, None)


# Types

_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# How many digits a decimal needs before its point, so that Delta widens these to it.
_DIGITS = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
_MOST_DIGITS = 38
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# Wider types of other kinds.
_WIDER = {
    frozenset({"float", "double"}): "double",
    **{frozenset({integer, "double"}): "double" for integer in _INTEGERS[:3]},
    frozenset({"date", "timestamp_ntz"}): "timestamp_ntz",
}


def widened_type(has: str, wanted: str) -> str | None:
    """Returns the type to which Delta can widen `has` and that holds all values of `wanted`; None without one."""
    has, wanted = has.lower(), wanted.lower()
    if has == wanted:
        return has
    if has in _INTEGERS and wanted in _INTEGERS:
        return max(has, wanted, key=_INTEGERS.index)
    if "decimal" in f"{has} {wanted}" and (digits := [_digits(has), _digits(wanted)]) and None not in digits:
        whole, scale = (max(each) for each in zip(*filter(None, digits), strict=True))
        return f"decimal({whole + scale},{scale})" if whole + scale <= _MOST_DIGITS else None
    return _WIDER.get(frozenset({has, wanted}))


def _digits(type_: str) -> tuple[int, int] | None:
    """Returns how many digits it may have before and after its point; None if it isn't an exact number."""
    if decimal := _DECIMAL.fullmatch(type_):
        return int(decimal[1]) - int(decimal[2]), int(decimal[2])
    return (_DIGITS[type_], 0) if type_ in _DIGITS else None


# Delta's own form

_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


def needed_features(plan: ColumnPlan, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the table properties that a plan needs and that aren't set."""
    mapped = plan.renames or need_mapping(column.name for column in plan.after)
    wanted = {MAPPING: "name"} if mapped else {}
    wanted |= {"delta.enableTypeWidening": "true"} if plan.widens else {}
    lacking = {name: value for name, value in wanted.items() if properties.get(name) != value}
    return lacking | features_of_types(plan.before, plan.after)


def features_of_types(before: Iterable[LakeColumn], after: Iterable[LakeColumn]) -> dict[str, str]:
    """Returns those that types need. They don't become properties."""
    had, has = ({column.type.lower() for column in of} for of in (before, after))
    return {"delta.feature.timestampNtz": "supported"} if "timestamp_ntz" in has - had else {}


def new_schema_text(of: Iterable[LakeColumn], comments: Mapping[str, str]) -> str:
    """Returns the schema of a new Delta table's metadata, in JSON; `comments`: of columns by name."""
    fields = [_new_field(column.name, _delta_type(column.type)) for column in of]
    told = [
        {**field, "metadata": {"comment": comments[field["name"]]}} if field["name"] in comments else field
        for field in fields
    ]
    return json.dumps({"type": "struct", "fields": told})


def schema_text(plan: ColumnPlan, present: str, pin: str | None = None) -> str:
    """Returns the schema of a Delta table's metadata after a plan, with this pin. It and `present` are JSON."""
    schema = json.loads(present)
    fields = {field["name"]: field for field in schema["fields"]}
    after = [_field(each, fields) for each in plan.columns]
    if pin is not None:
        after.append(fields.get(pin, _new_field(pin, _delta_type(PIN_TYPE))))
    return json.dumps({**schema, "fields": after})


def _field(planned: PlannedColumn, fields: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    type_ = _delta_type(planned.column.type)
    if planned.was is None:
        return _new_field(planned.column.name, type_)
    field = fields[planned.was.name]
    if planned.was.type == planned.column.type:  # with the names that Delta gave a struct's parts
        return {**field, "name": planned.column.name}
    change = {"fromType": field["type"], "toType": type_}
    metadata = {**field["metadata"]}
    metadata["delta.typeChanges"] = [*metadata.get("delta.typeChanges", ()), change]
    return {**field, "name": planned.column.name, "type": type_, "metadata": metadata}


def _new_field(name: str, type_: object) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}


def _delta_type(type_: str) -> object:
    """Returns a type of Spark's SQL in the form of Delta's schemas."""
    type_ = type_.lower()
    if type_.startswith("array<"):
        element = _delta_type(type_.removeprefix("array<").removesuffix(">"))
        return {"type": "array", "elementType": element, "containsNull": True}
    if type_.startswith("struct<"):
        parts = type_.removeprefix("struct<").removesuffix(">").split(",")
        pairs = (part.split(":") for part in parts)
        return {"type": "struct", "fields": [_new_field(name, _delta_type(of)) for name, of in pairs]}
    return _NAMES.get(type_, type_)
