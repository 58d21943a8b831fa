"""Tables with columns of all types that MySQL has, and rows for them: all edges, and random ones."""

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
from hypothesis import strategies as st

from tests.servers import number_kinds as numbers
from tests.servers import text_kinds as texts
from tests.servers.value_kinds import UNPRINTED, Kind

# The column that each table has, and that each update changes: the log has nothing of one that changes nothing.
CHANGES: Final = "changes"


@dataclass(frozen=True)
class Column:
    """`generated` is "", "STORED" or "VIRTUAL"; such a column has the value of the column `base`."""

    name: str
    kind: Kind
    nullable: bool
    invisible: bool = False
    generated: str = ""
    base: str = ""

    @property
    def sql(self) -> str:
        """The column in CREATE TABLE."""
        words = [self.name, self.kind.definition]
        if self.generated:
            words.append(f"GENERATED ALWAYS AS ({self.base}) {self.generated}")
        words += [self.kind.attribute, "NULL" if self.nullable else "NOT NULL", "INVISIBLE" * self.invisible]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Table:
    """`key_at`: the index of the column `id`, None for a generated invisible primary key.

    `rows` holds SQL literals of the columns that aren't generated; the key of the first row is 1.
    """

    columns: tuple[Column, ...]
    key_at: int | None
    rows: tuple[tuple[str, ...], ...]

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How Hypothesis shows an example."""
        assert not cycle
        printer.text(f"<{self.create('t')}; {self.insert('t')}>")

    @property
    def key(self) -> str:
        return "my_row_id" if self.key_at is None else "id"

    @property
    def written(self) -> list[Column]:
        return [column for column in self.columns if not column.generated]

    def create(self, name: str) -> str:
        """The statement that makes it."""
        columns = [column.sql for column in self.columns] + [f"{CHANGES} INT NOT NULL DEFAULT 0"]
        if self.key_at is not None:
            columns.insert(self.key_at, "id INT PRIMARY KEY")
        return f"CREATE TABLE {name} ({', '.join(columns)}) ROW_FORMAT = DYNAMIC"

    def insert(self, name: str) -> str:
        """The statement that fills it."""
        names = [column.name for column in self.written]
        rows = self.rows
        if self.key_at is not None:
            names, rows = ["id", *names], tuple((str(i), *row) for i, row in enumerate(rows, 1))
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"INSERT INTO {name} ({', '.join(names)}) VALUES {values}"

    def update(self, name: str, key: int, others: Mapping[str, str]) -> str:
        """The statement that gives a row the values of the next one, or of these `others` by column."""
        row = self.rows[key % len(self.rows)]
        values = {column.name: value for column, value in zip(self.written, row, strict=True)}
        values.update(others)
        pairs = ", ".join(f"{column} = {value}" for column, value in values.items())
        return f"UPDATE {name} SET {pairs}, {CHANGES} = {CHANGES} + 1 WHERE {self.key} = {key}"


def plain(values: pa.Array) -> list[Any]:
    """A column of ours as Python values that compare exactly; dates and times as numbers, floats in hexadecimal."""
    kind = values.type
    if pa.types.is_floating(kind):
        return [None if value is None else value.hex() for value in values.to_pylist()]
    if pa.types.is_list(kind):
        return [None if value is None else [part.hex() for part in value] for value in values.to_pylist()]
    if pa.types.is_date(kind):
        values = values.cast(pa.int32())
    return list((values.cast(pa.int64()) if pa.types.is_timestamp(kind) else values).to_pylist())


KINDS: Final = st.one_of(*numbers.numbers(), *texts.others())
# The kinds whose edges are in `edge_tables`.
ALL: Final = (
    *numbers.INTEGERS, *numbers.DECIMALS, *numbers.FLOATS, *numbers.BITS, *numbers.DATES, *numbers.MOMENTS,
    *texts.TEXTS, *texts.BINARIES, *texts.CHOICES, *texts.GEOMETRIES, *texts.VECTORS,
    texts.document(), texts.plain_document(),
)  # fmt: skip
_WIDEST: Final = 70


def edge_tables(version: tuple[int, ...], kinds: Sequence[Kind] = ALL) -> list[Table]:
    """Tables in which each kind that a server of this version has is a column, with all its edges and NULLs.

    Kinds of different types stand beside each other; those with about as many edges, and those that mysqlbinlog can't
    print, share a table.
    """
    known = [kind for kind in kinds if kind.since <= version < kind.before]

    def alike(kind: Kind) -> tuple[bool, int]:
        return kind.logged == UNPRINTED, bisect(_STEPS, len(kind.edges))

    tables = []
    for _, group in groupby(sorted(known, key=alike), alike):
        several = list(group)
        count = -(-len(several) // _WIDEST)
        tables += [_edges(several[at::count], version) for at in range(count)]
    return tables


# Two kinds of each type that the newest MySQL knows: for tests in which neither charset nor digits matter.
_BY_TYPE: Final = [
    (kind.definition.replace(" ", "(").split("(")[0], kind) for kind in ALL if kind.before > (9,)
]
TWO_OF_EACH: Final = tuple(dict.fromkeys([*dict(reversed(_BY_TYPE)).values(), *dict(_BY_TYPE).values()]))

# Numbers of edges that divide the kinds into tables.
_STEPS: Final = (21, 50)


def _edges(kinds: Sequence[Kind], version: tuple[int, ...]) -> Table:
    """Every other column may be NULL, and some are generated from the column before them."""
    columns, values = [], []
    for i, kind in enumerate(kinds):
        columns.append(
            Column(f"c{i}", kind, nullable=i % 2 == 0, invisible=i % 5 == 3 and version >= (8, 0, 23))
        )
        values.append(kind.edges)
        if version >= (5, 7) and kind.generable and i % 4 == 0:
            way = "STORED" if i % 8 else "VIRTUAL"
            columns.append(Column(f"g{i}", kind, nullable=True, generated=way, base=f"c{i}"))
    count = max(map(len, values))
    rows = [tuple(edges[row % len(edges)] for edges in values) for row in range(count)]
    for step in (1, 3):
        nulls = [i % 2 == 0 and i // 2 % step == 0 for i in range(len(values))]
        rows.append(tuple("NULL" if null else edges[0] for null, edges in zip(nulls, values, strict=True)))
    return Table(tuple(columns), len(columns) // 2, tuple(rows))


@st.composite
def some_tables(draw: st.DrawFn, version: tuple[int, ...], first: st.SearchStrategy[Kind] = KINDS) -> Table:
    """A table that a server of this version can have; `first` is what one of its columns can be."""

    def known(kind: Kind) -> bool:
        return kind.since <= version < kind.before

    kinds = [draw(first.filter(known)), *draw(st.lists(KINDS.filter(known), max_size=7))]
    columns = [Column(f"c{i}", kind, draw(st.booleans())) for i, kind in enumerate(kinds)]
    if version >= (8, 0, 23):
        columns = [columns[0], *(replace(c, invisible=draw(st.booleans())) for c in columns[1:])]
    rows = tuple(
        tuple(
            draw(st.one_of(st.just("NULL"), c.kind.values) if c.nullable else c.kind.values) for c in columns
        )
        for _ in range(draw(st.integers(1, 5)))
    )
    bases = [column for column in columns if column.kind.generable]
    if version >= (5, 7) and bases:
        for base in draw(st.lists(st.sampled_from(bases), unique_by=lambda c: c.name, max_size=2)):
            way = draw(st.sampled_from(["STORED", "VIRTUAL"]))
            generated = Column(f"g{base.name}", base.kind, nullable=True, generated=way, base=base.name)
            columns.insert(draw(st.integers(0, len(columns))), generated)
    key_at = draw(st.integers(0, len(columns)))
    gipk = version >= (8, 0, 30) and draw(st.booleans())
    return Table(tuple(columns), None if gipk else key_at, rows)
