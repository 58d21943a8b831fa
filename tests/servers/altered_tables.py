"""Random statements on a random table: they change its rows, columns, key and name."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Final

from tests.servers.value_kinds import Kind
from tests.servers.value_tables import CHANGES, Column, Table

_BLOB: Final = re.compile(r"\w*(BLOB|TEXT|JSON|VECTOR|GEOM|POINT|STRING|POLYGON)")


@dataclass
class Written:
    """A column that INSERTs name. `free`: no generated column is made of it, so that it can go."""

    column: Column
    literals: Sequence[str]
    free: bool = True


@dataclass
class AlteredTable:
    """A table as the statements so far have left it. `kinds`: those of new columns, with literals for each."""

    name: str
    table: Table
    some: Random
    kinds: Sequence[tuple[Kind, Sequence[str]]]
    definitions: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = count()
        self._used: set[str] = set()  # columns that the present ALTER names
        self._before: list[str] = []  # what has to be executed before it
        bases = {column.base for column in self.table.columns}
        self.columns = [
            Written(column, [row[at] for row in self.table.rows], column.name not in bases)
            for at, column in enumerate(self.table.written)
        ]
        self.keyed = self.table.key_at is not None
        self.rows = len(self.table.rows)
        for column in self.table.columns:
            self._define(column)

    @property
    def names_all(self) -> bool:
        """Whether `insert` names all columns."""
        return len(self.table.written) == len(self.table.columns)

    @property
    def without_blobs(self) -> bool:
        """Whether the log has all columns of a row with `binlog_row_image` = NOBLOB."""
        return not any(_BLOB.match(each.column.kind.definition) for each in self.columns)

    def insert(self) -> str:
        """A statement that adds a row."""
        self.rows += 1
        values = {each.column.name: self.some.choice(each.literals) for each in self.columns} | {CHANGES: "0"}
        if self.keyed:
            values["id"] = str(self.rows)
        return f"INSERT INTO {self.name} ({', '.join(values)}) VALUES ({', '.join(values.values())})"

    def update(self) -> str:
        """A statement that changes some rows, and the key of some of them."""
        values = {each.column.name: self.some.choice(each.literals) for each in self.columns}
        if self.keyed and self.some.random() < 0.3:
            values["id"] = "id + 1000"
        pairs = "".join(f"{name} = {value}, " for name, value in values.items())
        which = self.some.choice(("", " LIMIT 1", " LIMIT 2"))
        return (
            f"UPDATE {self.name} SET {pairs}{CHANGES} = {CHANGES} + 1 ORDER BY {self.table.key} DESC{which}"
        )

    def delete(self) -> str:
        """A statement that removes a row."""
        return f"DELETE FROM {self.name} ORDER BY {self.table.key} LIMIT 1"

    def alter(self) -> list[str]:
        """Statements that change the table's columns, its key or its name, most by an ALTER of several clauses."""
        ways = (self._add, self._add, self._drop, self._rename_column, self._modify, self._change_key)
        self._used, self._before = set(), []
        clauses: list[str] = []
        for way in self.some.sample(ways, self.some.choice((1, 1, 2, 3))):
            clauses += way()
        old, renamed = self.name, self.some.random()
        if renamed < 0.3:
            self.name = f"{old.partition('_')[0]}_{next(self._numbers)}"
        if renamed < 0.15 or not clauses:
            clauses += [f"RENAME TO {self.name}"] if self.name != old else []
            return [*self._before, *([f"ALTER TABLE {old} {', '.join(clauses)}"] if clauses else [])]
        rename = [f"RENAME TABLE {old} TO {self.name}"] if self.name != old else []
        return [*self._before, f"ALTER TABLE {old} {', '.join(clauses)}", *rename]

    def _define(self, column: Column) -> None:
        self.definitions.setdefault(column.name, []).append(column.sql)

    def _new(self, name: str) -> Written:
        kind, literals = self.some.choice(self.kinds)
        written = Written(Column(name, kind, nullable=True), ["NULL", *literals])
        self._define(written.column)
        return written

    def _free(self) -> Written | None:
        free = [each for each in self.columns if each.free and each.column.name not in self._used]
        chosen = self.some.choice(free) if free else None
        self._used |= {chosen.column.name} if chosen is not None else set()
        return chosen

    def _add(self) -> list[str]:
        place = self.some.choice(("", *([" FIRST"] if self.keyed else []), f" AFTER {CHANGES}"))
        new = self._new(f"n{next(self._numbers)}")
        self.columns.append(new)
        self._used.add(new.column.name)
        return [f"ADD COLUMN {new.column.sql}{place}"]

    def _drop(self) -> list[str]:
        gone = self._free()
        if gone is None:
            return []
        self.columns.remove(gone)
        return [f"DROP COLUMN {gone.column.name}"]

    def _rename_column(self) -> list[str]:
        old = self._free()
        if old is None:
            return []
        name = f"r{next(self._numbers)}"
        self._used.add(name)
        new = Column(name, old.column.kind, old.column.nullable)
        self.columns[self.columns.index(old)] = Written(new, old.literals)
        self._define(new)
        if self.some.random() < 0.5:
            return [f"RENAME COLUMN {old.column.name} TO {name}"]
        return [f"CHANGE COLUMN {old.column.name} {new.sql}"]

    def _modify(self) -> list[str]:
        """NULL is what each type can be made of."""
        old = self._free()
        if old is None or not old.column.nullable:
            return []
        new = self._new(old.column.name)
        self.columns[self.columns.index(old)] = new
        self._before.append(f"UPDATE {self.name} SET {old.column.name} = NULL")
        return [f"MODIFY COLUMN {new.column.sql}"]

    def _change_key(self) -> list[str]:
        if not self.keyed:
            return []
        key = self.some.choice((f"id, {CHANGES}", f"{CHANGES}, id", "id"))
        return ["DROP PRIMARY KEY", f"ADD PRIMARY KEY ({key})"]
