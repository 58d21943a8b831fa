"""Avro schemas of Connect schemas, in the text that AvroConverter registers.

An optional value is a union with null. Null comes first, unless the value has a default. The properties `connect.*`
have what Avro can't express of a Connect schema. A struct is written out at its first use, and named at each further
one.

Names are as Debezium makes them with `schema.name.adjustment.mode` and `field.name.adjustment.mode` = `avro`: a
character that no name may have becomes `_`.

Source: Confluent, `AvroData.fromConnectSchema`; Apache Avro 1.11, "Specification" and `Schema.toString`; Debezium 3.6,
`SchemaNameAdjuster`.
"""

import json
import re
from typing import Any, Final

from pipeline.kafka.debezium.connect_schema import Schema

AvroSchema = Any  # what stands for a schema in JSON: a name, a list (a union) or an object

# Connect's types by Avro's names; an int16 says so beside.
_PRIMITIVES: Final = {
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
_LOGICAL: Final = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
# Of a struct without a name.
_NAMELESS: Final = "io.confluent.connect.avro.ConnectDefault"

_UNFIT_IN_FULL_NAME: Final = re.compile(r"^[^A-Za-z_]|[^A-Za-z0-9_.]")
_UNFIT_IN_FIELD: Final = re.compile(r"[^A-Za-z0-9_]")
# Jackson escapes these two and what JSON demands; the text is in UTF-8 otherwise.


def avro_text(schema: Schema) -> str:
    """Returns the Avro schema of a Connect schema, as AvroConverter registers it."""
    return json.dumps(avro_schema(schema, set()), ensure_ascii=False, separators=(",", ":"))


def avro_schema(schema: Schema, known: set[str]) -> AvroSchema:
    """Returns the Avro schema of a Connect schema. The structs `known` are written out already; it adds the others."""
    return _avro(schema, "", known)


def fit_full_name(name: str) -> str:
    """Returns the name of a schema without characters that no name in Avro may have; dots divide its namespace."""
    return _UNFIT_IN_FULL_NAME.sub("_", name)


def fit_field_name(name: str) -> str:
    """Returns the name of a field without characters that no name in Avro may have."""
    fit = _UNFIT_IN_FIELD.sub("_", name)
    return f"_{fit}" if fit[:1].isdigit() else fit


def null_first(schema: Schema) -> bool:
    """Returns whether null is the first branch of an optional schema's union."""
    return "default" not in schema


def _avro(schema: Schema, namespace: str, known: set[str]) -> AvroSchema:
    """Returns the Avro schema within a namespace. The structs `known` are written out already."""
    required = _required(schema, namespace, known)
    if not schema["optional"]:
        return required
    return ["null", required] if null_first(schema) else [required, "null"]


def _required(schema: Schema, namespace: str, known: set[str]) -> AvroSchema:
    match schema["type"]:
        case "struct":
            return _record(schema, namespace, known)
        case "array":
            items = _avro(schema["items"], namespace, known)
            return {"type": "array", "items": items, **_properties(schema)}
        case "map":
            # Connect's maps here have texts as keys, as Avro's have.
            return {"type": "map", "values": _avro(schema["values"], namespace, known), **_properties(schema)}
        case kind:
            properties = {**_decimal_form(schema), **_properties(schema)}
            if kind == "int16":
                properties["connect.type"] = "int16"
            if (logical := _LOGICAL.get(schema.get("name", ""))) is not None:
                properties["logicalType"] = logical
            if schema.get("name") == _DECIMAL:
                properties["logicalType"] = "decimal"
            primitive = _PRIMITIVES[kind]
            return {"type": primitive, **properties} if properties else primitive


def _record(schema: Schema, namespace: str, known: set[str]) -> AvroSchema:
    full = fit_full_name(schema["name"]) if "name" in schema else _NAMELESS
    own, _, name = full.rpartition(".")
    if full in known:
        return name if own == namespace else full
    known.add(full)
    fields = []
    for each in schema["fields"]:
        told: dict[str, Any] = {"name": fit_field_name(each["field"]), "type": _avro(each, own, known)}
        if each["optional"]:
            told["default"] = each.get("default")
        elif "default" in each:
            told["default"] = each["default"]
        fields.append(told)
    said = {} if own == namespace else {"namespace": own}
    return {"type": "record", "name": name, **said, "fields": fields, **_properties(schema)}


def _decimal_form(schema: Schema) -> dict[str, Any]:
    """Returns the properties of a decimal."""
    if schema.get("name") != _DECIMAL:
        return {}
    parameters = schema["parameters"]
    return {"scale": int(parameters["scale"]), "precision": int(parameters["connect.decimal.precision"])}


def _properties(schema: Schema) -> dict[str, Any]:
    """Returns what Avro can't express of the schema."""
    found: dict[str, Any] = {}
    for ours, theirs in (
        ("doc", "doc"),
        ("version", "version"),
        ("parameters", "parameters"),
        ("default", "default"),
    ):
        if ours in schema:
            found[f"connect.{theirs}"] = schema[ours]
    if "name" in schema:
        found["connect.name"] = fit_full_name(schema["name"])
    return found
