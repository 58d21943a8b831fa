"""Values written as TOML.

Source: TOML 1.0.0.
"""

import json
import re
from collections.abc import Mapping, Sequence

Value = str | bool | int | float | Sequence["Value"] | Mapping[str, "Value"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else _quoted(name)


def value(given: Value) -> str:
    """A value on one line."""
    match given:
        case str():
            return _quoted(given)
        case bool():
            return "true" if given else "false"
        case Mapping():
            return "{ " + ", ".join(f"{key(name)} = {value(item)}" for name, item in given.items()) + " }"
        case Sequence():
            return "[" + ", ".join(value(item) for item in given) + "]"
        case _:
            return repr(given)


def document(values: Mapping[str, Value], name: str = "") -> str:
    """A table with those in it, each under its own heading, after the keys of the table around it."""
    plain = {item: given for item, given in values.items() if not isinstance(given, Mapping)}
    heading = [f"[{name}]"] if name and plain else []
    text = "".join(
        f"{line}\n" for line in (*heading, *(f"{key(item)} = {value(of)}" for item, of in plain.items()))
    )
    inner = [
        document(given, f"{name}.{key(item)}" if name else key(item))
        for item, given in values.items()
        if isinstance(given, Mapping)
    ]
    return "\n".join(part for part in (text, *inner) if part)


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's; but TOML wants one for DEL as well.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
