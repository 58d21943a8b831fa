"""What a lake table says of itself to people who find it: what it is, and what to read instead.

The text is Delta's description of the table, and the property `tidemark.about`
(`pipeline.lake.tables.properties.Property`).
"""

from typing import Final

from pipeline.config.table_rules import Tiers
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId

# Whoever has the lake has its path.
_VIEW: Final = "For the rows as of now read its live view, which `tidemark sql --lake PATH {table}` prints."

_MIRROR: Final = (
    "The rows of {table}, a table of MySQL, as of an earlier moment: Tidemark merges changes into it now and then. "
    "The history of this table has the position of each merge. "
) + _VIEW
_SHADOW: Final = (
    "Rows of {table}, a table of MySQL, that Tidemark is reading again: not all have come. They take the mirror's "
    "place once they have. "
) + _VIEW
_CHANGELOG: Final = (
    "The changes of {table}, a table of MySQL, each once, in the order of __scn and __ordinal. It isn't the table: the "
    "rows that the first snapshot read are in the mirror alone. "
) + _VIEW
_INBOX: Final = (
    "The changes of {table}, a table of MySQL, that its mirror hasn't merged yet. Tidemark removes the merged ones. "
) + _VIEW
_ALONE: Final = (
    "The changes of {table}, a table of MySQL, each once, in the order of __scn and __ordinal; the rows that a "
    "snapshot read are among them (r). There is no mirror and no live view of it."
)
_OF_TIERS: Final = {Tiers.BOTH: _CHANGELOG, Tiers.MIRROR: _INBOX, Tiers.CHANGELOG: _ALONE}
_KEYLESS: Final = (
    "The changes of {table}, a table of MySQL without a primary key, in the order of __scn and __ordinal. All rows "
    "that a snapshot read (r) come after a row (t) from which on the changes count. "
    "`tidemark sql --lake PATH {table}` prints the query that adds them up."
)


def describe_mirror(table: TableId, *, shadow: bool = False) -> str:
    """Returns what a mirror is, or the table in which its next generation is filled."""
    return (_SHADOW if shadow else _MIRROR).format(table=table)


def describe_changelog(table: TableId, tiers: Tiers, *, keyed: bool) -> str:
    """Returns what the changelog of a table is, by which lake tables are kept of it."""
    if not keyed:
        return _KEYLESS.format(table=table)
    return _OF_TIERS[tiers].format(table=table)


def describe_lake_table(table: TableId, tier: Tier, tiers: Tiers, *, keyed: bool) -> str:
    """Returns what a lake table of a table is."""
    return describe_mirror(table) if tier is Tier.MIRROR else describe_changelog(table, tiers, keyed=keyed)
