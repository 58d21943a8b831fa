"""Where the lake's tables are, and the folders of what the service needs beside them."""

from hashlib import sha256
from typing import Final

from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

# Filesystems take names of 255 bytes.
_LONGEST_FOLDER: Final = 220


def location(lake: str, table: TableId, tier: Tier) -> str:
    """Returns the path of a lake table: LAKE/database/table/tier."""
    return f"{table_folder(lake, table)}/{tier}"


def table_folder(lake: str, table: TableId) -> str:
    """Returns the path of the folder that has a table's lake tables: LAKE/database/table.

    Of a name, letters, digits, `-` and an inner `_` of ASCII stay. Each other character becomes `~` and two hex digits
    for each byte of UTF-8. So no name is hidden (leading `_` or `.`), climbs (`..`), or means something to Hadoop (`%`,
    `*`, `=`), and two tables never share a path. If a name gets too long for a filesystem, a digest replaces its end.
    """
    return "/".join((lake.rstrip("/"), _folder(table.database), _folder(table.name)))


def shadow(lake: str, table: TableId, generation: int) -> str:
    """Returns the path of the table in which a generation of the mirror is filled while readers see the one before."""
    return f"{shadows(lake, table)}{generation}"


def shadows(lake: str, table: TableId) -> str:
    """Returns the beginning of the paths of all such tables."""
    return f"{location(lake, table, Tier.MIRROR)}-next-"


# The folder under a lake's path for what verifications find. No database's folder begins like this.
_OWN: Final = "_tidemark"


def findings_path(lake: str) -> str:
    """Returns the path of the Delta table with each row that verifications have found to differ."""
    return f"{lake.rstrip('/')}/{_OWN}/verification"


def judgements_path(lake: str) -> str:
    """Returns the path of the Delta table with the result for each table of each verification."""
    return f"{lake.rstrip('/')}/{_OWN}/verification-runs"


def verified_path(lake: str, table: TableId) -> str:
    """Returns the path of the folder with what verifications of a table have read and not judged yet."""
    return "/".join((lake.rstrip("/"), _OWN, "verifying", _folder(table.database), _folder(table.name)))


def merging_path(lake: str, table: TableId) -> str:
    """Returns the path of the folder with what a merge of a table's changes needs while it runs."""
    return "/".join((lake.rstrip("/"), _OWN, "merging", _folder(table.database), _folder(table.name)))


def _folder(name: str) -> str:
    escaped = _escaped(name)
    if len(escaped) <= _LONGEST_FOLDER:
        return escaped
    return f"{escaped[:_LONGEST_FOLDER]}~~{sha256(name.encode()).hexdigest()[:32]}"


def _escaped(name: str) -> str:
    return "".join(
        chr(byte)
        if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) == "-" or (byte == 0x5F and at > 0))
        else f"~{byte:02X}"
        for at, byte in enumerate(name.encode())
    )
