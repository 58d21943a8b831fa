"""A source's tables in the oracle's forms.

The server itself writes a table to a file (SELECT … INTO OUTFILE). It writes texts and bytes as hexadecimal digits, so
that the file has no quoting. The names of the types come from information_schema.
"""

import binascii
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pymysql
from pymysql.constants import ER

from deploy.oracle.forms import DIGITS, doubles, without_zeros
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_BYTES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"}
    | {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geometrycollection", "geomcollection"}
)
_NO_TABLE: Final = (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR)
# A block has at least one line; the longest text of a block, as bytes.
_BLOCK: Final = 1 << 30
_DAY: Final = len("2024-02-29")
_SECOND: Final = len("2024-02-29 10:00:00")
_MICROSECOND: Final = _SECOND + len(".000000")

Column = tuple[str, str, int]


def source_table(server: MysqlServer, table: TableId, locked_s: int = 60) -> pa.Table:
    """All rows of a table as the server has them now, in their forms; no column if there's no such table.

    Raises pymysql's OperationalError if the table is locked for longer than `locked_s`.
    """
    path = server.folder / f"oracle-{uuid.uuid4().hex}"
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        columns = _columns(cursor, table)
        if not columns:
            return pa.table({})
        asked = ", ".join(_asked(column) for column in columns)
        for setting in ("time_zone = '+00:00'", "sql_mode = ''", f"lock_wait_timeout = {locked_s}"):
            cursor.execute(f"SET SESSION {setting}")
        try:
            cursor.execute(f"SELECT {asked} INTO OUTFILE '{path}' CHARACTER SET utf8mb4 FROM {_named(table)}")
        except pymysql.err.MySQLError as error:
            path.unlink(missing_ok=True)
            if error.args[0] in _NO_TABLE:
                return pa.table({})
            raise
    try:
        return _read(path, columns)
    finally:
        path.unlink()


def primary_key(server: MysqlServer, table: TableId) -> tuple[str, ...]:
    """Returns the columns of the primary key, in its order."""
    told = server.sql(f"SHOW KEYS FROM {_named(table)} WHERE Key_name = 'PRIMARY'")
    return tuple(row[4] for row in sorted(told, key=lambda row: int(row[3])))


def _columns(cursor: Any, table: TableId) -> list[Column]:
    """The name, the type's name and the digits of each column."""
    cursor.execute(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, LOWER(DATA_TYPE), NUMERIC_PRECISION"
        " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
        (table.database, table.name),
    )
    # The server's comparison may fold case.
    exactly = [table.database, table.name]
    return [(name, kind, int(digits or 0)) for *of, name, kind, digits in cursor.fetchall() if of == exactly]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _named(table: TableId) -> str:
    return f"{_quoted(table.database)}.{_quoted(table.name)}"


def _asked(column: Column) -> str:
    """How the server is to write a column."""
    name, kind, digits = column
    quoted = _quoted(name)
    match kind:
        case _ if kind in _INTEGERS or (kind == "bit" and digits == 1):
            return f"{quoted} + 0"  # without ZEROFILL's zeros, and those of a YEAR
        case "float" | "double":
            # The text of a FLOAT has fewer digits than it, and so has that of a DOUBLE(10,2) which was a DOUBLE.
            return f"{quoted} * 1e0"
        case "decimal" | "date" | "datetime" | "timestamp" | "time":
            return quoted
        case "bit":
            return f"HEX(CAST({quoted} AS BINARY))"
        case _ if kind in _BYTES:
            return f"HEX({quoted})"
        case _:
            return f"HEX(CONVERT({quoted} USING utf8mb4))"


def _read(path: Path, columns: list[Column]) -> pa.Table:
    """What the server has written, in forms."""
    numbered = [str(place) for place in range(len(columns))]
    if size := path.stat().st_size:
        table = pa.csv.read_csv(
            path,
            pa.csv.ReadOptions(column_names=numbered, block_size=min(size, _BLOCK) + 1),
            pa.csv.ParseOptions(
                delimiter="\t", quote_char=False, escape_char=False, ignore_empty_lines=False
            ),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(numbered, pa.string()),
                null_values=[r"\N"],
                strings_can_be_null=True,
            ),
        )
    else:
        table = pa.table([pa.array([], pa.string())] * len(columns), names=numbered)
    read = [
        pa.chunked_array([_form(column)(chunk).cast(pa.binary()) for chunk in texts.chunks], pa.binary())
        for column, texts in zip(columns, table.columns, strict=True)
    ]
    return pa.table(read, names=[name for name, *_ in columns])


def _form(column: Column) -> Callable[[pa.Array], pa.Array]:
    """What makes the form of a column's values of what the server has written."""
    _, kind, digits = column
    match kind:
        case _ if kind in _INTEGERS or (kind == "bit" and digits == 1):
            return lambda texts: texts
        case "float" | "double":
            return lambda texts: doubles(texts.cast(pa.float64()))
        case "decimal":
            return without_zeros if digits <= DIGITS else lambda texts: texts
        case "date":
            return _days
        case "datetime" | "timestamp":
            return _instants
        case "time":
            return _times
        case _:
            return _bytes


def _days(texts: pa.Array) -> pa.Array:
    """Texts that begin with a day; None for those that no calendar has."""
    days = pc.utf8_slice_codeunits(texts, 0, _DAY).dictionary_encode()
    there = pa.array([_is_a_day(day) for day in days.dictionary.to_pylist()], pa.bool_())
    return pc.if_else(there.take(days.indices), texts, None)


def _instants(texts: pa.Array) -> pa.Array:
    whole = pc.equal(pc.utf8_length(texts), _SECOND)
    dotted = pc.if_else(whole, pc.binary_join_element_wise(texts, ".", ""), texts)
    return _days(pc.utf8_rpad(dotted, _MICROSECOND, "0"))


def _times(texts: pa.Array) -> pa.Array:
    times = texts.dictionary_encode()
    return pa.array([_microseconds(text) for text in times.dictionary.to_pylist()], pa.string()).take(
        times.indices
    )


def _is_a_day(text: str) -> bool:
    try:
        np.datetime64(text)
    except ValueError:
        return False
    return True


def _microseconds(text: str) -> str:
    sign = -1 if text.startswith("-") else 1
    whole, _, fraction = text.lstrip("-").partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    return str(sign * (((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(f"{fraction:0<6}")))


def _bytes(digits: pa.Array) -> pa.Array:
    """The bytes that are written as hexadecimal digits, of all values at once."""
    [_, places, data] = digits.buffers()
    ends = np.frombuffer(places, np.int32)[digits.offset : digits.offset + len(digits) + 1]
    raw = binascii.unhexlify(memoryview(data)[ends[0] : ends[-1]]) if data is not None else b""
    there = pc.is_valid(digits).buffers()[1]
    starts = pa.py_buffer(((ends - ends[0]) // 2).astype(np.int32).tobytes())
    return pa.Array.from_buffers(pa.binary(), len(digits), [there, starts, pa.py_buffer(raw)])
