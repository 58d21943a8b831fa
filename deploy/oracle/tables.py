"""Compares a copy of a table with its source: by key, as bags of rows in the forms of `deploy.oracle.forms`."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

# How many differences of one kind are reported.
TOLD: Final = 5
# How many unequal rows are looked at to find them.
_LOOKED_AT: Final = 1_000
# What stands in the source's rows for a column that only the copy has.
_NO_COLUMN: Final = b"\0no such column"

Key = tuple[bytes | None, ...]
Texts = dict[str, bytes | None]


def unequal_rows(what: str, copy: pa.Table, source: pa.Table, key: Sequence[str]) -> list[str]:
    """Returns differences of two tables as texts, none if each key has one row in both, and the same.

    What has been added to a table has no place in rows of before, and is NULL there.
    """
    names = list(dict.fromkeys([*source.column_names, *copy.column_names, *key]))
    # Names of columns are theirs and may be alike; numbers aren't.
    ours, theirs = _numbered(copy, names, None), _numbered(source, names, _NO_COLUMN)
    places = [str(names.index(name)) for name in key]
    unequal = _unequal(ours, theirs, [str(place) for place in range(len(names))])
    found = _differences(what, names, key, unequal.sort_by([(place, "ascending") for place in places] or "n"))
    twice = [f"{what}: {_shown(each)} is there twice" for each in _twice(ours, places, key)]
    one = [
        f"{what}: {_shown(each)} is the key of several rows of the source"
        for each in _twice(theirs, places, key)
    ]
    return [*found, *twice, *one]


def _numbered(table: pa.Table, names: Sequence[str], lacking: bytes | None) -> pa.Table:
    there = set(table.column_names)
    columns = [
        table[name] if name in there else pa.repeat(pa.scalar(lacking, pa.binary()), len(table))
        for name in names
    ]
    return pa.table(columns, names=[str(place) for place in range(len(names))])


def _unequal(ours: pa.Table, theirs: pa.Table, places: list[str]) -> pa.Table:
    """The rows of which one side has more; `n`: how many more the source has."""
    signed = [table.append_column("n", pa.repeat(n, len(table))) for table, n in ((theirs, 1), (ours, -1))]
    counted = pa.concat_tables(signed).group_by(places).aggregate([("n", "sum")])
    return counted.rename_columns([*places, "n"]).filter(pc.field("n") != 0)


def _differences(what: str, names: Sequence[str], key: Sequence[str], unequal: pa.Table) -> list[str]:
    ours: dict[Key, Texts] = {}
    theirs: dict[Key, Texts] = {}
    for row in unequal.slice(0, _LOOKED_AT).to_pylist():
        n = row.pop("n")
        told = {name: row[str(place)] for place, name in enumerate(names) if row[str(place)] != _NO_COLUMN}
        (theirs if n > 0 else ours)[tuple(told.get(name) for name in key)] = told
    lost = [f"{what}: {_shown(theirs[k])} isn't there" for k in theirs.keys() - ours.keys()]
    extra = [f"{what}: {_shown(ours[k])} isn't in the source" for k in ours.keys() - theirs.keys()]
    other = [
        f"{what}: {_shown(ours[k])} is {_shown(theirs[k])} in the source" for k in ours.keys() & theirs.keys()
    ]
    return [text for texts in (lost, extra, other) for text in texts[:TOLD]]


def _twice(table: pa.Table, places: list[str], key: Sequence[str]) -> list[Texts]:
    """The keys that several rows have."""
    if not places:
        return []
    counted = table.select(places).group_by(places).aggregate([([], "count_all")])
    several = counted.filter(pc.field("count_all") > 1).slice(0, TOLD).to_pylist()
    return [{name: row[place] for name, place in zip(key, places, strict=True)} for row in several]


def _shown(row: Texts) -> str:
    """A row for people: its values as text, where they're text."""
    return "{" + ", ".join(f"{name}: {_text(value)}" for name, value in row.items()) + "}"


def _text(value: bytes | None) -> str:
    try:
        return "NULL" if value is None else repr(value.decode())
    except UnicodeDecodeError:
        return repr(value)
