"""Which columns the lake has in another form than the usual one (`pipeline.types.lake_forms`).

A rule names columns by patterns, of the tables that other patterns match. Of the rules that name a column, the first
one whose type fits it holds. A rule says nothing about columns of other types, so a wide pattern does no harm.

A column keeps its form as long as a generation of its table's mirror lasts (`keep_forms`). If the rules then want
another form, the table begins again (`pipeline.lake.step`).
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

import pyarrow.compute as pc

from pipeline.config.column_rules import whole_name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Json
from pipeline.types.lake_forms import LakeForm, form_fits


class LakeType(StrEnum):
    """What a rule can give a column in the lake."""

    LONG = "long"
    DECIMAL = "decimal"  # of BIGINT UNSIGNED, which has it by default
    BOOLEAN = "boolean"
    TEXT = "text"  # of TIME; JSON has it by default
    UUID = "uuid"
    SWAPPED_UUID = "uuid-swapped"
    WKB = "wkb"
    DEFAULT = "default"  # what a column has without a rule
    INTERVAL = "interval"  # known, and refused
    VARIANT = "variant"  # likewise


# Why a type that people ask for can't be had, and what to do.
UNAVAILABLE: Final = {
    LakeType.INTERVAL: (
        "a Delta table can't have intervals",
        'take "text", or leave the column as it is: a BIGINT of microseconds',
    ),
    LakeType.VARIANT: (
        "the lake doesn't write Spark's VARIANT",
        "leave the column as it is, and read it with parse_json(…)",
    ),
}

_FORMS: Final = {
    LakeType.LONG: LakeForm.LONG,
    LakeType.BOOLEAN: LakeForm.BOOLEAN,
    LakeType.UUID: LakeForm.UUID,
    LakeType.SWAPPED_UUID: LakeForm.SWAPPED_UUID,
    LakeType.WKB: LakeForm.WKB,
}


@dataclass(frozen=True, slots=True)
class LakeTypeRule:
    """`columns` of `tables`, if they are of a type that fits, have this `type` in the lake.

    `columns`: regular expressions (RE2, in any case) over the column's name that match the whole name.
    """

    tables: TableFilter
    columns: tuple[str, ...]
    type: LakeType

    def names(self, table: TableId, column: str) -> bool:
        """Returns whether the rule names this column."""
        return self.tables.match(table) and any(
            pc.match_substring_regex(column, whole_name(pattern)).as_py() for pattern in self.columns
        )

    def fits(self, column: Column) -> bool:
        """Returns whether a column of this type can have what the rule says."""
        match self.type, column.type:
            case LakeType.DEFAULT, _:
                return True
            case LakeType.DECIMAL, Integer(8, unsigned=True):
                return True
            case LakeType.TEXT, Json():
                return True
            case LakeType.TEXT, kind:
                return form_fits(LakeForm.TEXT, kind)
            case _:
                form = _FORMS.get(self.type)
                return form is not None and form_fits(form, column.type)

    def form(self, column: Column) -> LakeForm | None:
        """Returns the form of a column that the rule fits, None for the usual one."""
        if self.type is LakeType.TEXT:
            return None if isinstance(column.type, Json) else LakeForm.TEXT
        return _FORMS.get(self.type)


@lru_cache(maxsize=4096)
def form_by_rules(rules: tuple[LakeTypeRule, ...], schema: TableSchema) -> TableSchema:
    """Returns a schema of the journal with the forms that the rules give its columns."""
    return replace(schema, columns=tuple(replace(c, form=_form(rules, schema, c)) for c in schema.columns))


@lru_cache(maxsize=4096)
def keep_forms(rules: tuple[LakeTypeRule, ...], schema: TableSchema, present: TableSchema) -> TableSchema:
    """Returns a schema of the journal with the forms of the columns in a lake table that has the schema `present`.

    A new column has the form that the rules give it. A column whose new type can't have its form has the usual one.
    """
    known = {column.name: column.form for column in present.columns}
    columns = []
    for column in schema.columns:
        form = known[column.name] if column.name in known else _form(rules, schema, column)
        fits = form is not None and form_fits(form, column.type)
        columns.append(replace(column, form=form if fits else None))
    return replace(schema, columns=tuple(columns))


def forms_differ(rules: tuple[LakeTypeRule, ...], present: TableSchema) -> bool:
    """Returns whether the rules want other forms than those that a lake table with this schema has."""
    return (bool(rules) or present.formed) and form_by_rules(rules, present.unformed) != present


def refused_types(rules: tuple[LakeTypeRule, ...], schema: TableSchema) -> str | None:
    """Returns why the rules can't hold for a table, and what to do; None if they can."""
    for column in form_by_rules(rules, schema.unformed).key_columns:
        if column.form is LakeForm.WKB:
            return (
                f"column {column.name!r} of {schema.table} is in the primary key, and lake.types has type = "
                f'"{column.form}" for it, which is no single value; except the column with type = "default" in an '
                "earlier rule"
            )
    return None


def _form(rules: tuple[LakeTypeRule, ...], schema: TableSchema, column: Column) -> LakeForm | None:
    found = (rule for rule in rules if rule.fits(column) and rule.names(schema.table, column.name))
    rule = next(found, None)
    return None if rule is None else rule.form(column)
