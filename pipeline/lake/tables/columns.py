"""The columns of the lake's tables."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pipeline.errors import Definite
from pipeline.journal.change_rows import META
from pipeline.lake.tables.spark_sql import quoted, spark_type
from pipeline.lake.tables.tier import Tier
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableSchema
from pipeline.types.column_types import Integer
from pipeline.types.lake_forms import LakeForm

# The column that holds the number of the segment in which a change was sealed.
SEGMENT = "__segment"

# The columns that Spark and Delta add when they read. If a table's own column has such a name, Delta can't read its
# deletion vectors, or reads the wrong column.
_THEIRS = re.compile(r"_metadata|__delta_internal_.*|_tmp_metadata_.*", re.DOTALL)

_PIN: Final = "__generation_"
PIN_TYPE: Final = "BOOLEAN"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a lake table; `type` is Spark's SQL."""

    name: str
    type: str


# The columns before the table's own in the journal's changes files, and in a changelog.
META_COLUMNS = tuple(LakeColumn(f.name, spark_type(f.type)) for f in META)

# What they say, in a new changelog.
META_COMMENTS: Final = {
    "__op": "c: a row came; u: it changed; d: it went; r: a snapshot read it; t: the table was emptied, "
    "or all its rows come next (r); b: what an update found",
    "__scn": "the number of the transaction or chunk; with __ordinal the order of the source's commits",
    "__ordinal": "the place of the row in its transaction",
    "__gtid": "the source's transaction; null for r",
    "__commit_time": "when the source committed; null for r",
    "__chunk": "the chunk that read the row; null except for r",
    "__absent": "the columns that the log left out of this row; null if it is complete",
    "__segment": "the segment of the journal that brought the row",
}


def pin_of(generation: int) -> str:
    """Returns the name of the column, always null, that says which generation of the mirror a table is for."""
    return f"{_PIN}{generation}"


def generation_of(pin: str) -> int:
    """Returns the generation that `pin_of` was given."""
    return int(pin.removeprefix(_PIN))


def columns(schema: TableSchema, tier: Tier) -> tuple[LakeColumn, ...]:
    """Returns a lake table's columns. Raises Definite if it can't have the source's columns under their names."""
    own = [LakeColumn(field.name, spark_type(field.type)) for field in schema.arrow]
    seen: dict[str, str] = {}
    for column in own:
        name = fold_name(column.name)
        if name in META.names or name.startswith(_PIN):
            raise Definite(
                f"column {column.name!r} of {schema.table} has the name of a column that Tidemark adds"
            )
        if _THEIRS.fullmatch(name):
            raise Definite(
                f"column {column.name!r} of {schema.table} has a name that Spark and Delta keep for themselves"
            )
        if name in seen:
            raise Definite(
                f"Spark takes the columns {seen[name]!r} and {column.name!r} of {schema.table} for one"
            )
        seen[name] = column.name
    return tuple(own) if tier is Tier.MIRROR else (*META_COLUMNS, *own)


def refused_names(schema: TableSchema) -> str | None:
    """Returns why a lake table can't have the source's columns under their names, None if it can."""
    try:
        columns(schema, Tier.MIRROR)
    except Definite as error:
        return str(error)
    return None


def ordered_key(schema: TableSchema) -> tuple[str, ...]:
    """Returns the parts of the key that have one order in MySQL, in Spark and in Delta's statistics."""
    key = schema.key_columns
    return tuple(c.name for c in key if isinstance(c.type, Integer) and c.form is not LakeForm.BOOLEAN)


def ddl(of: Iterable[LakeColumn]) -> str:
    """Returns columns as CREATE TABLE and Spark's readers take them."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in of)
