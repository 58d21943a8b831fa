"""One plain form of each value, to compare the source's rows with those of a journal or a lake.

This module reads the server's own text of a value by the type in its information_schema, and uses no product code. Days
and times are text, because Python has no year 0. A day that no calendar has is None, as it is in the lake.
"""

import struct
from collections.abc import Mapping
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pymysql
from pymysql.constants import ER

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId

Row = Mapping[str, Any]

_INTEGERS: Final = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint", "year"})
_BYTES: Final = frozenset(
    {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
    | {"geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"}
    | {"geometrycollection", "geomcollection"}
)
# The widest decimal that isn't text in the lake.
_DIGITS: Final = 38
_NO_TABLE: Final = (ER.NO_SUCH_TABLE, ER.BAD_DB_ERROR)


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of an Arrow table as Python has them; a day of a year 0, which Python hasn't, is text."""
    columns = {name: _values(column) for name, column in zip(table.column_names, table.columns, strict=True)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return [_day(value) for value in column]


def _day(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        plain = value.cast(pa.timestamp("us")) if pa.types.is_timestamp(value.type) else value
        return plain.cast(pa.string()).as_py()


def plain(value: object) -> object:
    """A value of a journal or a lake in the form of `source_table`."""
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ", "microseconds")
        case date():
            return value.isoformat()
        case list():
            return tuple(value)
        case _:
            return value


def plain_row(row: Row) -> dict[str, Any]:
    """A row of a journal or a lake in the form of `source_table`."""
    return {name: plain(value) for name, value in row.items()}


def source_table(server: MysqlServer, table: TableId) -> list[dict[str, Any]]:
    """All rows of a table as the server has them now, none if it has no such table."""
    with closing(_connect(server)) as connection, connection.cursor() as cursor:
        for setting in ("time_zone = '+00:00'", "sql_mode = ''"):
            cursor.execute(f"SET SESSION {setting}")
        cursor.execute(
            "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, LOWER(DATA_TYPE), NUMERIC_PRECISION"
            " FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION",
            (table.database, table.name),
        )
        exactly = [table.database.encode(), table.name.encode()]  # the server's comparison may fold case
        columns = [
            (name.decode(), kind.decode(), digits)
            for *of, name, kind, digits in cursor.fetchall()
            if of == exactly
        ]
        if not columns:
            return []
        asked = ", ".join(_asked(name, kind) for name, kind, _ in columns)
        try:
            cursor.execute(f"SELECT {asked} FROM {_quoted(table.database)}.{_quoted(table.name)}")
        except pymysql.err.MySQLError as error:
            if error.args[0] in _NO_TABLE:
                return []
            raise
        return [
            {
                name: None if value is None else _read(kind, int(digits or 0), value)
                for (name, kind, digits), value in zip(columns, row, strict=True)
            }
            for row in cursor.fetchall()
        ]


def _connect(server: MysqlServer) -> "pymysql.Connection[Any]":
    """A connection over which each value comes as the bytes that the server sends."""
    return pymysql.connect(
        unix_socket=str(server.socket),
        user="root",
        charset="utf8mb4",
        use_unicode=False,
        conv={},
        autocommit=True,
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _asked(name: str, kind: str) -> str:
    # The text of a FLOAT has fewer digits than it, and so has that of a DOUBLE(10,2) which was a DOUBLE.
    return f"{_quoted(name)} * 1e0" if kind in ("float", "double") else _quoted(name)


def _read(kind: str, digits: int, raw: bytes) -> object:
    """A value by its type's name."""
    match kind:
        case _ if kind in _INTEGERS:
            return int(raw)
        case _ if kind in _BYTES:
            return raw
        case "decimal":
            return Decimal(raw.decode()) if digits <= _DIGITS else raw.decode()
        case "float" | "double":
            return float(raw)
        case "bit":
            return bool(raw[-1]) if digits == 1 else raw
        case "date":
            return raw.decode() if _is_a_day(raw) else None
        case "datetime" | "timestamp":
            text = raw.decode()
            whole, _, fraction = text.partition(".")
            return f"{whole}.{fraction:0<6}" if _is_a_day(raw[:10]) else None
        case "time":
            return _microseconds(raw.decode())
        case "vector":
            return struct.unpack(f"<{len(raw) // 4}f", raw)
        case _:
            return raw.decode()


def _is_a_day(raw: bytes) -> bool:
    try:
        np.datetime64(raw.decode())
    except ValueError:
        return False
    return True


def _microseconds(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    whole, _, fraction = text.lstrip("-").partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    return sign * (((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + int(f"{fraction:0<6}"))
