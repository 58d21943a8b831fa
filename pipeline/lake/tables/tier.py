"""Which of the two lake tables of a captured table."""

from enum import StrEnum


class Tier(StrEnum):
    """The two lake tables of a captured table."""

    CHANGELOG = "changelog"
    MIRROR = "mirror"
