"""The QUERY event: a statement as text. It ends most transactions that aren't rows, and frames those that are.

A LOAD DATA that is logged as a statement has an event of its own, EXECUTE_LOAD_QUERY, with more in its head.

Source: MySQL 9.7 source documentation, classes mysql::binlog::event::Query_event and Execute_load_query_event.
"""

import struct
from dataclasses import dataclass, field
from typing import Final

from pipeline.errors import Definite, UndecodableError
from pipeline.types.charsets import to_text
from pipeline.types.collations import charset
from pipeline.types.cursor import Cursor, utf8

# Thread id, seconds it took, length of the database's name, error code, length of the status variables.
_POST_HEADER: Final = struct.Struct("<IIBHH")

# Of a LOAD DATA after these: the file's number, the places of its name in the text, and what becomes of duplicates.
_LOAD_HEADER: Final = struct.Struct("<IIIB")
# LOG_EVENT_THREAD_SPECIFIC_F in the event's head.
_THREAD_SPECIFIC: Final = 0x4
_UPDATED_DATABASES: Final = 12
_TOO_MANY_DATABASES: Final = 254
_UTF8MB4: Final = 255
# STRICT_TRANS_TABLES and STRICT_ALL_TABLES in sql_mode; ALTER TABLE treats them alike (THD::is_strict_mode).
_STRICT: Final = 1 << 21 | 1 << 22
# What may be in sql_mode besides and has no say in how ALTER TABLE converts values: all but PAD_CHAR_TO_FULL_LENGTH
# (bit 31) and TIME_TRUNCATE_FRACTIONAL (bit 32) of MySQL 9.7, and what later servers may bring.
_NO_CONVERSION: Final = (1 << 31) - 1

# Bytes of each status variable of a fixed length, by its code.
_FIXED: Final = {
    0: 4,
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
_SQL_MODE: Final = 1
_OLD_CATALOG: Final = 2
_COLLATIONS: Final = 4
_TIME_ZONE: Final = 5
_CATALOG: Final = 6
_INVOKER: Final = 11


@dataclass(frozen=True, slots=True)
class Query:
    """A statement, run with `database` as the default one ("" for none).

    `updated`: the databases in which it changed something, None if the event doesn't say. `strict`: whether the
    session's sql_mode refused values that don't fit, and left the others unchanged. `thread`: the connection's.
    `zone`: the session's time_zone if the statement read or wrote local times, else "".
    `failed`: whether the statement ended with an error. A server writes such a statement if it may have done a part:
    before MySQL 8.0, a DROP TABLE of several tables drops the others. `thread_specific`: whether the statement depended
    on its session, so that a name in it may mean a temporary table.
    """

    database: str
    statement: str = field(repr=False)  # it may hold a password
    updated: frozenset[str] | None
    strict: bool
    thread: int = 0
    failed: bool = False
    thread_specific: bool = False
    zone: str = ""


def query(body: bytes, flags: int = 0) -> Query:
    """The QUERY event with this body, and these flags in its head. Raises UndecodableError.

    The statement's bytes are in the client's character set. Where they aren't, or it's one that isn't known, each
    byte beyond ASCII becomes U+FFFD.
    """
    if len(body) < _POST_HEADER.size:
        raise UndecodableError("it is shorter than its own head")
    thread, _, database_bytes, error, variables_bytes = _POST_HEADER.unpack_from(body)
    cursor = Cursor(body, _POST_HEADER.size)
    variables, database = cursor.take(variables_bytes), cursor.take(database_bytes)
    cursor.take(1)
    statement = cursor.rest()
    # What frames nearly all transactions; what they changed is in their rows.
    if statement == b"BEGIN":
        return Query("", "BEGIN", None, False, thread)
    updated, collation, mode, zone = _variables(Cursor(variables))
    strict = bool(mode & _STRICT) and not mode & ~_NO_CONVERSION
    text, of_thread = _text(statement, collation), bool(flags & _THREAD_SPECIFIC)
    return Query(utf8(database), text, updated, strict, thread, error != 0, of_thread, zone)


def load_query(body: bytes) -> Query:
    """The EXECUTE_LOAD_QUERY event with this body. Raises UndecodableError."""
    variables = _POST_HEADER.size + _LOAD_HEADER.size
    if len(body) < variables:
        raise UndecodableError("it is shorter than its own head")
    return query(body[: _POST_HEADER.size] + body[variables:])


def _text(statement: bytes, collation: int) -> str:
    try:
        name = charset(collation)
        # The bytes of a client that has none are taken for names as they are, and names are kept in UTF-8.
        return to_text(statement, "utf8mb4" if name == "binary" else name)
    except Definite:
        return statement.decode("ascii", errors="replace")


def _variables(variables: Cursor) -> tuple[frozenset[str] | None, int, int, str]:
    """Returns the updated databases, the client's collation, sql_mode and the time zone; variables after an unknown
    one are ignored."""
    updated, collation, mode, zone = None, _UTF8MB4, 0, ""
    while variables.left:
        match variables.integer(1):
            case code if code == _UPDATED_DATABASES:
                updated = _names(variables)
            case code if code == _COLLATIONS:
                collation = variables.integer(2)  # the client's; the connection's and the server's follow
                variables.take(4)
            case code if code == _SQL_MODE:
                mode = variables.integer(8)
            case code if code in _FIXED:
                variables.take(_FIXED[code])
            case code if code == _TIME_ZONE:
                zone = utf8(variables.take(variables.integer(1)))
            case code if code == _CATALOG:
                variables.take(variables.integer(1))
            case code if code == _OLD_CATALOG:
                variables.take(variables.integer(1) + 1)
            case code if code == _INVOKER:
                variables.take(variables.integer(1))
                variables.take(variables.integer(1))
            case _:
                break
    return updated, collation, mode, zone


def _names(variables: Cursor) -> frozenset[str] | None:
    count = variables.integer(1)
    if count == _TOO_MANY_DATABASES:
        return None
    return frozenset(utf8(variables.until_zero()) for _ in range(count))
