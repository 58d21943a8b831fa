"""The settings that hold, as a configuration file would say them, with everything secret starred."""

import dataclasses
from pathlib import PurePath
from typing import Any

import tomli_w

from pipeline.config.secret import STARS, is_secret_setting, without_secrets
from pipeline.config.settings import Secret, Settings
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId


def effective_toml(settings: Settings) -> str:
    """Returns all settings as TOML, those with their default included."""
    return tomli_w.dumps(_section(settings))


def _section(section: Any) -> dict[str, Any]:
    given = {field.name: getattr(section, field.name) for field in dataclasses.fields(section)}
    return {_key(name, item): _value(name, item) for name, item in given.items() if _is_given(item)}


def _key(name: str, item: Any) -> str:
    """The key that the configuration has: a secret from a file is named by that."""
    return f"{name}_file" if isinstance(item, Secret) and item.file is not None else name


def _is_given(item: Any) -> bool:
    return bool(item.value) if isinstance(item, Secret) else item is not None and item != {}


def _value(name: str, given: Any) -> Any:
    match given:
        case Secret(file=PurePath() as file):
            return str(file)
        case Secret():
            return STARS
        case TableFilter(patterns):
            return patterns
        case TableId():
            return str(given)
        case PurePath() | str():
            return STARS if is_secret_setting(name) else without_secrets(str(given))
        case dict():
            return {item: _value(item, of) for item, of in given.items()}
        case tuple():
            return tuple(_value(name, item) for item in given)
        case _ if dataclasses.is_dataclass(given):
            return _section(given)
        case _:
            return given
