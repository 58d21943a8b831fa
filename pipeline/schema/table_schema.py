"""Tables, their columns and their versions.

A schema says of each column exactly what both the log (a TABLE_MAP event with full metadata) and the server's
information_schema can say, no more. So the two can be held equal, and `version` (a digest of all of it) names the
same schema whichever way it came.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import pyarrow as pa

from pipeline.types.column_types import ColumnType
from pipeline.types.lake_forms import LakeForm, lake_arrow_type

_KINDS: dict[str, Callable[..., ColumnType]] = {kind.wire: kind for kind in get_args(ColumnType)}


class TableId(NamedTuple):
    """A table by its database and name, as the server spells them. Most dictionaries have it as their key."""

    database: str
    name: str

    def __str__(self) -> str:
        """No other table has this text: names with a dot or a backtick in them are quoted as in SQL."""
        if any(sign in name for name in (self.database, self.name) for sign in ".`"):
            return self.quoted
        return self.dotted

    @property
    def quoted(self) -> str:
        """Returns both names quoted as in SQL."""
        return ".".join("`" + name.replace("`", "``") + "`" for name in (self.database, self.name))

    @property
    def dotted(self) -> str:
        """Returns the name that patterns match and that Debezium uses. If names have dots, two tables may share it."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type, and whether it may be NULL.

    `form`: how the lake has its values, None for the usual form. Only schemas of lake tables have forms.
    """

    name: str
    type: ColumnType
    nullable: bool
    form: LakeForm | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table's columns in their order.

    `key` holds the indices of the primary key's columns in the key's own order; it's empty where there is none.
    """

    table: TableId
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        """Returns the same for equal schemas. It leaves the columns out: each look-up would hash all of them."""
        return hash((self.table, self.key, len(self.columns)))

    @property
    def version(self) -> str:
        """16 hex digits that are the same for equal schemas, on any machine and in any run.

        Each segment needs those of all captured tables, and a digest takes 0.03 ms. So a schema keeps its own. A cache
        of fewer schemas than there are tables would never have one.
        """
        if not self._digest:
            object.__setattr__(self, "_digest", _version(self))
        return self._digest

    @property
    def arrow(self) -> pa.Schema:
        """The schema of this table's rows: names and canonical types, all nullable, as a zero date is null here."""
        return _arrow(self)

    @property
    def formed(self) -> bool:
        """Whether a column has another form than the usual one."""
        return any(column.form is not None for column in self.columns)

    @property
    def unformed(self) -> "TableSchema":
        """The schema that the journal has: each column in the usual form."""
        return replace(self, columns=tuple(replace(c, form=None) for c in self.columns))

    @property
    def key_version(self) -> str:
        """Like `version`, of the primary key's columns alone: where it differs, keys of the two don't compare."""
        return TableSchema(self.table, self.key_columns, tuple(range(len(self.key)))).version

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The primary key's columns, in the key's order."""
        return tuple(self.columns[i] for i in self.key)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The primary key's column names, in the key's order."""
        return tuple(column.name for column in self.key_columns)


# Equal schemas come from many places: of each file, and of each entry that is read.
@lru_cache(maxsize=65_536)
def _version(schema: TableSchema) -> str:
    return hashlib.sha256(json.dumps(to_json(schema), sort_keys=True).encode()).hexdigest()[:16]


# Each slice of the log needs it for each of its tables.
@lru_cache(maxsize=4096)
def _arrow(schema: TableSchema) -> pa.Schema:
    fields = [pa.field(c.name, lake_arrow_type(c.type, c.form), nullable=True) for c in schema.columns]
    return pa.schema(fields)


def to_json(schema: TableSchema) -> dict[str, object]:
    """A schema as plain JSON values; `from_json` is its inverse."""
    return {
        "database": schema.table.database,
        "table": schema.table.name,
        "columns": [
            {
                "name": c.name,
                "type": _type_to_json(c.type),
                "nullable": c.nullable,
                **({} if c.form is None else {"form": c.form.value}),
            }
            for c in schema.columns
        ],
        "key": list(schema.key),
    }


# Most tables have the same few types.
@lru_cache(maxsize=1024)
def _type_to_json(of: ColumnType) -> dict[str, object]:
    """Returns a type as plain JSON values, which no caller may change."""
    return {"kind": of.wire, **asdict(of)}


def from_json(value: dict[str, object]) -> TableSchema:
    """The schema that `to_json` wrote. Raises KeyError or TypeError where it's not one."""
    columns = value["columns"]
    key = value["key"]
    if not isinstance(columns, list) or not isinstance(key, list):
        raise TypeError("a table's columns and key are lists")
    return TableSchema(
        table=TableId(str(value["database"]), str(value["table"])),
        columns=tuple(map(_column_from_json, columns)),
        key=tuple(int(i) for i in key),
    )


def _column_from_json(value: dict[str, Any]) -> Column:
    form = value.get("form")
    kind = _type_from_json(value["type"])
    return Column(value["name"], kind, bool(value["nullable"]), None if form is None else LakeForm(form))


def _type_from_json(value: dict[str, object]) -> ColumnType:
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items() if k != "kind"}
    return _KINDS[str(value["kind"])](**arguments)
