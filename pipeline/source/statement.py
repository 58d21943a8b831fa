"""A statement for the source server: text without values, and the values that are bound to it.

The text has one `%s` for each parameter. Any other percent sign in it is doubled (PEP 249, paramstyle "format"). Names
can't be bound, so they go through `quoted`.

A value's Python type decides its type on the server. A whole number is a BIGINT, and a float a DOUBLE of the same bits.
A str is text in utf8mb4, and bytes are a binary string.

Source: MySQL 9.7 source documentation, "COM_STMT_EXECUTE" and "Binary Protocol Value".
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from pipeline.schema.row_keys import KeyPart
from pipeline.schema.table_schema import TableId


@dataclass(frozen=True, slots=True)
class Statement:
    """What to send: `sql` with as many placeholders `%s` as there are `parameters`."""

    sql: str
    parameters: tuple[KeyPart, ...] = ()

    @property
    def marked(self) -> str:
        """The text as a prepared statement has it, with a question mark in each value's place."""
        return self.sql % (("?",) * len(self.parameters))

    @property
    def size(self) -> int:
        """Returns the bytes of the text and of the values together, as they are sent."""
        return len(self.marked.encode()) + len(encoded(self.parameters))


# The types of bound values (enum_field_types), each with the flag that says whether it's unsigned.
_BIGINT: Final = b"\x08\x00"
_BIGINT_UNSIGNED: Final = b"\x08\x80"
_DOUBLE: Final = b"\x05\x00"
_VAR_STRING: Final = b"\xfd\x00"
_BLOB: Final = b"\xfc\x00"


def encoded(parameters: Sequence[KeyPart]) -> bytes:
    """The parameters as COM_STMT_EXECUTE has them, from the bitmap of NULLs on; nothing where there are none."""
    if not parameters:
        return b""
    types, values = zip(*map(_encode, parameters), strict=True)
    no_nulls = bytes((len(parameters) + 7) // 8)
    return no_nulls + b"\x01" + b"".join(types) + b"".join(values)


def _encode(value: KeyPart) -> tuple[bytes, bytes]:
    match value:
        case int():
            return (
                (_BIGINT_UNSIGNED, struct.pack("<Q", value))
                if value >= 0
                else (_BIGINT, struct.pack("<q", value))
            )
        case float():
            return _DOUBLE, struct.pack("<d", value)
        case str():
            return _VAR_STRING, _with_length(value.encode())
        case bytes():
            return _BLOB, _with_length(value)
        case _:
            assert_never(value)


def _with_length(value: bytes) -> bytes:
    """Returns the bytes after their number (a length-encoded integer)."""
    size = len(value)
    if size < 0xFB:
        return size.to_bytes(1) + value
    if size < 1 << 16:
        return b"\xfc" + size.to_bytes(2, "little") + value
    if size < 1 << 24:
        return b"\xfd" + size.to_bytes(3, "little") + value
    return b"\xfe" + size.to_bytes(8, "little") + value


def quote_name(name: str) -> str:
    """A name of a column, table or database as the text of a Statement takes it."""
    return "`" + name.replace("`", "``").replace("%", "%%") + "`"


def quoted_table(table: TableId) -> str:
    """A table's full name as the text of a Statement takes it."""
    return f"{quote_name(table.database)}.{quote_name(table.name)}"
