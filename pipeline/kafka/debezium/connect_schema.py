"""The Connect schemas of a table's messages, as Debezium makes them and JsonConverter writes them.

A schema is a JSON object of Connect's, in JsonConverter's order: `type`, `optional`, and if it has them `name`,
`version`, `parameters`, `doc`, `default` and `field`.

**Differences from Debezium**, each with its reason:

- A column's default isn't in its schema. Neither the log nor a result set has it, and a schema's version here contains
  only what these have.
- A POINT is a Geometry. The log has one name for all spatial types.

Source: Debezium 3.6, "Data type mappings" and "Data change events"; Apache Kafka, `JsonConverter.asJsonSchema`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

from pipeline.config.message_handling import (
    BinaryHandling,
    DecimalHandling,
    Handling,
    TimePrecision,
    UnsignedBigintHandling,
)
from pipeline.schema.table_schema import Column
from pipeline.types import column_types as t

Schema = dict[str, Any]

# What stands beside the rows is of these.
CONNECT_STRING: Final[Schema] = {"type": "string", "optional": False}
OPTIONAL_TEXT: Final[Schema] = {"type": "string", "optional": True}
INT: Final[Schema] = {"type": "int32", "optional": False}
LONG: Final[Schema] = {"type": "int64", "optional": False}
OPTIONAL_LONG: Final[Schema] = {"type": "int64", "optional": True}

_INTEGERS = {
    (1, False): "int16",
    (1, True): "int16",
    (2, False): "int16",
    (2, True): "int32",
    (3, False): "int32",
    (3, True): "int32",
    (4, False): "int32",
    (4, True): "int64",
    (8, False): "int64",
    (8, True): "int64",
}

_TIMES = {
    TimePrecision.ADAPTIVE_TIME_MICROSECONDS: ("int64", "io.debezium.time.MicroTime"),
    TimePrecision.MICROSECONDS: ("int64", "io.debezium.time.MicroTime"),
    TimePrecision.NANOSECONDS: ("int64", "io.debezium.time.NanoTime"),
    TimePrecision.CONNECT: ("int32", "org.apache.kafka.connect.data.Time"),
    TimePrecision.ISOSTRING: ("string", "io.debezium.time.IsoTime"),
}
_MOMENTS = {
    TimePrecision.MICROSECONDS: ("int64", "io.debezium.time.MicroTimestamp"),
    TimePrecision.NANOSECONDS: ("int64", "io.debezium.time.NanoTimestamp"),
    TimePrecision.CONNECT: ("int64", "org.apache.kafka.connect.data.Timestamp"),
    TimePrecision.ISOSTRING: ("string", "io.debezium.time.IsoTimestamp"),
}
_DATES = {
    TimePrecision.CONNECT: ("int32", "org.apache.kafka.connect.data.Date"),
    TimePrecision.ISOSTRING: ("string", "io.debezium.time.IsoDate"),
}


def struct(
    fields: Iterable[Schema], *, optional: bool = False, name: str = "", version: int | None = None
) -> Schema:
    """Returns the schema of a struct with these fields."""
    named: Schema = {"name": name} if name else {}
    numbered: Schema = {"version": version} if version is not None else {}
    return {"type": "struct", "fields": list(fields), "optional": optional, **named, **numbered}


def field(schema: Schema, name: str) -> Schema:
    """Returns the schema as that of a struct's field."""
    return {**schema, "field": name}


def rows_schema(
    columns: Iterable[Column],
    handling: Handling,
    name: str,
    parameters: Mapping[str, Mapping[str, str]],
    added: Iterable[Schema] = (),
    *,
    optional: bool,
) -> Schema:
    """Returns the schema of rows of these columns, and of the added fields.

    `parameters`: those that columns' schemas have in addition to their own, by the columns' names.
    """
    fields = (field(_with(column_schema(c, handling), parameters.get(c.name, {})), c.name) for c in columns)
    return struct((*fields, *added), optional=optional, name=name)


def _with(schema: Schema, parameters: Mapping[str, str]) -> Schema:
    if not parameters:
        return schema
    return {**schema, "parameters": {**schema.get("parameters", {}), **parameters}}


def column_schema(column: Column, handling: Handling) -> Schema:
    """Returns the schema of a column's values, as `json_values` writes them."""
    kind, semantics = _semantics(column, handling)
    if kind == "array":
        kind_of: Schema = {"type": kind, "items": {"type": "float", "optional": False}}
    elif isinstance(column.type, t.Geometry):
        wkb, srid = {"type": "bytes", "optional": False}, {"type": "int32", "optional": True}
        kind_of = {"type": kind, "fields": [field(wkb, "wkb"), field(srid, "srid")]}
    else:
        kind_of = {"type": kind}
    return {**kind_of, "optional": column.nullable, **semantics}


def _logical(name: str, **parameters: str) -> Schema:
    return {"name": name, "version": 1, **({"parameters": parameters} if parameters else {})}


def _decimal(precision: int, scale: int) -> tuple[str, Schema]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return "bytes", _logical("org.apache.kafka.connect.data.Decimal", **parameters)


def _semantics(column: Column, handling: Handling) -> tuple[str, Schema]:
    """Returns a column's Connect type, and the rest of its schema."""
    match column.type:
        case t.Integer(8, unsigned=True) if handling.unsigned_bigint is UnsignedBigintHandling.PRECISE:
            return _decimal(20, 0)
        case t.Integer(size, unsigned):
            return _INTEGERS[size, unsigned], {}
        case t.Decimal(precision, scale):
            match handling.decimal:
                case DecimalHandling.PRECISE:
                    return _decimal(precision, scale)
                case DecimalHandling.DOUBLE:
                    return "double", {}
                case DecimalHandling.STRING:
                    return "string", {}
                case _:
                    assert_never(handling.decimal)
        case t.Float():
            return "float", {}
        case t.Double():
            return "double", {}
        case t.Bit(1):
            return "boolean", {}
        case t.Bit(width):
            return "bytes", _logical("io.debezium.data.Bits", length=str(width))
        case t.Year():
            return "int32", _logical("io.debezium.time.Year")
        case t.Date():
            kind, name = _DATES.get(handling.time, ("int32", "io.debezium.time.Date"))
            return kind, _logical(name)
        case t.Time():
            kind, name = _TIMES[handling.time]
            return kind, _logical(name)
        case t.DateTime(digits):
            adaptive = "io.debezium.time.MicroTimestamp" if digits > 3 else "io.debezium.time.Timestamp"
            kind, name = _MOMENTS.get(handling.time, ("int64", adaptive))
            return kind, _logical(name)
        case t.Timestamp():
            return "string", _logical("io.debezium.time.ZonedTimestamp")
        case t.Text():
            return "string", {}
        case t.Json():
            return "string", _logical("io.debezium.data.Json")
        case t.Enum(labels):
            return "string", _logical("io.debezium.data.Enum", allowed=_allowed(labels))
        case t.Set(labels):
            return "string", _logical("io.debezium.data.EnumSet", allowed=_allowed(labels))
        case t.FixedBinary() | t.Binary():
            return "bytes" if handling.binary is BinaryHandling.BYTES else "string", {}
        case t.Geometry():
            return "struct", {**_logical("io.debezium.data.geometry.Geometry"), "doc": "Geometry"}
        case t.Vector():
            return "array", _logical("io.debezium.data.FloatVector")
        case _:
            assert_never(column.type)


def _allowed(labels: Iterable[str]) -> str:
    return ",".join(label.replace(",", "\\,") for label in labels)
