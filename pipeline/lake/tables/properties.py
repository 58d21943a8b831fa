"""The properties of the lake's tables: what they report about themselves, and what Delta obeys."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from pipeline.lake.tables.tier import Tier

# For how many hours an older version of a changelog can be read. Its rows have the segment that they came with, so the
# newest version has every earlier state.
CHANGELOG_VERSIONS_H = 24

# The property by which a Delta table's columns have names of their own in its files.
MAPPING: Final = "delta.columnMapping.mode"

# The characters that a column's name may not have without column mapping (Delta: Column mapping).
_UNFIT = set(" ,;{}()\n\t=")

# Whether a merge marks rows as deleted, or writes their files again.
VECTORS: Final = "delta.enableDeletionVectors"

# With it Delta forgets the versions of applications after a time, and so how far a table is.
FORGETTING: Final = "delta.setTransactionRetentionDuration"

# A changelog gets some commits a second, and a reader lists all of them to find the newest. So Delta keeps them for
# CHANGELOG_VERSIONS_H, not for thirty days. With deletion vectors a merge needn't rewrite each file of the mirror in
# which it finds a key.
_SETTINGS: Final = {
    Tier.CHANGELOG: {
        "delta.deletedFileRetentionDuration": f"interval {CHANGELOG_VERSIONS_H} hours",
        "delta.logRetentionDuration": f"interval {CHANGELOG_VERSIONS_H} hours",
    },
    Tier.MIRROR: {VECTORS: "true"},
}

# The properties of the two tables of verifications. Each result has an application of its own, which Delta forgets.
RESULTS: Final = {**_SETTINGS[Tier.CHANGELOG], FORGETTING: f"interval {CHANGELOG_VERSIONS_H} hours"}


class Property(StrEnum):
    """What a lake table reports about itself, as table properties.

    JOURNAL: the id of the journal that feeds it. SCHEMA: the source's schema that it has, as JSON, and SINCE: the
    segment that this came with. PARTIAL: changes in it may lack columns. STOPPED: why the sink delivers nothing more to
    it, else empty, and STOPPED_AT: the SCN through which the sink had read the journal then. ALTERING: the columns that
    it is about to get, if that takes several commits; else empty. PIN: the column that texts of the live view are bound
    to (`pipeline.lake.live_view`), once a mirror is complete. REBUILDING: that a generation of the mirror is being
    filled (`pipeline.lake.tables.report.Rebuilding`); else empty. MERGED: the segment that a mirror had merged when a
    swap brought it, or when it was shown first. CONSTANTS: the columns of its schema that a mirror lacks
    (`pipeline.lake.tables.report.Constant`); empty if there are none. AFTER: the mark `after` (`actors.lake.lake`) of a
    lake table in whose place a mirror has come.
    """

    JOURNAL = "tidemark.journal"
    SCHEMA = "tidemark.schema"
    SINCE = "tidemark.since"
    PARTIAL = "tidemark.partial"
    STOPPED = "tidemark.stopped"
    STOPPED_AT = "tidemark.stoppedAt"
    ALTERING = "tidemark.altering"
    PIN = "tidemark.pin"
    REBUILDING = "tidemark.rebuilding"
    MERGED = "tidemark.merged"
    CONSTANTS = "tidemark.constants"
    ABOUT = "tidemark.about"
    CAPTURE_STOPPED = "tidemark.captureStopped"
    AFTER = "tidemark.after"


def properties_of(tier: Tier, properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a new lake table: these, and those that each of its tier has."""
    return {**_SETTINGS[tier], **{str(key): value for key, value in properties.items()}}


def need_mapping(names: Iterable[str]) -> bool:
    """Returns whether a table with such column names needs Delta's column mapping."""
    return any(_UNFIT & set(name) for name in names)
