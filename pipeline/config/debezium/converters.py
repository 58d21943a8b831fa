"""How a connector's keys, values and headers are written: what its converters say, under the names of `[kafka]`.

Source: Apache Kafka, `JsonConverterConfig`; Confluent Platform, "Kafka Connect: Using with Schema Registry".
"""

import re
from typing import Final

from pipeline.config.debezium.conversion import Conversion, NoteKind, items_of
from pipeline.config.settings import ConverterKind, HeaderConverterKind

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SIMPLE: Final = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_AVRO: Final = "io.confluent.connect.avro.AvroConverter"
# An address of http or https, with a user and his password in it or without.
_ADDRESS: Final = re.compile(r"(https?://)(?:([^@/]*)@)?([^@/]+.*)")
_SIDES: Final = ("key.converter", "value.converter")
_JSON_INSTEAD: Final = (
    "Tidemark writes JSON, and who reads another format from these topics can't read that; set both converters to "
    "Confluent's AvroConverter and try again, or give kafka.topic_prefix another value (Apicurio Registry has "
    "Confluent's API at /apis/ccompat/v7)"
)


def converters(work: Conversion) -> None:
    """Take over the converters. Those of keys and values are one option here."""
    _headers(work)
    kinds = {side: work.take(side) for side in _SIDES}
    if set(kinds.values()) == {_AVRO}:
        work.put("kafka", "converter", ConverterKind.AVRO.value)
        _registry(work)
        _nulls(work, "ignore.default.for.nullables", kept=True)
        return
    said: dict[str, bool] = {}
    for side, kind in kinds.items():
        schemas = work.switch(f"{side}.schemas.enable")
        if kind is None:
            why = "Kafka Connect's worker says it: set kafka.schemas_enable as its JsonConverter's schemas.enable"
            work.tell(NoteKind.TO_DO, side, why)
        elif kind != _JSON:
            work.tell(NoteKind.OTHERWISE, side, _JSON_INSTEAD)
        if kind == _JSON or (kind is None and schemas is not None):
            said[side] = schemas is not False
    if kinds["value.converter"] == _JSON:
        _nulls(work, "replace.null.with.default", kept=False)
    if len({*said.values()}) > 1:
        why = "one option is for both; kafka.schemas_enable is the values'"
        work.tell(NoteKind.OTHERWISE, "key.converter.schemas.enable", why)
    if said:
        work.put("kafka", "schemas_enable", said.get("value.converter", next(iter(said.values()))))


def _nulls(work: Conversion, option: str, *, kept: bool) -> None:
    """The option by which a converter writes a column's default for a NULL, unless it says that nulls are `kept`."""
    keys, values = (work.switch(f"{side}.{option}") for side in _SIDES)
    if values is not kept or keys is (not kept):
        why = "a NULL is null, also in a column that has a default"
        work.tell(NoteKind.OTHERWISE, f"{_SIDES[1]}.{option}", why)


def _headers(work: Conversion) -> None:
    """The converter of headers. A connector without one has Kafka Connect's default."""
    given = work.take("header.converter") or _SIMPLE
    if given == _SIMPLE:
        work.put("kafka", "header_converter", HeaderConverterKind.SIMPLE.value)
    elif given != _JSON:
        why = "headers are as JsonConverter or SimpleHeaderConverter writes them"
        work.tell(NoteKind.OTHERWISE, "header.converter", why)


def _registry(work: Conversion) -> None:
    """The schema registry, as the values' converter finds it."""
    key_side, side = _SIDES
    url = _both(work, "schema.registry.url")
    user = _both(work, "basic.auth.user.info")
    if (found := _ADDRESS.fullmatch(items_of(url)[0] if url else "")) is None:
        work.tell(NoteKind.TO_DO, f"{side}.schema.registry.url", "give kafka.schema_registry_url")
    else:
        work.put("kafka", "schema_registry_url", found[1] + found[3])
        user = user or found[2]
    if user:
        work.put("kafka", "schema_registry_username", user.partition(":")[0])
        work.put("kafka", "schema_registry_password_file", "/run/secrets/schema-registry-password")
        why = "put its password into the file that kafka.schema_registry_password_file names"
        work.tell(NoteKind.TO_DO, f"{side}.basic.auth.user.info", why)
    _both(work, "basic.auth.credentials.source")
    for each in (key_side, side):
        work.take(f"{each}.schemas.enable")  # which AvroConverter doesn't look at
    registers = [work.switch(f"{each}.auto.register.schemas") for each in _SIDES]
    if False in registers:
        work.put("kafka", "auto_register_schemas", False)


def _both(work: Conversion, name: str) -> str | None:
    """What the values' converter says of this, or else the keys'."""
    keys, values = (work.take(f"{side}.{name}") for side in _SIDES)
    return values if values is not None else keys
