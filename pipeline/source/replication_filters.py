"""The filters by which a replica leaves out a part of what it receives, or applies it to other tables.

A transaction whose changes are left out counts as executed all the same, so GTIDs don't show that the replica's rows
are others. It says which filters it has (SHOW REPLICA STATUS), and here they are applied to a table as the replica
applies them to row events. Where names leave open what is meant, as those with a comma in them, the table counts as
left out.

Source: MySQL 9.7 Reference Manual, "How Servers Evaluate Replication Filtering Rules".
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId

# The places of the filters among the columns of SHOW REPLICA STATUS; the last one is there since MySQL 5.7.
_PLACES: Final = (12, 13, 14, 15, 16, 17, 54)

_APPLIES_PART: Final = (
    "is a replica that doesn't apply all changes of {table} ({filter}), so its rows may be others; remove the filter "
    "there and restore the table"
)


@dataclass(frozen=True, slots=True)
class ReplicationFilters:
    """The filters of one channel, in the server's form: names that a comma separates, patterns of LIKE, pairs."""

    do_databases: str = ""
    ignore_databases: str = ""
    do_tables: str = ""
    ignore_tables: str = ""
    wild_do_tables: str = ""
    wild_ignore_tables: str = ""
    rewritten_databases: str = ""

    @staticmethod
    def of_channel(columns: Sequence[str | None]) -> "ReplicationFilters":
        """The filters in a row of SHOW REPLICA STATUS."""
        return ReplicationFilters(*(columns[place] or "" for place in _PLACES if place < len(columns)))

    def leave_out(self, table: TableId) -> str | None:
        """Returns the filter by which the table's changes aren't applied to it; None if they are."""
        name, database = str(table).lower(), table.database.lower()
        if database in re.split("[(),]", self.rewritten_databases.lower()):
            return f"Replicate_Rewrite_DB={self.rewritten_databases}"
        if self.do_databases and table.database not in self.do_databases.split(","):
            return f"Replicate_Do_DB={self.do_databases}"
        if not self.do_databases and database in self.ignore_databases.lower().split(","):
            return f"Replicate_Ignore_DB={self.ignore_databases}"
        if str(table) in self.do_tables.split(","):
            return None
        if name in self.ignore_tables.lower().split(","):
            return f"Replicate_Ignore_Table={self.ignore_tables}"
        if _is_like(str(table), self.wild_do_tables):
            return None
        if _is_like(name, self.wild_ignore_tables.lower()):
            return f"Replicate_Wild_Ignore_Table={self.wild_ignore_tables}"
        if self.do_tables:
            return f"Replicate_Do_Table={self.do_tables}"
        return f"Replicate_Wild_Do_Table={self.wild_do_tables}" if self.wild_do_tables else None


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica's answer to SHOW REPLICA STATUS: the transactions received by any channel, and each one's filters."""

    received: GtidSet
    filters: tuple[ReplicationFilters, ...]


def find_left_out(
    channels: Iterable[ReplicationFilters], tables: Iterable[TableId]
) -> tuple[TableId, str] | None:
    """Returns one of these tables that a channel doesn't apply all changes to, with the filter; None without any."""
    of_channels = tuple(channels)
    found = ((table, each.leave_out(table)) for table in tables for each in of_channels)
    return next(((table, why) for table, why in found if why is not None), None)


def lacking_changes(channels: Iterable[ReplicationFilters], tables: Iterable[TableId]) -> str | None:
    """Returns what is wrong with a replica that leaves out changes of one of these tables; None if it doesn't."""
    lacks = find_left_out(channels, tables)
    return None if lacks is None else _APPLIES_PART.format(table=lacks[0], filter=lacks[1])


def _is_like(name: str, patterns: str) -> bool:
    return any(_pattern(each).fullmatch(name) for each in patterns.split(",") if each)


@cache
def _pattern(like: str) -> re.Pattern[str]:
    """A pattern of LIKE as a regular expression."""
    parts = re.findall(r"\\.|.", like, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL)
