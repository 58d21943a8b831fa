"""A session of a live server that returns what the log has of its statements."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pymysql.cursors import Cursor

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.binlog.event_type import Code
from pipeline.binlog.events.table_map_event import table_map
from pipeline.binlog.rows.row_events import ROW_EVENTS
from pipeline.messages.row_images import TableImages
from pipeline.schema.table_map import TableMap
from tests.pipeline.binlog.rows_events import Body, images

_HEADER_BYTES = 19
_CHECKSUM_BYTES = 4


@dataclass
class Session:
    """A connection whose statements' rows events are read from the server's file; `codes` are the last ones' codes."""

    server: MysqlServer
    cursor: Cursor
    codes: list[int] = field(default_factory=list)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        self.cursor.execute(statement)
        return list(self.cursor.fetchall())

    def logged(self, *statements: str) -> list[TableImages]:
        """The images that the statements wrote to the log, by table map."""
        file, start = self.run("SHOW BINARY LOG STATUS")[0][:2]
        for statement in statements:
            self.run(statement)
        maps: dict[bytes, TableMap] = {}
        bodies: dict[TableMap, list[Body]] = {}
        self.codes = []
        with (self.server.data / file).open("rb") as log:
            log.seek(start)
            written = log.read()
        for code, body in _events(written):
            table_id = body[:6]
            if code == Code.TABLE_MAP:
                maps[table_id] = table_map(body)
            elif code in ROW_EVENTS:
                self.codes.append(code)
                bodies.setdefault(maps[table_id], []).append(Body(body, code))
        return [images(mapped, of_table) for mapped, of_table in bodies.items()]


def _events(log: bytes) -> Iterator[tuple[int, bytes]]:
    """The type codes and bodies of these events."""
    at = 0
    while at < len(log):
        (size,) = struct.unpack_from("<I", log, at + 9)
        yield log[at + 4], log[at + _HEADER_BYTES : at + size - _CHECKSUM_BYTES]
        at += size
