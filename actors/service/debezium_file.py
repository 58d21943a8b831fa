"""Reads what a Debezium connector was made with: Kafka Connect's JSON, or the properties of Debezium Server.

Source: java.util.Properties, `load`; Debezium's documentation, "Debezium Server" (debezium.source.*).
"""

import json
import re
from pathlib import Path
from typing import Any, Final

from pipeline.errors import Definite


def properties(path: Path) -> dict[str, str]:
    """The connector's properties, its name among them. Raises Definite where the file has none."""
    if path.suffix == ".properties":
        return _of_server(path)
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Definite(f"{path} can't be read as a connector's JSON: {error}") from error
    if not isinstance(given, dict):
        raise Definite(f"{path} isn't a connector's JSON: it holds no object")
    name = {"name": given["name"]} if "name" in given else {}
    config = given.get("config", given)
    if not isinstance(config, dict):
        raise Definite(f"{path} isn't a connector's JSON: its `config` is no object")
    return {key: _text(value) for key, value in {**name, **config}.items()}


# Debezium Server has those of the connector under this name, and those of what it needs nothing of under others.
_SOURCE: Final = "debezium.source."
_PREDICATES_AND_TRANSFORMS: Final = ("debezium.transforms", "debezium.predicates")


def _of_server(path: Path) -> dict[str, str]:
    """The connector's properties in an `application.properties`."""
    try:
        given = java_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Definite(f"{path} can't be read as properties: {error}") from error
    found = {name.removeprefix(_SOURCE): value for name, value in given.items() if name.startswith(_SOURCE)}
    if not found:
        raise Definite(f"{path} isn't Debezium Server's: no property begins with {_SOURCE}")
    shared = {
        name.removeprefix("debezium."): value
        for name, value in given.items()
        if name.startswith(_PREDICATES_AND_TRANSFORMS)
    }
    name = re.sub(r"[^a-z0-9_-]", "-", found.get("topic.prefix", "").lower())
    return {"name": name, **shared, **found} if name else {**shared, **found}


def java_properties(text: str) -> dict[str, str]:
    """Returns the properties of a file in Java's format. Raises ValueError for a broken escape."""
    joined = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text)
    found: dict[str, str] = {}
    for line in joined.splitlines():
        match = re.fullmatch(
            r"[ \t\f]*([^#!\s](?:\\.|[^\\=:\s])*)?[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL
        )
        if match is not None and match[1]:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "u":
            return chr(int(escape[1:], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escape, escape)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", meant, text, flags=re.DOTALL)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
