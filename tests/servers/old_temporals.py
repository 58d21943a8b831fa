"""A table as a server before MySQL 5.6.4 made it: its TIME, DATETIME and TIMESTAMP have the types' first forms.

No server that can be had makes such columns any more, but MySQL 5.6 still keeps those that there are (WL#946). The
three are stored as integers of 8, 4 and 3 bytes, in MyISAM as everywhere. So a MyISAM table of such integers becomes
one of old temporals when the types of its columns are written over in its definition, the .frm file.

Source: MySQL 5.6 source, `open_binary_frm` in sql/table.cc (a column's entry is 17 bytes, its type the 14th).
"""

from typing import Final

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.types.field_types import FieldType

# Each type's own, and that of the integer in its place.
_STAND_INS: Final = {
    "TIME": (FieldType.TIME, "MEDIUMINT", FieldType.INT24, 10),
    "DATETIME": (FieldType.DATETIME, "BIGINT", FieldType.LONGLONG, 19),
    "TIMESTAMP": (FieldType.TIMESTAMP, "INT", FieldType.LONG, 19),
}

_ENTRY_BYTES: Final = 17
_LENGTH_AT, _TYPE_AT = 3, 13
_FORM_BYTES: Final = 288


def create_old_table(server: MysqlServer, database: str, name: str, **columns: str) -> None:
    """A MyISAM table with the key `id` and these columns, each TIME, DATETIME or TIMESTAMP and nullable."""
    integers = [f"{column} {_STAND_INS[kind][1]} NULL" for column, kind in columns.items()]
    server.sql(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, {', '.join(integers)}) ENGINE = MyISAM",
        "FLUSH TABLES",
        database=database,
    )
    definition = server.data / database / f"{name}.frm"
    frm = bytearray(definition.read_bytes())
    form = int.from_bytes(frm[64 + int.from_bytes(frm[4:6], "little") :][:4], "little")
    screens = int.from_bytes(frm[form + 260 : form + 262], "little")
    entry = form + _FORM_BYTES + screens
    for kind in columns.values():
        entry += _ENTRY_BYTES
        old, _, stand_in, shown = _STAND_INS[kind]
        assert frm[entry + _TYPE_AT] == stand_in
        frm[entry + _TYPE_AT] = old
        frm[entry + _LENGTH_AT : entry + _LENGTH_AT + 2] = shown.to_bytes(2, "little")
    definition.write_bytes(frm)
    server.sql("FLUSH TABLES")
