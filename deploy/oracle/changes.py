"""Compares a changelog with the tally of its writer: no change is missing, doubled, invented or out of order.

Each row of the demo's shop has a `version`, which rises with each change of its key, and an `op_no`, the number of the
change that wrote it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa

from deploy.oracle.forms import forms
from deploy.oracle.tables import TOLD
from pipeline.schema.table_schema import TableId

_ORDER: Final = [("__scn", "ascending"), ("__ordinal", "ascending")]


class Written(NamedTuple):
    """A change of a row: c, u or d; the key as text, its parts joined by `|`; the row's version and number."""

    op: str
    key: str
    version: int
    op_no: int


def written(changelog: pa.Table, key: Sequence[str]) -> list[Written]:
    """The rows of a changelog in their order; `key`: the table's columns that are its key."""
    ordered = forms(changelog.sort_by(_ORDER).select(["__op", "version", "op_no", *key]))
    rows = zip(*(column.to_pylist() for column in ordered.columns), strict=True)
    return [
        Written(op.decode(), b"|".join(parts).decode(), int(version), int(op_no))
        for op, version, op_no, *parts in rows
    ]


def tally_of(table: TableId, tally: Iterable[tuple[str, str, str, int, int]]) -> Iterator[Written]:
    """The lines of the writer's tally that are of this table."""
    return (Written(*line[1:]) for line in tally if line[0] == table.name)


def untrue_changes(what: str, found: Sequence[Written], tally: Iterable[Written]) -> list[str]:
    """Differences between changes, in their order, and what was written, in no particular order."""
    said, done = Counter(found), Counter(tally)
    missing = [f"{what}: {each} is missing from the changelog" for each in islice(done - said, TOLD)]
    too_much = [f"{what}: {each} is too much in the changelog" for each in islice(said - done, TOLD)]
    return [*missing, *too_much, *islice(_backwards(what, found), TOLD)]


def _backwards(what: str, changes: Sequence[Written]) -> Iterator[str]:
    """Keys whose version doesn't rise by one with each write, or that are written or deleted when they can't be.

    A delete carries the version that it ends. Only a spelling that MySQL counts as the same key may be left and come
    back, which the versions show as well.
    """
    last: dict[str, Written] = {}
    for change in changes:
        before = last.get(change.key)
        last[change.key] = change
        if before is None:
            continue
        match change.op:
            case "d":
                legal = before.op != "d" and change.version == before.version
            case "c":
                legal = before.op == "d" and change.version == before.version + 1
            case _:
                legal = change.version == before.version + 1
        if not legal:
            yield f"{what}: a key goes back in time: {change} came after {before}"
