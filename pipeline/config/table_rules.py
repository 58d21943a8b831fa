"""What the lake keeps of each table: rules by the table's name. The first matching rule holds."""

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId


class Tiers(StrEnum):
    """Which lake tables are kept of a table."""

    BOTH = "both"  # mirror and changelog
    MIRROR = "mirror"  # the changelog is only the mirror's inbox: what has been merged may be trimmed from it
    CHANGELOG = "changelog"  # no mirror; a snapshot's rows go into the changelog too, as `r`


class SchemaChanges(StrEnum):
    """What becomes of a change of the table's columns."""

    APPLY = "apply"  # all that the lake tables can take on
    ADDITIVE = "additive"  # columns that are added or widened; any other stops the table
    REFUSE = "refuse"  # any stops the table


@dataclass(frozen=True, slots=True)
class LakeRule:
    """What holds for `tables`. `before_images`: an update's row before it is in the changelog too, as `b`.

    Without `deletion_vectors` a merge writes each file again in which a row changes, and readers need no such feature.
    """

    tables: TableFilter
    tiers: Tiers = Tiers.BOTH
    before_images: bool = False
    schema_changes: SchemaChanges = SchemaChanges.APPLY
    deletion_vectors: bool = True


# What holds for a table that no rule matches.
PLAIN = LakeRule(TableFilter((".*",)))


@lru_cache(maxsize=4096)
def rule_of(rules: tuple[LakeRule, ...], table: TableId) -> LakeRule:
    """The first rule that matches a table, PLAIN if none does."""
    return next((rule for rule in rules if rule.tables.match(table)), PLAIN)


def with_before_images(rules: tuple[LakeRule, ...]) -> tuple[LakeRule, ...]:
    """The rules by which a journal is written whose readers want what each update found."""
    return tuple(replace(rule, before_images=True) for rule in (*rules, PLAIN))
