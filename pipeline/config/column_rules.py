"""Which columns become messages, under which keys and in which form: Debezium's options of that.

A column is meant by regular expressions (RE2, in any case) over `database.table.column` that match the whole name.

Source: Debezium 3.6, `column.include.list`, `column.exclude.list`, `column.mask.with.length.chars`,
`column.mask.hash[.v2].hashAlgorithm.with.salt.salt`, `column.truncate.to.length.chars`, `message.key.columns`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.secret import NO_SECRET, Secret
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema


class HashAlgorithm(StrEnum):
    """By Java's names."""

    MD5 = "MD5"
    SHA_1 = "SHA-1"
    SHA_256 = "SHA-256"
    SHA_384 = "SHA-384"
    SHA_512 = "SHA-512"


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What becomes of the values of `columns`: one of the three.

    `mask_with_length`: so many asterisks. `truncate_to_length`: their first characters. `hash`: the digits of the hash
    of `salt` and the value; `hash_version` 1 is Debezium's older one, of the value as Java serializes it.
    """

    columns: tuple[str, ...]
    mask_with_length: int | None = field(default=None, metadata={"least": 0, "most": 65_535})
    truncate_to_length: int | None = field(default=None, metadata={"least": 0})
    hash: HashAlgorithm | None = None
    salt: Secret = NO_SECRET
    hash_version: int = field(default=2, metadata={"least": 1, "most": 2})


@dataclass(frozen=True, slots=True)
class MessageKey:
    """Of the tables that `tables` match, the columns that a message's key has, in this order."""

    tables: TableFilter
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """All of these options. Of several rules and keys the first that matches holds."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    rules: tuple[ColumnRule, ...] = ()
    keys: tuple[MessageKey, ...] = ()

    def values_of(self, schema: TableSchema) -> tuple[Column, ...]:
        """The columns that a row of a message has."""
        names = [column.name for column in schema.columns]
        kept = _matching(self.include, schema.table, names) if self.include else set(names)
        kept -= _matching(self.exclude, schema.table, names)
        return tuple(column for column in schema.columns if column.name in kept)

    def key_of(self, schema: TableSchema) -> tuple[Column, ...]:
        """The columns of a message's key, none where it has none."""
        by_name = {column.name.lower(): column for column in schema.columns}
        for key in self.keys:
            if key.tables.match(schema.table):
                found = [by_name[name.lower()] for name in key.columns if name.lower() in by_name]
                return tuple(found) or schema.key_columns
        return schema.key_columns

    def rules_of(self, schema: TableSchema) -> dict[str, ColumnRule]:
        """The rules of the table's columns, by the columns' names."""
        names = [column.name for column in schema.columns]
        found: dict[str, ColumnRule] = {}
        for rule in self.rules:
            for name in _matching(rule.columns, schema.table, names):
                found.setdefault(name, rule)
        return found


def whole_name(pattern: str) -> str:
    """The expression that matches a column's whole name, in any case; a dot means any character, a line's end too."""
    return rf"(?is)\A(?:{pattern})\z"


def _matching(patterns: Iterable[str], table: TableId, names: list[str]) -> set[str]:
    """The names of the columns that one of the patterns matches."""
    texts = pa.array([f"{table.dotted}.{name}" for name in names], pa.string())
    found: set[str] = set()
    for pattern in patterns:
        matches = pc.match_substring_regex(texts, whole_name(pattern)).to_pylist()
        found |= {name for name, matched in zip(names, matches, strict=True) if matched}
    return found
