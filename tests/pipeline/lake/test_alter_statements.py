"""Columns changed step by step: after any interruptions, the result is the plan."""

import re
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.alter_statements import ColumnAlteration, beginning, remaining
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.tables.column_changes import ColumnPlan, PlannedColumn
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.properties import Property

PATH = "lake/shop/orders/mirror"
_ALTER = r"ALTER TABLE delta\.`lake/shop/orders/mirror` "
_RENAME = re.compile(_ALTER + r"RENAME COLUMN `(\w+)` TO `(\w+)`")
_TYPE = re.compile(_ALTER + r"ALTER COLUMN `(\w+)` TYPE (\w+)")
_ADD = re.compile(_ALTER + r"ADD COLUMNS \(`(\w+)` (\w+) (?:FIRST|AFTER `(\w+)`)\)")
NAMES = st.sampled_from(["a", "b", "c", "d", "A", "a__until_3"])
TYPES = ("INT", "BIGINT")


@dataclass
class Table:
    """A lake table as Delta has it, which takes one statement at a time."""

    columns: dict[str, Stored]
    done: dict[str, str]

    def take(self, statement: str) -> None:
        if found := _RENAME.fullmatch(statement):
            old, new = found.groups()
            assert new.lower() not in {name.lower() for name in self.columns}
            self.columns = {new if name == old else name: each for name, each in self.columns.items()}
        elif found := _TYPE.fullmatch(statement):
            name, type_ = found.groups()
            self.columns[name] = replace(self.columns[name], type=type_.lower())
        elif found := _ADD.fullmatch(statement):
            name, type_, before = found.groups()
            assert name.lower() not in {each.lower() for each in self.columns}
            place = 0 if before is None else [*self.columns].index(before) + 1
            columns = list(self.columns.items())
            columns.insert(place, (name, Stored(f"new {name}", type_.lower())))
            self.columns = dict(columns)
        else:
            assert "SET TBLPROPERTIES" in statement
            self.done[statement] = statement


@st.composite
def plans(draw: st.DrawFn) -> ColumnPlan:
    """Returns a plan for a table of some columns, whose names differ by more than case, before and after it."""
    unique = st.lists(NAMES, min_size=1, max_size=5, unique_by=str.lower)
    before, behind = draw(unique), draw(unique)
    behind += [f"new_{i}" for i in range(len(before) - len(behind))]
    kept = draw(st.permutations([*before, *[None] * (len(behind) - len(before))]))
    columns = []
    for name, was in zip(behind, kept, strict=True):
        type_ = draw(st.sampled_from(TYPES))
        old = None if was is None else LakeColumn(was, "INT")
        columns.append(PlannedColumn(LakeColumn(name, type_), old))
    return ColumnPlan(tuple(columns))


@given(plan=plans(), cuts=st.lists(st.integers(0, 4), max_size=3))
def test_it_comes_to_what_was_planned_wherever_it_is_cut_off(plan: ColumnPlan, cuts: list[int]) -> None:
    table = Table({c.name: Stored(f"file {c.name}", c.type.lower()) for c in plan.before}, {})
    becoming = ColumnAlteration.by(plan, table.columns, {"tidemark.since": "7"})
    files = {each.was.name: each.column.name for each in plan.columns if each.was is not None}
    for cut in cuts:
        for _, statement in zip(range(cut), remaining(PATH, becoming, dict(table.columns)), strict=False):
            table.take(statement)
        becoming = ColumnAlteration.read(becoming.text)
    *_, last = statements = list(remaining(PATH, becoming, dict(table.columns)))
    for statement in statements:
        table.take(statement)
    now = [(name, each.type) for name, each in table.columns.items()]
    assert sorted(now) == sorted((c.name, c.type.lower()) for c in plan.after)
    for old, new in files.items():
        assert table.columns[new].name == f"file {old}", "its values are another column's"
    assert "'tidemark.since' = '7', 'tidemark.altering' = ''" in last


def test_it_begins_by_writing_down_what_it_comes_to() -> None:
    plan = ColumnPlan((PlannedColumn(LakeColumn("it's", "BIGINT"), LakeColumn("id", "INT")),))
    becoming = ColumnAlteration.by(plan, {"id": Stored("id", "int")}, {Property.SINCE: "7"})
    assert ColumnAlteration.read(becoming.text) == becoming
    statement = beginning(PATH, becoming)
    assert statement.startswith(
        "ALTER TABLE delta.`lake/shop/orders/mirror` SET TBLPROPERTIES ('tidemark.altering' = '{"
    )
    assert "it\\'s" in statement
