"""Schema evolution: whether a table's rows under one schema are, unchanged, its rows under the next one.

If they aren't, they can't be used further, because the log doesn't have what the server made of the values. Then the
table's mirror begins a new generation (`pipeline.snapshot.checkpoint.Mirror`). This module assumes that no value was
cut to fit. If one may have been, the mirror begins again with the statement (`pipeline.schema.ddl.unlogged_changes`).
"""

from itertools import zip_longest
from typing import Final

import pyarrow as pa

from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types import column_types as t
from pipeline.types.enum_labels import labels_agree

_OTHER_FORM: Final = (
    'lake.types has type = "{form}" for column {column!r} of {table}, and its type before or after a statement '
    "does not fit"
)


def schemas_agree(one: TableSchema, other: TableSchema) -> bool:
    """Whether the two are one schema, as far as labels are known (`pipeline.types.enum_labels`)."""
    return one == other or (
        one.table == other.table
        and one.key == other.key
        and len(one.columns) == len(other.columns)
        and all(map(_agree, one.columns, other.columns))
    )


def _agree(one: Column, other: Column) -> bool:
    match one.type, other.type:
        case (t.Enum(labels), t.Enum(others)) | (t.Set(labels), t.Set(others)):
            return (one.name, one.nullable) == (other.name, other.nullable) and labels_agree(labels, others)
        case _:
            return one == other


def difference(source: TableSchema, log: TableSchema) -> str:
    """How two schemas differ that don't agree."""
    if source.key_names != log.key_names:
        names = (", ".join(schema.key_names) or "none" for schema in (source, log))
        return "its primary key is ({}) at the source, and ({}) in the log".format(*names)
    pairs = zip_longest(source.columns, log.columns)
    one, other = next((pair for pair in pairs if None in pair or not _agree(*pair)), (None, None))
    return f"the source has {one or 'no column'} where the log has {other or 'none'}"


def incompatibility(present: TableSchema, new: TableSchema) -> str | None:
    """Why rows of `present` can't stay as they are under `new`, or None if they can.

    They can if columns have only moved, or been added with NULL for the rows that there were.
    """
    if present.key_names != new.key_names:
        before, after = (", ".join(names) or "none" for names in (present.key_names, new.key_names))
        return f"the primary key of {new.table} was ({before}) and is ({after})"
    has, had = ({column.name: column for column in schema.columns} for schema in (new, present))
    for column in present.columns:
        if column.name not in has:
            return f"column {column.name!r} of {new.table} was dropped or renamed"
        if column.form != has[column.name].form:
            return _OTHER_FORM.format(
                column=column.name, table=new.table, form=column.form or has[column.name].form
            )
        if not _keeps(column, has[column.name]):
            return f"column {column.name!r} of {new.table} was {column.type} and is {has[column.name].type}"
    for column in new.columns:
        if column.name not in had and not column.nullable:
            return (
                f"column {column.name!r} was added to {new.table} as NOT NULL, so that its rows got a value that no "
                "change has"
            )
    return None


def _keeps(old: Column, new: Column) -> bool:
    """Whether each value of the old column that the new one has room for is the same value there."""
    if t.arrow_type(old.type) != t.arrow_type(new.type):
        return _widens(old.type, new.type)
    match old.type, new.type:
        case (t.Enum(before), t.Enum(after)) | (t.Set(before), t.Set(after)):
            return labels_agree(after[: len(before)], before)
        case (t.Text(before_charset), t.Text(after_charset)):
            # The one character set that turns a character into another one without an error: U+6661 into U+6659.
            return before_charset == after_charset or after_charset != "cp932"
        case (t.FixedBinary(before_width), t.FixedBinary(after_width)):
            return before_width == after_width
        case (t.Bit(before_width), t.Bit(after_width)):
            return (before_width + 7) // 8 == (after_width + 7) // 8
        case (t.Decimal(_, before_scale), t.Decimal(_, after_scale)):  # as text, which has all digits
            return before_scale == after_scale
        case (t.Time(before_digits), t.Time(after_digits)):
            return before_digits <= after_digits
        case (t.DateTime(before_digits), t.DateTime(after_digits)):
            return before_digits <= after_digits
        case (t.Timestamp(before_digits), t.Timestamp(after_digits)):
            return before_digits <= after_digits
        case _:
            return type(old.type) is type(new.type)


def _widens(old: t.ColumnType, new: t.ColumnType) -> bool:
    """Whether values that are kept in another form are the same numbers, or moments."""
    match old, new:
        case (t.Integer() | t.Year(), t.Integer()) | (t.Float(), t.Double()) | (t.Date(), t.DateTime()):
            return True
        case t.Integer(), t.Decimal():
            return _is_number(new)
        case t.Decimal(_, before), t.Decimal(_, after):
            return before <= after and _is_number(old) and _is_number(new)
        case t.Integer(), t.Double():
            # Kept as an int32 at most, as Delta wants it.
            return old.bytes <= (2 if old.unsigned else 4)
        case _:
            return False


def _is_number(column: t.ColumnType) -> bool:
    """Whether it isn't kept as text, as decimals of very many digits are."""
    return bool(pa.types.is_decimal(t.arrow_type(column)))
