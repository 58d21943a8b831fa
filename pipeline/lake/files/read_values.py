"""Values of a lake table's file with the types that the table's columns have now, as Spark reads them.

A file keeps the types and names that its columns had when it was written. Spark has its own forms in Parquet, too: a
timestamp may have been written as 96 bits, which pyarrow reads without a zone. Whatever isn't certain to be read as
Spark reads it is refused here.
"""

from collections.abc import Sequence

import pyarrow as pa

from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.tables.column_changes import can_hold
from pipeline.lake.tables.spark_sql import spark_type
from pipeline.schema.spelling import fold_name

# How the keys begin with which Spark says in a footer that old dates are of another calendar.
_OTHER_CALENDAR = b"org.apache.spark.legacy"


class ReadBySparkOnly(Exception):
    """Something of a lake table isn't read by this process."""


def check_calendar(footer: pa.KeyValueMetadata | dict[bytes, bytes] | None) -> None:
    """Raises ReadBySparkOnly if the dates of a file are of the calendar that was before the Gregorian one."""
    if any(key.startswith(_OTHER_CALENDAR) for key in footer or ()):
        raise ReadBySparkOnly("a file has dates of the Julian calendar")


def stored_name(names: Sequence[str], wanted: str) -> str | None:
    """Returns the name that a column has in a file with these; None if the file lacks it.

    A column that was renamed in case alone keeps its old name in older files.
    """
    if wanted in names:
        return wanted
    return {fold_name(name): name for name in names}.get(fold_name(wanted))


def spark_values(values: pa.Array, kind: pa.DataType, parts: Sequence[Stored] = ()) -> pa.Array:
    """Returns values of a file as those of a column of this type. Raises ReadBySparkOnly.

    `parts`: those of a struct, by their names in the table's files.
    """
    if values.type == kind and not pa.types.is_nested(kind):
        return values
    if pa.types.is_struct(kind):
        return _struct(values, kind, parts)
    if not _is_held(values.type, kind):
        raise ReadBySparkOnly(f"a file has values of {values.type} where its table has {kind}")
    if pa.types.is_list(kind) and values.flatten().null_count:
        raise ReadBySparkOnly("a file has a list with a null")
    return values.cast(kind)


def _struct(values: pa.Array, kind: pa.StructType, parts: Sequence[Stored]) -> pa.Array:
    there = [field.name for field in values.type] if pa.types.is_struct(values.type) else []
    named = [stored_name(there, part.name) for part in parts]
    if len(named) != kind.num_fields or None in named:
        raise ReadBySparkOnly(f"a file has values of {values.type} where its table has {kind}")
    read = [spark_values(values.field(name), field.type) for name, field in zip(named, kind, strict=True)]
    return pa.StructArray.from_arrays(read, fields=list(kind), mask=values.is_null())


def _is_held(has: pa.DataType, kind: pa.DataType) -> bool:
    """Returns whether Spark reads the one type as the other, which holds all of its values."""
    if has == pa.timestamp("us"):
        has = kind if pa.types.is_timestamp(kind) else has
    try:
        return can_hold(spark_type(kind), spark_type(has))
    except KeyError:  # it isn't a type of Spark's
        return False
