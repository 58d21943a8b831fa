"""Random changes of parts of JSON documents, as the SQL that the server can log in part."""

import json
import random
from typing import Any, Final

from tests.servers.value_kinds import quoted

KEYS: Final = (
    "a", "bb", "é", "key with space", 'quo"te', "back\\slash", "", "$", "1", "last", "a.b", "x[0]", "tab\t", "😀",
)  # fmt: skip
_SQL_VALUES: Final = (
    "1.50", "CAST('2024-02-29' AS DATE)", "CAST('-12:34:56.5' AS TIME(1))", "x'00FF'", "NOW(6)", "NULL", "2e0",
)  # fmt: skip


def value(dice: random.Random, depth: int = 0) -> Any:
    """A value as Python's json has it."""
    match dice.randrange(9 if depth < 4 else 6):
        case 0:
            return dice.choice([None, True, False])
        case 1:
            return dice.randrange(-(2 ** dice.randrange(1, 63)), 2 ** dice.randrange(1, 64))
        case 2:
            return dice.choice(
                [0.0, 1.5, -2.25e100, 1e-20, 0.1, 123456.789, dice.random() * 10 ** dice.randrange(-20, 20)]
            )
        case 3 | 4:
            return dice.choice(["", "text", "naïve 😀", 'q"\\\n\x01', "x" * dice.randrange(400)])
        case 5:
            return dice.choice([[], {}])
        case 6 | 7:
            return {dice.choice(KEYS): value(dice, depth + 1) for _ in range(dice.randrange(1, 7))}
        case _:
            return [value(dice, depth + 1) for _ in range(dice.randrange(1, 7))]


def partly_changed(dice: random.Random, column: str, document: Any) -> str:
    """An expression that changes parts of the column's document, which is this one."""
    expression = column
    for _ in range(dice.randrange(1, 4)):
        function = dice.choice(["JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
        arguments = []
        for _ in range(dice.randrange(1, 3)):
            arguments.append(quoted(_path(dice, document)))
            if function != "JSON_REMOVE":
                arguments.append(_argument(dice))
        expression = f"{function}({expression}, {', '.join(arguments)})"
    return expression


def _path(dice: random.Random, of: Any) -> str:
    """A path into the value or just beyond it."""
    text = "$"
    while True:
        match of:
            case dict() if of and dice.random() < 0.9:
                key = dice.choice([*of, dice.choice(KEYS)])
                text += "." + json.dumps(key, ensure_ascii=False)
                of = of.get(key)
            case list() if dice.random() < 0.9:
                place = dice.randrange(len(of) + 2)
                text += dice.choice([f"[{place}]", f"[last-{place}]", "[last]"])
                of = of[place] if place < len(of) else None
            case _:
                return text if text != "$" else "$.new"
        if dice.random() < 0.3:
            return text


def _argument(dice: random.Random) -> str:
    if dice.random() < 0.2:
        return dice.choice(_SQL_VALUES)
    return f"CAST({quoted(json.dumps(value(dice), ensure_ascii=False))} AS JSON)"
