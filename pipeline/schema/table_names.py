"""Names of tables in a text: `shop.orders, shop.items`."""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Final

from pipeline.errors import Definite
from pipeline.schema.table_schema import TableId

_PART: Final = r"`(?:[^`]|``)+`|[^`.,]+"
_TABLE: Final = re.compile(rf"\s*({_PART})\.({_PART})\s*")
_SIGN: Final = re.compile("[`,]")


class MalformedTableName(Definite, ValueError):
    """A text isn't `database.table`; the message quotes it."""


def parse_tables(text: str) -> tuple[TableId, ...]:
    """Returns the tables that a text names, with commas between them. Raises MalformedTableName."""
    return tuple(map(parse_table, split_names(text)))


def split_names(text: str) -> list[str]:
    """Returns the names between commas that aren't quoted."""
    commas, quoted = [-1], False
    for sign in _SIGN.finditer(text):
        if sign[0] == "`":
            quoted = not quoted
        elif not quoted:
            commas.append(sign.start())
    return [text[comma + 1 : end] for comma, end in pairwise([*commas, len(text)])]


def parse_table(text: str) -> TableId:
    """Returns the table that a text names, `database.table`. Raises MalformedTableName."""
    match = _TABLE.fullmatch(text)
    if match is None:
        raise MalformedTableName(
            f"{text!r} isn't database.table; quote names with dots or commas, as `a.b`.`c`"
        )
    return TableId(*map(_unquoted, match.groups()))


def not_captured(wanted: Iterable[TableId], known: Collection[TableId]) -> Iterator[tuple[TableId, str]]:
    """Returns the tables that aren't among the known ones, each with a hint at what may be meant."""
    names = sorted(map(str, known))
    for table in wanted:
        if table not in known:
            close = difflib.get_close_matches(str(table), names, 1)
            there = f"there are {', '.join(names) or 'none so far'}"
            yield table, f"did you mean {close[0]}?" if close else there


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
