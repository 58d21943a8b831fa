"""The lake's tables: where they are, what columns they have, and the statements that make and alter them.

Each captured table becomes two. The *changelog* takes every change as it comes, with the journal's meta columns. The
*mirror* has the table's own columns and equals the source at an older position: its first snapshot is appended to it,
and from then on changes are merged into it, rarely and many at a time (`pipeline.lake.merge`). What a reader wants to
see is made of both (`pipeline.lake.live_view`).
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

import pyarrow as pa

from pipeline.errors import Definite
from pipeline.journal.change_rows import META
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableId, TableSchema, from_json

# The column that holds the number of the segment in which a change was sealed.
SEGMENT = "__segment"

# The names that queries of ours give to what they make. MySQL refuses a name that ends with a space, so that no table
# and no column has one of these. MIRROR and CHANGED: a table's mirror, and what its changes have made of keys. RANK:
# the place of a change among those of its key, the last one being 1. WHOLE: in a table whose changes may lack columns,
# what they leave of a row: null, a row of the mirror's with other values in some columns; true, a whole row; false,
# none that could be shown.
MIRROR, CHANGED, RANK, WHOLE = "mirror ", "changed ", "rank ", "whole "

# The columns that Spark and Delta add to those that they read: where one of a table's own has such a name, Delta can't
# read its deletion vectors, or reads the wrong column.
_THEIRS = re.compile(r"_metadata|__delta_internal_.*|_tmp_metadata_.*", re.DOTALL)

# How long (hours) a version of a changelog that isn't the newest can be read. What it had at an earlier moment it says
# by itself: its rows have the segment that they came with.
CHANGELOG_VERSIONS_H = 24

# The property by which a Delta table's columns have names of their own in its files.
MAPPING: Final = "delta.columnMapping.mode"

# What a table's column may not have in its name without column mapping (Delta: Column mapping).
_UNFIT = set(" ,;{}()\n\t=")


class Tier(StrEnum):
    """The two lake tables of a captured table."""

    CHANGELOG = "changelog"
    MIRROR = "mirror"


class Property(StrEnum):
    """What a lake table says of itself, as table properties.

    JOURNAL: the id of the journal that it's fed from. SCHEMA: the source's schema that it has taken on, as JSON, and
    SINCE the segment that this came with. PARTIAL: changes in it may lack columns. STOPPED: why nothing more is
    delivered to it, else empty, and STOPPED_AT the SCN through which the journal was read then. ALTERING: what its
    columns are about to become, where that takes more than a commit; else empty. PIN: the column that texts of the live
    view are bound to (`pipeline.lake.live_view`), which a mirror has once it's complete. REBUILDING: that a generation
    of the mirror is being filled (`Rebuilding`); empty where none is. MERGED: the segment that a mirror had merged when
    it was swapped in. CONSTANTS: the columns of its schema that a mirror lacks (`Constant`); empty if there are none.
    """

    JOURNAL = "tidemark.journal"
    SCHEMA = "tidemark.schema"
    SINCE = "tidemark.since"
    PARTIAL = "tidemark.partial"
    STOPPED = "tidemark.stopped"
    STOPPED_AT = "tidemark.stoppedAt"
    ALTERING = "tidemark.altering"
    PIN = "tidemark.pin"
    REBUILDING = "tidemark.rebuilding"
    MERGED = "tidemark.merged"
    CONSTANTS = "tidemark.constants"


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A generation of a mirror that is being filled, as the mirror tells it; its own, where it only lacks constants.

    `segment`: the last one that brought changes to the complete mirror that readers see meanwhile, which is the source
    at its end; None if the first snapshot fills the mirror itself, or the mirror lacks constants alone. `since`: when
    that began (s since the epoch).
    """

    generation: int
    segment: int | None
    since: float

    @staticmethod
    def read(text: str) -> "Rebuilding":
        """What `text` has written."""
        return Rebuilding(**json.loads(text))

    @property
    def text(self) -> str:
        """All of it, as a table property has it."""
        return json.dumps({"generation": self.generation, "segment": self.segment, "since": self.since})


@dataclass(frozen=True, slots=True)
class Constant:
    """The column `name` has this value, as text, in all rows that came before a segment."""

    name: str
    value: str
    segment: int

    def sql(self, type_: str) -> str:
        """The value as one of a type, in Spark's SQL."""
        return f"CAST({literal(self.value)} AS {type_})"


def constants_text(constants: Iterable[Constant]) -> str:
    """Constants as a table property has them, which is empty for none."""
    return json.dumps([[each.name, each.value, each.segment] for each in constants]) if constants else ""


def without_constants(schema: TableSchema, constants: Iterable[Constant]) -> TableSchema:
    """The schema without their columns, none of which is in its key."""
    names = {each.name for each in constants}
    left = [i for i, column in enumerate(schema.columns) if column.name not in names]
    return TableSchema(
        schema.table, tuple(schema.columns[i] for i in left), tuple(left.index(i) for i in schema.key)
    )


_PIN: Final = "__generation_"
PIN_TYPE: Final = "BOOLEAN"


def pin_of(generation: int) -> str:
    """The name of the column that says which generation of the mirror a lake table is for; it's always null."""
    return f"{_PIN}{generation}"


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a version of a lake table says of itself: its properties, and how far each application has committed."""

    properties: Mapping[str, str]
    applications: Mapping[str, int]

    @property
    def schema(self) -> TableSchema | None:
        """The source's schema that its rows have, None where nothing has come of it yet."""
        whole = self.whole_schema
        return whole and without_constants(whole, self.constants)

    @property
    def whole_schema(self) -> TableSchema | None:
        """The source's schema that it has taken on, with the columns that its rows lack."""
        text = self.properties.get(Property.SCHEMA)
        return None if text is None else from_json(json.loads(text))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """The columns of the source that its rows lack."""
        text = self.properties.get(Property.CONSTANTS)
        return tuple(Constant(*each) for each in json.loads(text)) if text else ()

    @property
    def since(self) -> int:
        """The segment that this schema came with."""
        return int(self.properties.get(Property.SINCE, 0))

    @property
    def pin(self) -> str | None:
        """The column that texts of the live view are bound to, None where there's none."""
        return self.properties.get(Property.PIN)

    @property
    def rebuilding(self) -> Rebuilding | None:
        """The generation that is being filled, None where the mirror is complete."""
        text = self.properties.get(Property.REBUILDING)
        return Rebuilding.read(text) if text else None

    @property
    def first(self) -> bool:
        """Whether it's a mirror that its first snapshot is filling, so that it has never been complete."""
        return self.pin is None and self.rebuilding is not None

    @property
    def frozen(self) -> bool:
        """Whether it's a complete mirror that stays as it is, while a later generation is filled beside it."""
        filled = self.rebuilding
        return self.pin is not None and filled is not None and filled.generation != self.generation

    @property
    def generation(self) -> int:
        """A mirror's generation, which a complete one says by its pin."""
        return self.mark("generation") if self.pin is None else int(self.pin.removeprefix(_PIN))

    @property
    def merged(self) -> int:
        """The segment whose changes a mirror has all merged."""
        return max(self.mark("merged"), self._swapped)

    @property
    def rows(self) -> int:
        """The segment through which a mirror has all rows of snapshots; one that was swapped in came with them."""
        return max(self.mark("rows"), self._swapped)

    @property
    def _swapped(self) -> int:
        return int(self.properties.get(Property.MERGED, 0))

    @property
    def altering(self) -> bool:
        """Whether its columns are between two schemas."""
        return bool(self.properties.get(Property.ALTERING))

    def mark(self, name: str) -> int:
        """How far the journal that it's fed from has come with one of its marks (`actors.lake.lake`)."""
        return self.applications.get(f"{self.properties.get(Property.JOURNAL)}/{name}", 0)


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a lake table; `type` as Spark's SQL writes it."""

    name: str
    type: str


# Filesystems take names of 255 bytes.
_LONGEST_FOLDER: Final = 220


def location(lake: str, table: TableId, tier: Tier) -> str:
    """The path of a lake table: LAKE/database/table/tier.

    In names, whatever isn't a letter, a digit, `-` or an inner `_` of ASCII is written as `~` and two hex digits for
    each byte of UTF-8. So no name is hidden (leading `_` or `.`), climbs (`..`), or means something to Hadoop (`%`,
    `*`, `=`), and two tables never share a path. Of a name that gets too long for a filesystem by that the end is a
    digest.
    """
    return "/".join((lake.rstrip("/"), _folder(table.database), _folder(table.name), tier))


def shadow(lake: str, table: TableId, generation: int) -> str:
    """The path of the lake table in which a generation of the mirror is filled while readers see the one before."""
    return f"{shadows(lake, table)}{generation}"


def shadows(lake: str, table: TableId) -> str:
    """How the paths of all such tables begin."""
    return f"{location(lake, table, Tier.MIRROR)}-next-"


def columns(schema: TableSchema, tier: Tier) -> tuple[LakeColumn, ...]:
    """A lake table's columns. Raises Definite where the source's can't be had under their names."""
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


def need_mapping(names: Iterable[str]) -> bool:
    """Whether a table with such column names needs Delta's column mapping, from its making or such a column on."""
    return any(_UNFIT & set(name) for name in names)


def spark_type(arrow: pa.DataType) -> str:
    """Spark's SQL name of a canonical Arrow type."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"ARRAY<{spark_type(arrow.value_type)}>"
    return SPARK_TYPES[arrow]


# Of those types that have no parameters.
SPARK_TYPES = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.date32(): "DATE",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP",
}

# The columns before the table's own in the journal's changes files, and in a changelog.
META_COLUMNS = tuple(LakeColumn(f.name, spark_type(f.type)) for f in META)


def ddl(of: Iterable[LakeColumn]) -> str:
    """Columns as CREATE TABLE and Spark's readers take them."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in of)


def create_sql(path: str, tier: Tier, of: tuple[LakeColumn, ...], properties: Mapping[str, str]) -> str:
    """The statement that makes a lake table where there's none.

    A log without a version, as a kill may leave it, it takes for a table.
    """
    return f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({ddl(of)}) USING delta {_settings(tier, of, properties)}"


def begin_sql(
    path: str,
    tier: Tier,
    of: tuple[LakeColumn, ...],
    properties: Mapping[str, str],
    rows: str | None = None,
) -> str:
    """The statement that makes a lake table with just these columns, and a query's rows or none, whatever is there.

    Of the forms of this statement it's the one with a query that Delta makes but once for an application's transaction.
    """
    if rows is None:
        nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in of)
        rows = f"SELECT {nothing} WHERE false"
    return f"CREATE OR REPLACE TABLE {table_at(path)} USING delta {_settings(tier, of, properties)} AS {rows}"


# There are some commits to a changelog a second, and whoever looks for the newest one goes through the names of all; so
# they're kept for CHANGELOG_VERSIONS_H and not for thirty days. Deletion vectors keep a merge from writing each file of
# a mirror anew in which it finds a key.
_SETTINGS: Final = {
    Tier.CHANGELOG: {
        "delta.deletedFileRetentionDuration": f"interval {CHANGELOG_VERSIONS_H} hours",
        "delta.logRetentionDuration": f"interval {CHANGELOG_VERSIONS_H} hours",
    },
    Tier.MIRROR: {"delta.enableDeletionVectors": "true"},
}


def _settings(tier: Tier, of: tuple[LakeColumn, ...], properties: Mapping[str, str]) -> str:
    mapping = {MAPPING: "name"} if need_mapping(column.name for column in of) else {}
    return _properties(
        {**_SETTINGS[tier], **mapping, **{str(key): value for key, value in properties.items()}}
    )


def set_properties_sql(path: str, properties: Mapping[str, str]) -> str:
    """The statement that sets table properties."""
    return f"ALTER TABLE {table_at(path)} SET {_properties(properties)}"


def table_at(path: str) -> str:
    """How Spark's SQL names the Delta table at a path."""
    return f"delta.{quoted(path)}"


def quoted(name: str) -> str:
    """A name as an identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _properties(properties: Mapping[str, str]) -> str:
    pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
    return f"TBLPROPERTIES ({pairs})"


def _folder(name: str) -> str:
    escaped = _escaped(name)
    if len(escaped) <= _LONGEST_FOLDER:
        return escaped
    return f"{escaped[:_LONGEST_FOLDER]}~~{sha256(name.encode()).hexdigest()[:32]}"


def _escaped(name: str) -> str:
    return "".join(
        chr(byte)
        if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) == "-" or (byte == 0x5F and at > 0))
        else f"~{byte:02X}"
        for at, byte in enumerate(name.encode())
    )
