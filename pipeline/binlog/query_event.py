"""The QUERY event: a statement as text. It ends most transactions that aren't rows, and frames those that are.

Source: MySQL 9.7 source documentation, class mysql::binlog::event::Query_event.
"""

import struct
from dataclasses import dataclass
from typing import Final

from pipeline.binlog.cursor import Cursor, decoded
from pipeline.binlog.errors import UndecodableError

# Thread id, seconds it took, length of the database's name, error code, length of the status variables.
_POST_HEADER: Final = struct.Struct("<IIBHH")

_UPDATED_DATABASES: Final = 12
_TOO_MANY_DATABASES: Final = 254

# Bytes of each status variable of a fixed length, by its code.
_FIXED: Final = {
    0: 4,
    1: 8,
    3: 4,
    4: 6,
    7: 2,
    8: 2,
    9: 8,
    10: 4,
    13: 3,
    16: 1,
    17: 8,
    18: 2,
    19: 1,
    20: 1,
    21: 1,
}
_OLD_CATALOG: Final = 2
_ONE_TEXT: Final = (5, 6)
_INVOKER: Final = 11


@dataclass(frozen=True, slots=True)
class Query:
    """A statement, run with `database` as the default one ("" for none).

    `updated`: the databases in which it changed something, None where the event doesn't say.
    """

    database: str
    statement: str
    updated: frozenset[str] | None


def query(body: bytes) -> Query:
    """The QUERY event with this body. Raises UndecodableError.

    The statement's bytes are in the client's character set; what isn't UTF-8 of it is shown as U+FFFD.
    """
    if len(body) < _POST_HEADER.size:
        raise UndecodableError("it is shorter than its own head")
    _, _, database_bytes, _, variables_bytes = _POST_HEADER.unpack_from(body)
    cursor = Cursor(body, _POST_HEADER.size)
    variables = cursor.take(variables_bytes)
    database = decoded(cursor.take(database_bytes))
    cursor.take(1)
    statement = cursor.rest()
    # The frames of nearly all transactions; what they updated is in their rows.
    if statement in _FRAMES:
        return Query(database, _FRAMES[statement], None)
    return Query(database, statement.decode(errors="replace"), _updated(Cursor(variables)))


_FRAMES: Final = {b"BEGIN": "BEGIN", b"COMMIT": "COMMIT"}


def _updated(variables: Cursor) -> frozenset[str] | None:
    while variables.left:
        match variables.integer(1):
            case code if code == _UPDATED_DATABASES:
                return _names(variables)
            case code if code in _FIXED:
                variables.take(_FIXED[code])
            case code if code in _ONE_TEXT:
                variables.take(variables.integer(1))
            case code if code == _OLD_CATALOG:
                variables.take(variables.integer(1) + 1)
            case code if code == _INVOKER:
                variables.take(variables.integer(1))
                variables.take(variables.integer(1))
            case _:
                return None  # a variable of a later version, so that those behind it can't be found
    return None


def _names(variables: Cursor) -> frozenset[str] | None:
    count = variables.integer(1)
    if count == _TOO_MANY_DATABASES:
        return None
    *names, _ = variables.rest().split(b"\0", count) if count else [b""]
    if len(names) != count:
        raise UndecodableError(f"it says that it names {count} databases, and names {len(names)}")
    return frozenset(decoded(name) for name in names)
