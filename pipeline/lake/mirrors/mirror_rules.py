"""Which tables have a mirror in the lake: by their rules, and after a rule has changed.

A table without a mirror has everything in its changelog, including the rows of its first snapshot. If the lake has a
mirror of such a table, or the journal has rows for one, another rule held before. Then the sink sets the table aside:
otherwise the mirror would become outdated, or the rows would be lost.

A rule may want a mirror that the lake doesn't have, although the lake is past the SCN at which the mirror's generation
began. Then rows of that generation may be in the changelog, where another rule put them, or nowhere, because somebody
removed the table. The mirror waits for another generation, which the sink requests
(`pipeline.journal.missing_generations`). The changelog continues meanwhile.
"""

from collections.abc import Mapping
from dataclasses import replace

from pipeline.config.table_rules import LakeRule, Tiers, rule_of
from pipeline.lake.batch import Batch, LakeTableState, Pieces
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Mirror

_THERE = (
    '{table} has a mirror in the lake, and lake.rules has tiers = "changelog" for it; remove the mirror (its folder '
    "{table}/mirror of the lake), or give it another rule"
)
_WAITING = (
    'rows of the first snapshot of {table} wait for its mirror, and lake.rules has tiers = "changelog" for it; give it '
    "another rule until they are delivered"
)


def forbidden_mirror(found: LakeTableState, table: TableId, rule: LakeRule) -> str | None:
    """Returns why a table is set aside of which the lake has a mirror against its rule; None if it isn't."""
    forbidden = rule.tiers is Tiers.CHANGELOG and found.generation is not None
    return _THERE.format(table=table) if forbidden else None


def forbidden_rows(pieces: Pieces, table: TableId, rule: LakeRule) -> str | None:
    """Returns why a table is set aside that lacks rows of a mirror against its rule; None if it doesn't."""
    return _WAITING.format(table=table) if rule.tiers is Tiers.CHANGELOG and pieces.rows else None


def has_mirror(table: TableId, schema: TableSchema | None, rules: tuple[LakeRule, ...]) -> bool:
    """Returns whether a table is to have a mirror: it has a primary key, and no rule is against it."""
    return (schema is None or bool(schema.key)) and rule_of(rules, table).tiers is not Tiers.CHANGELOG


def tables_without_mirror(
    delivered: Mapping[TableId, LakeTableState], begun: Mapping[TableId, Mirror], rules: tuple[LakeRule, ...]
) -> frozenset[TableId]:
    """Returns the tables whose mirror lacks the generation that has `begun` in the lake, except those that must have no
    mirror."""
    return frozenset(
        table
        for table, found in delivered.items()
        if table in begun
        and (found.generation is None or found.generation < begun[table].since)
        and found.stopped is None
        and rule_of(rules, table).tiers is not Tiers.CHANGELOG
    )


def apply_rules(
    batch: Batch, rules: tuple[LakeRule, ...], waiting: frozenset[TableId] = frozenset(), since: int = 0
) -> Batch:
    """Returns the batch without the generations of mirrors that aren't kept.

    Of the tables that are `waiting` it keeps only those that begin at the SCN `since` or after it.
    """
    generations = {}
    for table, begun in batch.generations.items():
        if rule_of(rules, table).tiers is Tiers.CHANGELOG:
            continue
        kept = tuple(each for each in begun if table not in waiting or each.since >= since)
        if kept:
            generations[table] = kept
    return replace(batch, generations=generations)
