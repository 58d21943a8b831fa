"""Reads the JSON of a Debezium connector: what it was made with, or what Kafka Connect says of it."""

import json
from pathlib import Path
from typing import Any

from pipeline.errors import Definite


def properties(path: Path) -> dict[str, str]:
    """The connector's properties, its name among them. Raises Definite where the file has none."""
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


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
