"""Which columns never leave the source as they are: excluded, masked, hashed or truncated before the journal has them.

A rule names columns exactly (in any case) of the tables that a pattern matches. If several rules name a column, the
first one holds. A rule must never miss a column silently. So a table that lacks a column of a `required` rule is
refused, because the column may have another name by now. A column of a primary key may only be hashed: keys tell rows
apart.

`pipeline.journal.protected_rows` applies the rules to rows.
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from pipeline.config.secret import NO_SECRET, Secret
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Binary, ColumnType, Double, FixedBinary, Float, Text, Vector

# Whoever knows hashes can try values with a salt that is short.
LEAST_SALT: Final = 16

_OTHERS: Final = 'choose treatment = "mask" or "exclude" there'


class Treatment(StrEnum):
    """What becomes of a column's values. NULL stays NULL."""

    EXCLUDE = "exclude"  # the column isn't there
    MASK = "mask"  # one text for all values
    HASH = "hash"  # the digits of HMAC-SHA-256 with the salt: equal for equal values
    TRUNCATE = "truncate"  # the first characters, or bytes


_DONE: Final = {
    Treatment.EXCLUDE: "excluded",
    Treatment.MASK: "masked",
    Treatment.HASH: "hashed",
    Treatment.TRUNCATE: "truncated",
}


@dataclass(frozen=True, slots=True)
class ProtectionRule:
    """The `treatment` of `columns` of `tables`.

    `length`: how many asterisks a mask has, or how much a truncation leaves. `text`: the mask, if it isn't asterisks.
    `required`: whether a table that lacks one of the columns is refused.
    """

    tables: TableFilter
    columns: tuple[str, ...]
    treatment: Treatment
    length: int | None = field(default=None, metadata={"least": 0, "most": 65_535})
    text: str | None = None
    required: bool = True

    def names(self, column: str) -> bool:
        """Returns whether the rule names this column."""
        return fold_name(column) in map(fold_name, self.columns)


@dataclass(frozen=True, slots=True)
class Protection:
    """The rules for columns that are protected. `salt`: the key of all hashes."""

    salt: Secret = NO_SECRET
    rules: tuple[ProtectionRule, ...] = ()

    def protects(self, table: TableId) -> bool:
        """Returns whether a rule matches the table."""
        return bool(_rules_of(self, table))

    def rule_of_column(self, table: TableId, column: str) -> ProtectionRule | None:
        """Returns the rule that holds for a column, None if there is none."""
        return next((rule for _, rule in _rules_of(self, table) if rule.names(column)), None)

    def differs(self, table: TableId, other: TableId, columns: Iterable[str] | None) -> bool:
        """Returns whether one of these columns has another rule in the second table; None for all with a rule in the
        first one."""
        if columns is None:
            columns = [name for _, rule in _rules_of(self, table) for name in rule.columns]
        rules = self.rule_of_column
        return any(rules(table, name) not in (None, rules(other, name)) for name in columns)

    def refusal(self, schema: TableSchema) -> str | None:
        """Returns why the rules can't hold for a table, and what to do; None if they can."""
        return _refusal(self, schema)

    def rules_of_columns(self, schema: TableSchema) -> Mapping[int, ProtectionRule]:
        """Returns the rules that hold for a table's columns, by their indices."""
        return _rules_of_columns(self, schema)

    def hides_key(self, schema: TableSchema) -> bool:
        """Returns whether a column of the primary key is protected, so that keys of the source may not be shown."""
        return not self.rules_of_columns(schema).keys().isdisjoint(schema.key)

    def stored(self, schema: TableSchema) -> TableSchema:
        """Returns the columns that the journal has of a table. If the rules refuse it, it has none of its rows."""
        return _stored(self, schema)

    def digest(self, table: TableId) -> str | None:
        """Returns 16 hex digits that differ if the table's rules differ, or the salt of its hashes; None without rules.

        They tell nothing about the salt to those who have no hashes.
        """
        return _digest(self, table)


UNPROTECTED: Final = Protection()


@lru_cache(maxsize=4096)
def _rules_of(protection: Protection, table: TableId) -> tuple[tuple[int, ProtectionRule], ...]:
    """Returns the rules that match a table, each with its place in the file."""
    return tuple(
        (place, rule) for place, rule in enumerate(protection.rules, start=1) if rule.tables.match(table)
    )


@lru_cache(maxsize=4096)
def _rules_of_columns(protection: Protection, schema: TableSchema) -> Mapping[int, ProtectionRule]:
    found = ((i, protection.rule_of_column(schema.table, c.name)) for i, c in enumerate(schema.columns))
    return {index: rule for index, rule in found if rule is not None}


@lru_cache(maxsize=4096)
def _refusal(protection: Protection, schema: TableSchema) -> str | None:
    return next(_refusals(protection, schema), None)


def _refusals(protection: Protection, schema: TableSchema) -> Iterator[str]:
    there = {fold_name(column.name) for column in schema.columns}
    for place, rule in _rules_of(protection, schema.table):
        for name in rule.columns if rule.required else ():
            if fold_name(name) not in there:
                yield (
                    f"it has no column {name!r}, which protection.rules[{place}] names, and another column may have "
                    f"its values now; correct that rule, or set required = false there"
                )
    for index, rule in protection.rules_of_columns(schema).items():
        column, place = schema.columns[index], protection.rules.index(rule) + 1
        if index in schema.key and rule.treatment is not Treatment.HASH:
            yield (
                f"its column {column.name!r} is in the primary key, and protection.rules[{place}] says that it is "
                f'{_DONE[rule.treatment]}, so that rows could not be told apart; choose treatment = "hash" there, or '
                "leave the table out with `tables`"
            )
        elif unfit := _unfit(column.type, rule.treatment):
            yield (
                f"its column {column.name!r} {unfit}, as protection.rules[{place}] says; "
                + ("leave the table out with `tables`" if index in schema.key else _OTHERS)
            )


def _unfit(kind: ColumnType, treatment: Treatment) -> str | None:
    """Returns why values of this type can't be treated so, None if they can."""
    if treatment is Treatment.TRUNCATE and not isinstance(kind, Text | Binary | FixedBinary):
        return f"is a {kind.wire.upper()}, which can't be truncated"
    if treatment is Treatment.HASH and isinstance(kind, Float | Double | Vector):
        return f"is a {kind.wire.upper()}, whose values have more than one form and can't be hashed"
    return None


@lru_cache(maxsize=4096)
def _stored(protection: Protection, schema: TableSchema) -> TableSchema:
    rules = protection.rules_of_columns(schema)
    if not rules:
        return schema
    excluded = {index for index, rule in rules.items() if rule.treatment is Treatment.EXCLUDE}
    left = [i for i in range(len(schema.columns)) if i not in excluded or i in schema.key]
    columns = (_stored_column(schema.columns[index], rules.get(index)) for index in left)
    return replace(schema, columns=tuple(columns), key=tuple(left.index(index) for index in schema.key))


def _stored_column(column: Column, rule: ProtectionRule | None) -> Column:
    match rule:
        case ProtectionRule(treatment=Treatment.MASK | Treatment.HASH):
            return replace(column, type=Text("utf8mb4"))
        case ProtectionRule(treatment=Treatment.TRUNCATE) if isinstance(column.type, FixedBinary):
            return replace(column, type=Binary())
        case _:
            return column


@lru_cache(maxsize=4096)
def _digest(protection: Protection, table: TableId) -> str | None:
    rules = [rule for _, rule in _rules_of(protection, table)]
    if not rules:
        return None
    told = [[sorted(map(fold_name, rule.columns)), rule.treatment, rule.length, rule.text] for rule in rules]
    hashes = any(rule.treatment is Treatment.HASH for rule in rules)
    salt = protection.salt.value.encode() if hashes else b""
    return hmac.digest(salt, json.dumps(told).encode(), "sha256").hex()[:16]
