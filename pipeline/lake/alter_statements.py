"""How a lake table's columns change if one commit can do only one thing to them, as a statement of SQL does.

Delta's own classes change any number of columns and properties in one commit (`actors.lake.delta.delta_table`). With
SQL alone, each column that is renamed, widened or added takes a statement, and so do the properties. So the first
statement writes down the result of all of them (`Property.ALTERING`), and the last one marks it as done. Anyone can
complete an interrupted change from the state of the table:

- A column is known by its name in the table's files, which no renaming changes.
- So each wanted column has its present name, which is the right one, its old one, or one on the way.
- A column that the table didn't have at the beginning is one of the added ones. They come last and have their names
  from the start.

Meanwhile readers take the last version before the first step (`TableReport.altering`).

Source: Spark SQL reference, "ALTER TABLE"; Delta Transaction Log Protocol, section Column Mapping.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.tables.column_changes import ColumnPlan
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.spark_sql import quoted, table_at
from pipeline.lake.tables.statements import set_properties_sql
from pipeline.schema.spelling import fold_name


@dataclass(frozen=True, slots=True)
class ColumnAlteration:
    """The wanted columns of a lake table, each with its name in the table's files (None: it must be added).
    `properties`: what the table then has.
    """

    columns: tuple[tuple[str | None, LakeColumn], ...]
    properties: Mapping[str, str]

    @staticmethod
    def by(
        plan: ColumnPlan, present: Mapping[str, Stored], properties: Mapping[str, str]
    ) -> "ColumnAlteration":
        """Returns what a plan makes of a lake table that has these columns."""
        columns = (
            (None if each.was is None else present[each.was.name].name, each.column) for each in plan.columns
        )
        return ColumnAlteration(tuple(columns), properties)

    @staticmethod
    def read(text: str) -> "ColumnAlteration":
        """Reads what `text` has written."""
        value = json.loads(text)
        columns = ((stored, LakeColumn(name, type_)) for stored, name, type_ in value["columns"])
        return ColumnAlteration(tuple(columns), value["properties"])

    @property
    def text(self) -> str:
        """Returns all of it, as a table property holds it."""
        columns = [(stored, column.name, column.type) for stored, column in self.columns]
        return json.dumps({"columns": columns, "properties": dict(self.properties)})


def beginning(path: str, becoming: ColumnAlteration) -> str:
    """Returns the first step, after which the change will be completed."""
    return set_properties_sql(path, {Property.ALTERING: becoming.text})


def remaining(path: str, becoming: ColumnAlteration, present: Mapping[str, Stored]) -> Iterator[str]:
    """Returns all other steps, for a table that has these columns now."""
    table = f"ALTER TABLE {table_at(path)}"
    names = {column.name: name for name, column in present.items()}
    known = {stored: column.name for stored, column in becoming.columns if stored is not None}
    for old, new in _renames({names[stored]: new for stored, new in known.items()}):
        yield f"{table} RENAME COLUMN {quoted(old)} TO {quoted(new)}"
    there = {fold_name(name) for stored, name in names.items() if stored not in known}
    before = None
    for stored, column in becoming.columns:
        name = quoted(column.name)
        if stored is None and fold_name(column.name) not in there:
            place = "FIRST" if before is None else f"AFTER {quoted(before)}"
            yield f"{table} ADD COLUMNS ({name} {column.type} {place})"
        elif stored is not None and present[names[stored]].type.lower() != column.type.lower():
            yield f"{table} ALTER COLUMN {name} TYPE {column.type}"
        before = column.name
    yield set_properties_sql(path, {**becoming.properties, Property.ALTERING: ""})


def _renames(wanted: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Returns the renames, one by one, that give each of a table's columns its wanted name."""
    todo = {old: new for old, new in wanted.items() if old != new}
    taken = {fold_name(name) for name in wanted}
    while todo:
        old = next((old for old, new in todo.items() if fold_name(new) not in taken), next(iter(todo)))
        new = todo.pop(old)
        if fold_name(new) in taken:  # all of them form circles
            last, new = new, f"{new}__altering"
            while fold_name(new) in taken:
                new += "_"
            todo[new] = last
        yield old, new
        taken = taken - {fold_name(old)} | {fold_name(new)}
