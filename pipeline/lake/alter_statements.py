"""How a lake table's columns change where a commit can do but one thing to them, as a statement of SQL does.

Delta's own classes change any number of columns and what the table says of itself in one commit
(`actors.lake.delta_table`). Whoever has SQL alone needs some: renaming, widening and adding columns, and setting
properties are a statement each. So the first of them writes down what all of them come to (`Property.ALTERING`), and
the last one says that it's done. Whatever was interrupted in between can be finished by anybody, from what the table is
like then:

- A column is known by its name in the table's files, which stays as it is through all renaming.
- So each column that is to be has its present name, which is the right one, its old one, or one on the way.
- A column that the table didn't have at the beginning is one of those that are added, which is done last: it has its
  name already.

Meanwhile readers take the last version before the first step (`Told.altering`).

Source: Spark SQL reference, "ALTER TABLE"; Delta Transaction Log Protocol, section Column Mapping.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.lake.column_changes import Plan
from pipeline.lake.parquet_files import Stored
from pipeline.lake.tables import LakeColumn, Property, quoted, set_properties_sql, table_at
from pipeline.schema.spelling import folded


@dataclass(frozen=True, slots=True)
class ColumnAlteration:
    """The columns that a lake table is to have, each with its name in the table's files (None: it's to be added), and
    what the table then says of itself.
    """

    columns: tuple[tuple[str | None, LakeColumn], ...]
    properties: Mapping[str, str]

    @staticmethod
    def by(plan: Plan, present: Mapping[str, Stored], properties: Mapping[str, str]) -> "ColumnAlteration":
        """What a plan makes of a lake table that has these columns."""
        columns = (
            (None if each.was is None else present[each.was.name].name, each.column) for each in plan.columns
        )
        return ColumnAlteration(tuple(columns), properties)

    @staticmethod
    def read(text: str) -> "ColumnAlteration":
        """What `text` has written."""
        value = json.loads(text)
        columns = ((stored, LakeColumn(name, type_)) for stored, name, type_ in value["columns"])
        return ColumnAlteration(tuple(columns), value["properties"])

    @property
    def text(self) -> str:
        """All of it, as a table property has it."""
        columns = [(stored, column.name, column.type) for stored, column in self.columns]
        return json.dumps({"columns": columns, "properties": dict(self.properties)})


def beginning(path: str, becoming: ColumnAlteration) -> str:
    """The first step, after which it will be finished."""
    return set_properties_sql(path, {Property.ALTERING: becoming.text})


def remaining(path: str, becoming: ColumnAlteration, present: Mapping[str, Stored]) -> Iterator[str]:
    """All other steps, for a table that has these columns by now."""
    table = f"ALTER TABLE {table_at(path)}"
    names = {column.name: name for name, column in present.items()}
    known = {stored: column.name for stored, column in becoming.columns if stored is not None}
    for old, new in _renames({names[stored]: new for stored, new in known.items()}):
        yield f"{table} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
    there = {folded(name) for stored, name in names.items() if stored not in known}
    before = None
    for stored, column in becoming.columns:
        name = quoted(column.name)
        if stored is None and folded(column.name) not in there:
            place = "FIRST" if before is None else f"AFTER {quoted(before)}"
            yield f"{table} ADD COLUMNS ({name} {column.type} {place})"
        elif stored is not None and present[names[stored]].type.lower() != column.type.lower():
            yield f"{table} ALTER COLUMN {name} TYPE {column.type}"
        before = column.name
    yield set_properties_sql(path, {**becoming.properties, Property.ALTERING: ""})


def _renames(wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The renames, one by one, that give each of a table's columns the name that's wanted."""
    todo = {old: new for old, new in wanted.items() if old != new}
    taken = {folded(name) for name in wanted}
    while todo:
        old = next((old for old, new in todo.items() if folded(new) not in taken), next(iter(todo)))
        new = todo.pop(old)
        if folded(new) in taken:  # all go round in circles
            last, new = new, f"{new}__altering"
            while folded(new) in taken:
                new += "_"
            todo[new] = last
        yield old, new
        taken = taken - {folded(old)} | {folded(new)}
