"""Whether a statement may have moved instants, because it took them for local times on the way.

An ALTER TABLE that copies a table reads each TIMESTAMP as a local time of its session's time_zone, and writes it back.
It does so also where the column stays as it is. Where clocks go back, two instants have one local time. Then the
earlier one becomes the later one, in strict mode too, and nothing in the log says so (observed of MySQL 5.6 and 9.7). A
statement in the log has its time zone if it read or wrote local times, for whatever reason.

Source: MySQL 9.7 Reference Manual, "MySQL Server Time Zone Support", and the source documentation of
mysql::binlog::event::Query_event (Q_TIME_ZONE_CODE).
"""

import re
from typing import Final

from pipeline.schema.table_schema import TableSchema
from pipeline.types import column_types as t

_OFFSET: Final = re.compile(r"[+-][0-9]{1,2}:[0-9]{2}")
_SYSTEM: Final = "system"
_UTC: Final = "utc"


def may_move_instants(zone: str, *, system_is_utc: bool) -> bool:
    """Whether two instants may have one local time in this time_zone of a statement, "" where it used none.

    `system_is_utc`: whether the server's own time zone is UTC.
    """
    name = zone.casefold()
    if name == _SYSTEM:
        return not system_is_utc
    return name not in ("", _UTC) and _OFFSET.fullmatch(name) is None


def has_instants(schema: TableSchema) -> bool:
    """Whether a table has a TIMESTAMP."""
    return any(isinstance(column.type, t.Timestamp) for column in schema.columns)
