"""Where our messages differ from Debezium's, but for what docs/kafka.md lists: keys, values, headers, and schemas."""

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import fastavro
import numpy as np

from pipeline.types.text.charset_tables import code_tables
from tests.servers.debezium_messages import PREFIX, Message
from tests.servers.debezium_modes import Modes

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "n": "\n"}
# We escape a comma too, where a text has a list of labels.
_IN_LISTS: Final = {**_ESCAPES, ",": "\\,"}
_REPLACED: Final = re.compile("\ufffd+")
_NEGATIVE: Final = re.compile(r'"-\d+:\d\d:\d\d(\.\d+)?"')
_WHOLE: Final = re.compile(r'"((?:\d{4}-\d\d-\d\d )?\d+:\d\d:\d\d)\.000000"')
_OPAQUE: Final = re.compile(r'"base64:type\d+:([^"]*)')
_GARBLED: Final = re.compile(r'"(?=[^"]*-)-?\d+:[\d-]+:[\d-]+(\.[\d-]+)?"')
_FLOATS: Final = ("FLOAT", "DOUBLE", "VECTOR")
_FLOAT: Final = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?|-?\d+(\.\d+)?(e[+-]?\d+)?")
# What Debezium reads character sets with that Java lacks.
_CHARSETS: Final = {
    **dict.fromkeys(("armscii8", "dec8", "geostd8", "hp8", "swe7"), "cp1252"),
    "keybcs2": "cp852",
}
_CHARSET: Final = re.compile(rf" CHARACTER SET ({'|'.join(_CHARSETS)})\b")
_GEOMETRIES: Final = re.compile(r"GEOM\w*|\w*POINT|\w*LINESTRING|\w*POLYGON")
# Of a hash, and of a part, there's no telling whether the whole is excused.
_UNTOLD: Final = "UNTOLD"
# The log doesn't tell a DATETIME(0) from a DATETIME, of which Debezium cuts the second one.
_WRITTEN_OTHERWISE: Final = re.compile(r"^\w+ ((JSON|ENUM|SET)\b|(DATETIME|TIME|TIMESTAMP)\(0\))")
# The columns that all tables of `value_tables` may have.
ALWAYS: Final = {"changes": ["changes INT"], "id": ["id INT"], "my_row_id": ["my_row_id BIGINT UNSIGNED"]}
# What says nothing of a row, but of the making of a message.
_MAKING: Final = ("ts_ms", "ts_us", "ts_ns")
_OF_A_RUN: Final = "__debezium.context."

Definitions = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A key, a value or a header: its schema if it has one, and what it is, numbers as they are written."""

    schema: Any
    payload: Any


def differences(
    mine: Mapping[str, Sequence[Message]],
    theirs: Sequence[Message],
    definitions: Mapping[str, Definitions],
    modes: Modes,
) -> Iterator[str]:
    """Where messages differ, but for what's documented; `definitions`: those that each topic's columns had."""
    definitions = {topic: {**ALWAYS, **columns} for topic, columns in definitions.items()}
    merged: dict[str, list[str]] = {}
    for columns in definitions.values():
        for name, several in columns.items():
            merged.setdefault(name, []).extend(several)
    for topic in sorted({message.topic for message in theirs} | mine.keys()):
        if topic == f"{PREFIX}.marker.end":
            continue
        found = mine.get(topic, [])
        expected = [message for message in theirs if message.topic == topic]
        columns = merged if modes.mixed else definitions.get(topic.partition("_")[0], {})
        if topic == f"{PREFIX}.transaction":
            expected = of_changes(expected[:-1], modes)  # the last one is that of the marker
        for at, (one, other) in enumerate(zip_longest(found, expected)):
            place = f"{topic} {at}"
            if one is None or other is None:
                yield f"{place}: {one} {other}"
                break
            yield from (f"{place} {each}" for each in _between(one, other, columns, modes))


def of_changes(marks: Sequence[Message], modes: Modes) -> list[Message]:
    """BEGIN and END of the transactions that have a message."""
    empty = {mark.key for mark in marks if part_of(mark.value, modes).payload["event_count"] == 0}
    return [mark for mark in marks if mark.key not in empty]


def _between(one: Message, other: Message, columns: Definitions, modes: Modes) -> Iterator[str]:
    """Where two messages differ."""
    if one.partition != other.partition or (one.at_ms != other.at_ms and one.at_ms is not None):
        yield f"{(one.partition, one.at_ms)} {(other.partition, other.at_ms)}"
    yield from (f"key {each}" for each in _parted(one.key, other.key, columns, modes))
    if other.value is not None and one.value is None and part_of(other.value, modes).payload is None:
        pass  # a tombstone of ours, and Debezium's text `null`
    else:
        yield from _parted(one.value, other.value, columns, modes)
    named = [
        [each for each in message.headers if not str(each[0]).startswith(_OF_A_RUN)]
        for message in (one, other)
    ]
    if [name for name, _ in named[0]] != [name for name, _ in named[1]]:
        yield f"headers: {named[0]} {named[1]}"
        return
    simple = modes.variant.get("headers") == "simple"
    plain = Modes(form={"schemas_enable": modes.schemas and not simple})
    for (name, text), (_, theirs) in zip(*named, strict=True):
        if text != theirs:
            # A simple one has plain text, or a key as JSON in which control characters stand as they are.
            found, expected = map(_object, (text, theirs)) if simple else (text, theirs)
            told = [f"{text} {theirs}"]
            if found is not None and expected is not None:
                told = [*_parted(found, expected, columns, plain)]
            yield from (f"header {name} {each}" for each in told)


def _object(text: str | None) -> str | None:
    """An object of JSON with its control characters escaped; None if it is no object."""
    try:
        told = json.loads(text or "", strict=False)
    except ValueError:
        return None
    return json.dumps(told, ensure_ascii=False) if isinstance(told, dict) else None


def _parted(one: str | None, other: str | None, columns: Definitions, modes: Modes) -> Iterator[str]:
    """Where two keys, values or headers differ."""
    if one == other:
        return
    if one is None or other is None:
        yield f"{one} {other}"
        return
    found, expected = part_of(one, modes), part_of(other, modes)
    yield from (f"schema {each}" for each in schema_differences(found.schema, expected.schema, columns))
    if not isinstance(found.payload, dict) or not isinstance(expected.payload, dict):
        if found.payload != expected.payload:
            yield f"{found.payload} {expected.payload}"
        return
    mine, theirs = _without_making(found.payload), _without_making(expected.payload)
    if [*mine] != [*theirs]:
        yield f"{[*mine]} {[*theirs]}"
        return
    enveloped = "source" in mine and "op" in mine
    for name in mine:
        if enveloped and name in ("before", "after"):
            yield from (f"{name}.{each}" for each in _rows(mine[name], theirs[name], columns, modes))
        elif enveloped:
            yield from [] if mine[name] == theirs[name] else [f"{name}: {mine[name]} {theirs[name]}"]
        else:
            yield from _rows({name: mine[name]}, {name: theirs[name]}, columns, modes)


def _rows(one: Any, other: Any, columns: Definitions, modes: Modes) -> Iterator[str]:
    """Where two rows differ, or two keys."""
    if one == other:
        return
    if one is None or other is None or [*one] != [*other]:
        yield f"{one} {other}"
        return
    for name, mine in one.items():
        theirs, several = other[name], columns.get(name, [name])
        if name in modes.secret and (mine is None) == (theirs is None):
            several = [*several, _UNTOLD]
        if name in modes.cut and _cut_in_a_character(mine, theirs):
            several = [*several, _UNTOLD]
        if name in modes.cut and any(_WRITTEN_OTHERWISE.search(each) for each in several):
            several = [*several, _UNTOLD]
        if not any(excused(each, mine, theirs) for each in several):
            yield f"{name}: {str(several)[:200]}: {str(mine)[:200]} {str(theirs)[:200]}"


def _cut_in_a_character(mine: Any, theirs: Any) -> bool:
    """Whether both are a text's begin, Debezium's by its units of UTF-16; half a character is a question mark."""
    if not isinstance(mine, str) or not isinstance(theirs, str):
        return False
    units, whole, halved = (
        each.encode("utf-16-le", "surrogatepass") for each in (mine, theirs, theirs.removesuffix("?"))
    )
    is_half = units[len(halved) :].decode("utf-16-le", "ignore")[:1] > "\uffff"
    return units.startswith(whole) or (halved != whole and units.startswith(halved) and is_half)


def part_of(text: str | None, modes: Modes) -> Part:
    """What a key, a value or a header says."""
    if text is None:
        return Part(None, None)
    if modes.avro:
        schema, _, payload = text.partition("\n")
        parsed = json.loads(schema)
        read = fastavro.schemaless_reader(
            io.BytesIO(base64.b64decode(payload)), fastavro.parse_schema(parsed), None
        )
        return Part(parsed, _as_json(read))
    whole = json.loads(text, parse_float=str)
    if modes.schemas and whole is not None:
        return Part(whole["schema"], whole["payload"])
    return Part(None, whole)


def _as_json(value: Any) -> Any:
    """A value of Avro's as JSON has it."""
    match value:
        case dict():
            return {name: _as_json(each) for name, each in value.items()}
        case list():
            return [_as_json(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return str(value)
        case None | bool() | int() | str():
            return value
        case _:
            return str(value)


def _without_making(payload: Mapping[str, Any]) -> dict[str, Any]:
    """An envelope without what's of its making."""
    if "source" not in payload or "op" not in payload:
        return dict(payload)
    rest = {name: each for name, each in payload.items() if name not in _MAKING}
    source = {name: each for name, each in payload["source"].items() if name != "version"}
    return {**rest, "source": source}


def schema_differences(one: Any, other: Any, columns: Definitions) -> Iterator[str]:
    """Where two schemas differ, but for columns' defaults, and the types that the log doesn't tell."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        name = str(one.get("field", one.get("name")))
        if name in columns and name == other.get("field", other.get("name")):
            if not any(_alike(each, one, other) for each in columns[name]):
                yield f"{columns[name]}: {one} {other}"
            return
        for key in one.keys() | other.keys():
            yield from schema_differences(one.get(key), other.get(key), columns)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for each, another in zip(one, other, strict=True):
            yield from schema_differences(each, another, columns)
    else:
        yield f"{one} {other}"


def _alike(definition: str, one: Any, other: Any) -> bool:
    """Whether the schemas of a column are alike, but for what docs/kafka.md says."""
    kind = definition.split(" ")[1].partition("(")[0] if " " in definition else definition
    if _GEOMETRIES.fullmatch(kind):
        return True  # a POINT is a Geometry with us, and Avro names each of the two once
    mine, theirs = _without_defaults(one), _without_defaults(other)
    if kind in ("ENUM", "SET"):  # labels, which Debezium escapes, and we where a comma is in one
        theirs = _unescaped(theirs)
    if kind == "FLOAT":
        mine, theirs = (
            json.loads(json.dumps(each).replace('"double"', '"float"')) for each in (mine, theirs)
        )
    return theirs in (mine, _without_cut(mine))


def _without_cut(schema: Any) -> Any:
    """A column's schema of ours as Debezium's is, where the column's length bounds a text anyway."""
    if isinstance(schema, dict):
        left = {name: _without_cut(each) for name, each in schema.items() if name != "truncateLength"}
        left = {name: each for name, each in left.items() if each != {}}
        return left["type"] if [*left] == ["type"] else left
    return sorted(map(_without_cut, schema), key=str) if isinstance(schema, list) else schema


def _unescaped(schema: Any) -> Any:
    """A schema whose texts have no escapes of Debezium's but those that ours have too."""
    if isinstance(schema, dict):
        return {name: _unescaped(each) for name, each in schema.items()}
    if isinstance(schema, list):
        return [_unescaped(each) for each in schema]
    return unescaped(schema, _IN_LISTS) if isinstance(schema, str) else schema


def _without_defaults(schema: Any) -> Any:
    """A column's schema without its default, which in Avro says the order of a union, too."""
    if isinstance(schema, dict):
        left = {
            name: _without_defaults(each)
            for name, each in schema.items()
            if name not in ("default", "connect.default")
        }
        return left["type"] if [*left] == ["type"] else left
    if isinstance(schema, list):
        return sorted(map(_without_defaults, schema), key=str)
    return schema


def excused(definition: str, found: Any, expected: Any) -> bool:
    """Whether two values of a column are equal, or differ as docs/kafka.md says."""
    kind = definition.split(" ")[1].partition("(")[0] if " " in definition else definition
    if found == expected or definition == _UNTOLD:
        return True
    if type(found) is not type(expected) or (kind in _FLOATS and not (floats(found) and floats(expected))):
        return False  # a value of another definition
    if isinstance(expected, str) and (lacking := _CHARSET.search(definition)) and kind not in ("ENUM", "SET"):
        return read_by_java(found, expected, lacking[1])
    if isinstance(expected, str) and " CHARACTER SET euckr" in definition:
        return _REPLACED.sub("\ufffd", found.encode("cp949", "replace").decode("euc_kr", "replace")) == (
            _REPLACED.sub("\ufffd", expected)
        )
    if isinstance(expected, str) and (filled(expected, found) or filled(found, expected)):
        return True
    if isinstance(expected, str) and len(found) == len(expected) and "\ufffd" in found + expected:
        return all(
            one == other or "\ufffd" in (one, other) for one, other in zip(found, expected, strict=True)
        )
    match kind:
        case "JSON" if isinstance(expected, str):
            return same_document(found, expected)
        case "ENUM" | "SET" if isinstance(expected, str):
            return bool(found == unescaped(expected))
        case "BINARY" if " BINARY(0)" in definition:
            return found == "" and set(expected) <= set("0A=")
        case "POINT" if isinstance(expected, dict):
            return bool(found == {name: expected[name] for name in expected if name not in ("x", "y")})
        case "YEAR":
            return (found, expected) == (0, 1900) or (found, expected) == ("0", "1900")
        case "FLOAT" if not isinstance(expected, list):
            return bool(np.array_equal(_single(found), _single(expected)))
        case "DECIMAL" if "E" in str(found) and floats(
            [found, expected]
        ):  # a double; no decimal has an exponent
            return float(found) == float(expected)
        case "DOUBLE" if not isinstance(expected, list):
            return float(found) == float(expected)
        case "VECTOR":
            return bool(np.array_equal(_single(found), _single(expected)))
    return False


def _single(value: Any) -> Any:
    """Floating numbers in single precision; a number of another definition may be too large for it."""
    with np.errstate(over="ignore"):
        return np.array(value, np.float64).astype(np.float32)


def unescaped(labels: str, escapes: Mapping[str, str] = _ESCAPES) -> str:
    """Labels of ENUM or SET without Debezium's backslashes."""
    return _ESCAPED.sub(lambda each: escapes.get(each[1], each[1]), labels)


def filled(some: str, whole: str) -> bool:
    """Whether a text is another one with U+FFFD in places."""
    known = (re.escape(part) for part in re.split("\ufffd+", some))
    return "\ufffd" in some and re.fullmatch(".+?".join(known), whole, re.DOTALL) is not None


def read_by_java(text: str, other: str, charset: str) -> bool:
    """Whether a text of one of the character sets that Java lacks is the other one as Debezium reads it.

    A set may have a character twice, as armscii8 has the parentheses.
    """
    points = code_tables(charset).one
    return len(text) == len(other) and all(
        read in bytes(np.flatnonzero(points == ord(character)).tolist()).decode(_CHARSETS[charset], "replace")
        for character, read in zip(text, other, strict=True)
    )


def floats(value: Any) -> bool:
    """Whether a value is a floating number, or a list of them."""
    return all(_FLOAT.fullmatch(str(each)) for each in (value if isinstance(value, list) else [value]))


def same_document(found: str, expected: str) -> bool:
    """Whether two texts are the same document of JSON, but for opaque values, and times below zero."""
    found = _WHOLE.sub(r'"\1"', found)
    found = _OPAQUE.sub(lambda each: '"' + each[1].replace("\\n", ""), found)
    try:
        return bool(
            json.loads(_NEGATIVE.sub('"time"', found)) == json.loads(_GARBLED.sub('"time"', expected))
        )
    except ValueError:
        return False
