"""The lake's tables: their paths, their columns, and the statements that create and alter them.

Each captured table becomes two. The *changelog* takes every change, with the journal's meta columns. The *mirror* has
the table's own columns and equals the source at an older position. It gets its first snapshot as appended rows, and
from then on merges of many changes at a time (`pipeline.lake.mirrors.merge`). Readers see both together
(`pipeline.lake.live_view`).
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
from pipeline.types.column_types import Integer
from pipeline.types.lake_forms import LakeForm

# The column that holds the number of the segment in which a change was sealed.
SEGMENT = "__segment"

# Names in our queries. MySQL refuses a name that ends with a space, so no table and no column has one of these. MIRROR
# and CHANGED: a table's mirror, and the last state of its changed keys. RANK: the place of a change among those of its
# key; the last one has 1. WHOLE: in a table whose changes may lack columns, what they leave of a row: null, the
# mirror's row with other values in some columns; true, a complete row; false, no row that could be shown.
MIRROR, CHANGED, RANK, WHOLE = "mirror ", "changed ", "rank ", "whole "

# The columns that Spark and Delta add when they read. If a table's own column has such a name, Delta can't read its
# deletion vectors, or reads the wrong column.
_THEIRS = re.compile(r"_metadata|__delta_internal_.*|_tmp_metadata_.*", re.DOTALL)

# For how many hours an older version of a changelog can be read. Its rows have the segment that they came with, so the
# newest version has every earlier state.
CHANGELOG_VERSIONS_H = 24

# The property by which a Delta table's columns have names of their own in its files.
MAPPING: Final = "delta.columnMapping.mode"

# The characters that a column's name may not have without column mapping (Delta: Column mapping).
_UNFIT = set(" ,;{}()\n\t=")


class Tier(StrEnum):
    """The two lake tables of a captured table."""

    CHANGELOG = "changelog"
    MIRROR = "mirror"


class Property(StrEnum):
    """What a lake table reports about itself, as table properties.

    JOURNAL: the id of the journal that feeds it. SCHEMA: the source's schema that it has, as JSON, and SINCE: the
    segment that this came with. PARTIAL: changes in it may lack columns. STOPPED: why the sink delivers nothing more to
    it, else empty, and STOPPED_AT: the SCN through which the sink had read the journal then. ALTERING: the columns that
    it is about to get, if that takes several commits; else empty. PIN: the column that texts of the live view are bound
    to (`pipeline.lake.live_view`), once a mirror is complete. REBUILDING: that a generation of the mirror is being
    filled (`Rebuilding`); else empty. MERGED: the segment that a mirror had merged when a swap brought it, or when it
    was shown first. CONSTANTS: the columns of its schema that a mirror lacks (`Constant`); empty if there are none.
    AFTER: the mark `after` (`actors.lake.lake`) of a lake table in whose place a mirror has come.
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
    ABOUT = "tidemark.about"
    CAPTURE_STOPPED = "tidemark.captureStopped"
    AFTER = "tidemark.after"


@dataclass(frozen=True, slots=True)
class Rebuilding:
    """A generation of a mirror that is being filled, as the mirror reports it. It is its own if it only lacks
    constants.

    `segment`: the last one that brought changes to the complete mirror that readers see meanwhile. That mirror is the
    source at the segment's end. None if the first snapshot fills the mirror itself, or if the mirror only lacks
    constants. `since`: when that began (s since the epoch).
    """

    generation: int
    segment: int | None
    since: float

    @staticmethod
    def read(text: str) -> "Rebuilding":
        """Parses what `text` returns."""
        return Rebuilding(**json.loads(text))

    @property
    def text(self) -> str:
        """Returns it as a table property."""
        return json.dumps({"generation": self.generation, "segment": self.segment, "since": self.since})


@dataclass(frozen=True, slots=True)
class Constant:
    """The column `name` has this value, as text, in all rows from before a segment."""

    name: str
    value: str
    segment: int

    def sql(self, type_: str) -> str:
        """Returns the value with this type, in Spark's SQL."""
        return f"CAST({literal(self.value)} AS {type_})"


def constants_text(constants: Iterable[Constant]) -> str:
    """Returns constants as a table property, which is empty for none."""
    return json.dumps([[each.name, each.value, each.segment] for each in constants]) if constants else ""


def without_constants(schema: TableSchema, constants: Iterable[Constant]) -> TableSchema:
    """Returns the schema without these columns. None of these is in its key."""
    names = {each.name for each in constants}
    left = [i for i, column in enumerate(schema.columns) if column.name not in names]
    return TableSchema(
        schema.table, tuple(schema.columns[i] for i in left), tuple(left.index(i) for i in schema.key)
    )


_PIN: Final = "__generation_"
PIN_TYPE: Final = "BOOLEAN"


def pin_of(generation: int) -> str:
    """Returns the name of the column, always null, that says which generation of the mirror a table is for."""
    return f"{_PIN}{generation}"


@dataclass(frozen=True, slots=True)
class TableReport:
    """What a version of a lake table reports: its properties, and how far each application has committed."""

    properties: Mapping[str, str]
    applications: Mapping[str, int]

    @property
    def schema(self) -> TableSchema | None:
        """Returns the source's schema that its rows have, None if it has none yet."""
        whole = self.whole_schema
        return whole and without_constants(whole, self.constants)

    @property
    def whole_schema(self) -> TableSchema | None:
        """Returns the source's schema that it has, with the columns that its rows lack."""
        text = self.properties.get(Property.SCHEMA)
        return None if text is None else from_json(json.loads(text))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Returns the columns of the source that its rows lack."""
        text = self.properties.get(Property.CONSTANTS)
        return tuple(Constant(*each) for each in json.loads(text)) if text else ()

    @property
    def widened(self) -> bool:
        """Returns whether a column got a wider type: only a reader with Delta's type widening takes the table then."""
        return self.properties.get("delta.enableTypeWidening") == "true"

    @property
    def since(self) -> int:
        """Returns the segment that this schema came with."""
        return int(self.properties.get(Property.SINCE, 0))

    @property
    def pin(self) -> str | None:
        """Returns the column that texts of the live view are bound to, None if it has none."""
        return self.properties.get(Property.PIN)

    @property
    def rebuilding(self) -> Rebuilding | None:
        """Returns the generation that is being filled, None if the mirror is complete."""
        text = self.properties.get(Property.REBUILDING)
        return Rebuilding.read(text) if text else None

    @property
    def filling_since(self) -> float | None:
        """Since when (s since the epoch) a mirror's newest generation is being filled, None if it is complete.

        A mirror of an old version has no such property, and may be either: 0.
        """
        if self.rebuilding is not None:
            return self.rebuilding.since
        return None if self.pin is not None else 0.0

    @property
    def stopped(self) -> str | None:
        """Returns why it gets nothing more, in the lake or from capture; None or empty if it isn't stopped."""
        in_lake, in_capture = (self.properties.get(p) for p in (Property.STOPPED, Property.CAPTURE_STOPPED))
        return in_lake or in_capture

    @property
    def first(self) -> bool:
        """Returns whether its first snapshot is filling this mirror, so that it has never been complete."""
        return self.pin is None and self.rebuilding is not None

    @property
    def frozen(self) -> bool:
        """Returns whether it is a complete mirror that stays as it is, while a later generation is filled beside it."""
        filled = self.rebuilding
        return self.pin is not None and filled is not None and filled.generation != self.generation

    def outlived(self, changelog: "TableReport | None") -> bool:
        """Returns whether this mirror is older than its changelog, which lacks changes then: somebody has removed the
        one before. Each generation of a mirror gives the changelog a pin first.
        """
        return self.pin is not None and (changelog is None or changelog.pin is None)

    @property
    def generation(self) -> int:
        """Returns a mirror's generation. A complete mirror has it in its pin."""
        return self.mark("generation") if self.pin is None else int(self.pin.removeprefix(_PIN))

    @property
    def merged(self) -> int:
        """Returns the segment through which a mirror has merged all changes."""
        return max(self.mark("merged"), self._swapped)

    @property
    def rows(self) -> int:
        """Returns the segment through which a mirror has all rows of snapshots. A swap brings them."""
        return max(self.mark("rows"), self._swapped)

    @property
    def _swapped(self) -> int:
        return int(self.properties.get(Property.MERGED, 0))

    @property
    def after(self) -> int:
        """Returns the segment through which all tables had everything when this one was last delivered."""
        return max(self.mark("after"), int(self.properties.get(Property.AFTER, 0)))

    @property
    def altering(self) -> bool:
        """Returns whether its columns are between two schemas."""
        return bool(self.properties.get(Property.ALTERING))

    def mark(self, name: str) -> int:
        """Returns how far one of the marks of the journal that feeds it has come (`actors.lake.lake`)."""
        return self.applications.get(self.application(name), 0)

    def application(self, name: str) -> str:
        """Returns the application whose version is one of the marks of the journal that feeds it."""
        return f"{self.properties.get(Property.JOURNAL)}/{name}"


@dataclass(frozen=True, slots=True)
class LakeColumn:
    """A column of a lake table; `type` is Spark's SQL."""

    name: str
    type: str


# Filesystems take names of 255 bytes.
_LONGEST_FOLDER: Final = 220


def location(lake: str, table: TableId, tier: Tier) -> str:
    """Returns the path of a lake table: LAKE/database/table/tier."""
    return f"{table_folder(lake, table)}/{tier}"


def table_folder(lake: str, table: TableId) -> str:
    """Returns the path of the folder that has a table's lake tables: LAKE/database/table.

    Of a name, letters, digits, `-` and an inner `_` of ASCII stay. Each other character becomes `~` and two hex digits
    for each byte of UTF-8. So no name is hidden (leading `_` or `.`), climbs (`..`), or means something to Hadoop (`%`,
    `*`, `=`), and two tables never share a path. If a name gets too long for a filesystem, a digest replaces its end.
    """
    return "/".join((lake.rstrip("/"), _folder(table.database), _folder(table.name)))


def shadow(lake: str, table: TableId, generation: int) -> str:
    """Returns the path of the table in which a generation of the mirror is filled while readers see the one before."""
    return f"{shadows(lake, table)}{generation}"


def shadows(lake: str, table: TableId) -> str:
    """Returns the beginning of the paths of all such tables."""
    return f"{location(lake, table, Tier.MIRROR)}-next-"


# The folder under a lake's path for what verifications find. No database's folder begins like this.
_OWN: Final = "_tidemark"


def findings_path(lake: str) -> str:
    """Returns the path of the Delta table with each row that verifications have found to differ."""
    return f"{lake.rstrip('/')}/{_OWN}/verification"


def judgements_path(lake: str) -> str:
    """Returns the path of the Delta table with the result for each table of each verification."""
    return f"{lake.rstrip('/')}/{_OWN}/verification-runs"


def verified_path(lake: str, table: TableId) -> str:
    """Returns the path of the folder with what verifications of a table have read and not judged yet."""
    return "/".join((lake.rstrip("/"), _OWN, "verifying", _folder(table.database), _folder(table.name)))


def merging_path(lake: str, table: TableId) -> str:
    """Returns the path of the folder with what a merge of a table's changes needs while it runs."""
    return "/".join((lake.rstrip("/"), _OWN, "merging", _folder(table.database), _folder(table.name)))


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


def ordered_key(schema: TableSchema) -> tuple[str, ...]:
    """Returns the parts of the key that have one order in MySQL, in Spark and in Delta's statistics."""
    key = (schema.columns[index] for index in schema.key)
    return tuple(c.name for c in key if isinstance(c.type, Integer) and c.form is not LakeForm.BOOLEAN)


def need_mapping(names: Iterable[str]) -> bool:
    """Returns whether a table with such column names needs Delta's column mapping."""
    return any(_UNFIT & set(name) for name in names)


def spark_type(arrow: pa.DataType) -> str:
    """Returns Spark's SQL name of a canonical Arrow type."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"ARRAY<{spark_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow):
        return f"STRUCT<{','.join(f'{field.name}:{spark_type(field.type)}' for field in arrow)}>"
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


def ddl(of: Iterable[LakeColumn]) -> str:
    """Returns columns as CREATE TABLE and Spark's readers take them."""
    return ", ".join(f"{quoted(c.name)} {c.type}" for c in of)


def create_sql(path: str, tier: Tier, of: tuple[LakeColumn, ...], properties: Mapping[str, str]) -> str:
    """Returns the statement that creates a lake table if there is none.

    It takes a log without a version, as a kill may leave it, for a table.
    """
    described = ", ".join(
        f"{quoted(c.name)} {c.type}"
        + (f" COMMENT {literal(META_COMMENTS[c.name])}" if c in META_COLUMNS else "")
        for c in of
    )
    return f"CREATE TABLE IF NOT EXISTS {table_at(path)} ({described}) USING delta {_settings(tier, of, properties)}"


def begin_sql(
    path: str,
    tier: Tier,
    of: tuple[LakeColumn, ...],
    properties: Mapping[str, str],
    rows: str | None = None,
) -> str:
    """Returns the statement that replaces whatever exists by a lake table with these columns, and a query's rows or
    none.

    Delta executes only the form with a query at most once for an application's transaction.
    """
    if rows is None:
        nothing = ", ".join(f"CAST(NULL AS {column.type}) AS {quoted(column.name)}" for column in of)
        rows = f"SELECT {nothing} WHERE false"
    return f"CREATE OR REPLACE TABLE {table_at(path)} USING delta {_settings(tier, of, properties)} AS {rows}"


# Whether a merge marks rows as deleted, or writes their files again.
VECTORS: Final = "delta.enableDeletionVectors"

# With it Delta forgets the versions of applications after a time, and so how far a table is.
FORGETTING: Final = "delta.setTransactionRetentionDuration"

# A changelog gets some commits a second, and a reader lists all of them to find the newest. So Delta keeps them for
# CHANGELOG_VERSIONS_H, not for thirty days. With deletion vectors a merge needn't rewrite each file of the mirror in
# which it finds a key.
_SETTINGS: Final = {
    Tier.CHANGELOG: {
        "delta.deletedFileRetentionDuration": f"interval {CHANGELOG_VERSIONS_H} hours",
        "delta.logRetentionDuration": f"interval {CHANGELOG_VERSIONS_H} hours",
    },
    Tier.MIRROR: {VECTORS: "true"},
}

# The properties of the two tables of verifications. Each result has an application of its own, which Delta forgets.
RESULTS: Final = {**_SETTINGS[Tier.CHANGELOG], FORGETTING: f"interval {CHANGELOG_VERSIONS_H} hours"}


def _settings(tier: Tier, of: tuple[LakeColumn, ...], properties: Mapping[str, str]) -> str:
    mapping = {MAPPING: "name"} if need_mapping(column.name for column in of) else {}
    return _properties(properties_of(tier, {**mapping, **properties}))


def properties_of(tier: Tier, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a new lake table: these, and those that each of its tier has."""
    return {**_SETTINGS[tier], **{str(key): value for key, value in properties.items()}}


def set_properties_sql(path: str, properties: Mapping[str, str]) -> str:
    """Returns the statement that sets table properties."""
    return f"ALTER TABLE {table_at(path)} SET {_properties(properties)}"


def table_at(path: str) -> str:
    """Returns the name of the Delta table at a path, in Spark's SQL."""
    return f"delta.{quoted(path)}"


def quoted(name: str) -> str:
    """Returns a name as an identifier of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Returns a text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _properties(properties: Mapping[str, str]) -> str:
    if (about := properties.get(Property.ABOUT)) is not None:
        properties = {**properties, "comment": about}  # Delta's description of the table
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
