"""Debezium's options for columns as rules of `[protection]`: then lake and journal lack the values too.

Debezium's options name columns by expressions, and ours by their names, so that a table that lacks one is noticed. So
only expressions that are plain names are converted, and any other one refuses the connector. Debezium masks NULL too,
and hashes without a key: what differs is noted.

Source: Debezium 3.6, `column.exclude.list`, `column.truncate.to.N.chars`, `column.mask.with.N.chars`,
`column.mask.hash[.v2].hashAlgorithm.with.salt.salt`.
"""

import re
from typing import Final

from pipeline.config.column_protection import Treatment
from pipeline.config.debezium.conversion import (
    Conversion,
    NoteKind,
    NotTakenOver,
    TomlValue,
    without_salt,
)
from pipeline.config.debezium.tables import listed_expressions

SALT_FILE: Final = "/run/secrets/tidemark-salt"

# In the order in which Debezium tries them.
_OPTIONS: Final = (
    (re.compile(r"column\.exclude\.list"), Treatment.EXCLUDE),
    (re.compile(r"column\.truncate\.to\.(\d+)\.chars"), Treatment.TRUNCATE),
    (re.compile(r"column\.mask\.with\.(\d+)\.chars"), Treatment.MASK),
    (re.compile(r"column\.mask\.hash(?:\.v2)?\.[^.]+\.with\.salt\..+", re.DOTALL), Treatment.HASH),
)
_COLUMN: Final = re.compile(r"([\w$-]+)(?:\\\.|\[\.\]|\.)([\w$-]+)(?:\\\.|\[\.\]|\.)([\w$-]+)")


def protected_columns(work: Conversion) -> None:
    """Puts the rules for the columns that the connector protects. Raises NotTakenOver for what rules can't say."""
    if work.properties.get("column.include.list"):
        raise NotTakenOver(
            "column.include.list: rules name the columns that they protect; list these in column.exclude.list"
        )
    for option, treatment in _OPTIONS:
        for found in filter(None, map(option.fullmatch, list(work.properties))):
            name = found.string
            if given := work.take(name):
                length = {"length": int(found[1])} if found.groups() else {}
                _put_rules(work, name, given, {"treatment": treatment.value, **length})
                _tell_differences(work, name, treatment)


def without_statements(work: Conversion) -> None:
    """Leaves out what would put statements with values into the journal, if columns are protected."""
    if "protection" not in work.keys:
        return
    for section, key, name in (
        ("source", "keep_statements", "include.query"),
        ("kafka", "include_schema_changes", "include.schema.changes"),
    ):
        if work.keys.get(section, {}).pop(key, None):
            why = "texts of statements may have values of protected columns, so that the journal keeps none"
            work.tell(NoteKind.OTHERWISE, name, why)


def _put_rules(work: Conversion, name: str, given: str, rule: dict[str, TomlValue]) -> None:
    columns: dict[str, list[str]] = {}
    for expression in listed_expressions(given):
        if (found := _COLUMN.fullmatch(expression)) is None:
            raise NotTakenOver(
                f"{without_salt(name)}: {expression!r} isn't database.table.column, and rules name columns; "
                "write their names, or leave out --protect"
            )
        columns.setdefault(rf"(?i){re.escape(found[1])}\.{re.escape(found[2])}", []).append(found[3])
    for table, names in columns.items():
        work.add("protection", "rules", {"tables": [table], "columns": names, **rule})


def _tell_differences(work: Conversion, name: str, treatment: Treatment) -> None:
    if treatment is Treatment.MASK:
        work.tell(NoteKind.OTHERWISE, name, "NULL stays NULL, and columns of all types are masked")
    if treatment is Treatment.HASH:
        work.put("protection", "salt_file", SALT_FILE)
        why = f"hashes are HMAC-SHA-256, other ones than the connector's; put a random text into {SALT_FILE}"
        work.tell(NoteKind.TO_DO, name, why)
