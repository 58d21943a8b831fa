"""Random histories of rows, as a changelog and as a plain dictionary, many of them with one schedule.

The first part of their key separates histories, so an engine answers for all of them at once. They share the numbers of
segments and SCNs, and the moments at which a mirror is merged into, filled, and begun again.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Date, Integer, Text

# (history, id, part), and the row of that key.
Key = tuple[int, int, str | None]
Values = tuple[int | None, str | None]
Row = tuple[int, int, str | None, int | None, str | None]

SCHEMA = TableSchema(
    TableId("shop", "orders"),
    (
        Column("history", Integer(8, unsigned=False), False),
        Column("id", Integer(8, unsigned=False), False),
        Column("part", Date(), False),  # may be null in the lake; texts are as good here
        Column("n", Integer(8, unsigned=False), True),
        Column("it's", Text("utf8mb4"), True),
    ),
    (0, 1, 2),
)
VALUES = ("n", "it's")
KEYS: tuple[tuple[int, str | None], ...] = tuple(
    (id_, part) for id_ in (1, 2) for part in (None, "", "a", "A")
)

# A row of the changelog: __op, __scn, __ordinal, __absent, __segment, and the table's own.
Change = tuple[str, int, int, list[str] | None, int, *tuple[object, ...]]


@dataclass
class Story:
    """One history: what the source has, and what the lake is to know of it.

    `known`: the keys that the live view has to show. `lost`: those of which a row began with changes that lack columns,
    so that only a whole row tells it. `changes`: what the open segment has for the changelog; `read`: its rows of a
    first snapshot.
    """

    number: int
    some: random.Random
    partial: bool
    source: dict[Key, Row] = field(default_factory=dict)
    known: set[Key] = field(default_factory=set)
    lost: set[Key] = field(default_factory=set)
    changes: list[Change] = field(default_factory=list)
    read: list[Row] = field(default_factory=list)

    def transaction(self, scn: int, segment: int) -> None:
        """Rows come, change, change their key, go and come back, now and then many times."""
        for _ in range(self.some.randint(0, 4) if self.some.random() < 0.95 else 20):
            key, other = self._key(self.some.choice(KEYS)), self._key(self.some.choice(KEYS))
            row = self.source.get(key)
            if row is None:
                self._put("c", scn, segment, (*key, *self._values()), self._some_of(set(VALUES)))
            elif (do := self.some.random()) < 0.3:
                self._remove(scn, segment, row)
            elif do < 0.5 and other not in self.source:
                self._remove(scn, segment, row)
                values = self._changed(row)
                self._put("u", scn, segment, (*other, *values), self._same(row, values), moved=True)
            else:
                if self.some.random() < 0.3:
                    self._tell("b", scn, segment, (*key, *self._values()), self._some_of(set(VALUES)))
                values = self._changed(row)
                self._put("u", scn, segment, (*key, *values), self._same(row, values))

    def reread(self, scn: int, segment: int) -> None:
        """Whole rows of some keys come as changes: of those that are lost, and of others."""
        for key, row in self.source.items():
            if self.some.random() < (0.7 if key in self.lost else 0.2):
                self._put("r", scn, segment, row, set())

    def chunk(self, keys: tuple[tuple[int, str | None], ...]) -> None:
        """A chunk of the first snapshot."""
        for key in map(self._key, keys):
            if key in self.source:
                self.read.append(self.source[key])
                self.known |= {key} - self.lost

    def begin_anew(self, scn: int, segment: int, emptied: bool) -> None:
        """The mirror is empty from here on, and so is the source, or else it's to be read again."""
        self._tell("t", scn, segment, (None,) * len(SCHEMA.columns))
        self.source = {} if emptied else self.source
        self.known, self.lost, self.read = set(), set(), []

    def seal(self) -> tuple[list[Change], list[Row]]:
        """What the open segment has for the changelog, and of a first snapshot; a new one begins."""
        sealed = self.changes, self.read
        self.changes, self.read = [], []
        return sealed

    def judged(self, shown: list[Row]) -> str:
        """What is wrong with what the live view shows: nothing, where it's right."""
        rows = {row[:3]: row for row in shown}
        wrong = [row for key, row in rows.items() if self.source.get(key) != row]
        missing = sorted(self.known - rows.keys(), key=str)
        twice = len(shown) - len(rows)
        return f"{wrong=} {missing=} {twice=}" if wrong or missing or twice else ""

    def _key(self, key: tuple[int, str | None]) -> Key:
        return (self.number, *key)

    def _values(self) -> Values:
        return (self.some.choice([None, 0, self.some.randint(1, 99)]), self.some.choice([None, "", "x", "y"]))

    def _changed(self, row: Row) -> Values:
        n, text = self._values()
        return self.some.choice([(n, row[4]), (row[3], text), (n, text)])

    def _same(self, row: Row, values: Values) -> set[str]:
        """Of the columns that an update left as they were, those that its image lacks."""
        before = row[3:]
        return self._some_of({name for at, name in enumerate(VALUES) if values[at] == before[at]})

    def _some_of(self, names: set[str]) -> set[str]:
        return {name for name in names if self.partial and self.some.random() < 0.7}

    def _put(
        self, op: str, scn: int, segment: int, row: Row, absent: set[str], *, moved: bool = False
    ) -> None:
        key = row[:3]
        self.source[key] = row
        if not absent:
            self.known, self.lost = self.known | {key}, self.lost - {key}
        elif op == "c" or moved:
            self.known, self.lost = self.known - {key}, self.lost | {key}
        values = (None if name in absent else value for name, value in zip(VALUES, row[3:], strict=True))
        self._tell(op, scn, segment, (*key, *values), absent)

    def _remove(self, scn: int, segment: int, row: Row) -> None:
        key = row[:3]
        del self.source[key]
        self.known, self.lost = self.known - {key}, self.lost - {key}
        absent = set(VALUES) if self.partial else set()
        self._tell("d", scn, segment, (*key, *((None, None) if absent else row[3:])), absent)

    def _tell(
        self,
        op: str,
        scn: int,
        segment: int,
        row: tuple[object, ...],
        absent: frozenset[str] | set[str] = frozenset(),
    ) -> None:
        ordinal = len(self.changes)  # rises within the transaction, which is all that it must
        self.changes.append((op, scn, ordinal, sorted(absent) or None, segment, *row))


@dataclass(frozen=True)
class Sealed:
    """A segment of all stories: what the changelog gets, and the mirror.

    `begun`: the generation that the mirror began in it, None where it goes on with the one it has. `ready`: whether the
    mirror may be merged into from here on.
    """

    number: int
    changes: list[Change]
    rows: list[Row]
    begun: int | None
    ready: bool


@dataclass
class Schedule:
    """Random stories of one schedule, segment by segment."""

    some: random.Random
    stories: list[Story]
    anew: float
    scn: int = 0
    unread: tuple[tuple[int, str | None], ...] = ()
    begun: int | None = None

    @staticmethod
    def random(seed: int, histories: int, anew: float = 0.05) -> "Schedule":
        """Some of them of a source that logs rows without all of their columns; `anew`: how often mirrors begin."""
        some = random.Random(seed)
        partial = some.random() < 0.6
        stories = [Story(number, some, partial) for number in range(histories)]
        return Schedule(some, stories, anew)

    @property
    def partial(self) -> bool:
        return self.stories[0].partial

    def segments(self, count: int) -> Iterator[Sealed]:
        """Seal so many segments; the stories are at the end of each when it's given."""
        self._begin_anew(1, emptied=self.some.random() < 0.5)
        for number in range(1, count + 1):
            for _ in range(self.some.randint(1, 4)):
                self._happen(number)
            sealed = [story.seal() for story in self.stories]
            changes = [change for of_story, _ in sealed for change in of_story]
            begun, self.begun = self.begun, None
            yield Sealed(number, changes, [row for _, rows in sealed for row in rows], begun, not self.unread)

    def _happen(self, segment: int) -> None:
        self.scn += 1
        do = self.some.random()
        if do < self.anew:
            self._begin_anew(segment, emptied=self.some.random() < 0.5)
        elif do < 0.4 and self.unread:
            count = self.some.randint(1, 5)
            chunk, self.unread = self.unread[:count], self.unread[count:]
            for story in self.stories:
                story.chunk(chunk)
        elif do < 0.5:
            for story in self.stories:
                story.reread(self.scn, segment)
        else:
            for story in self.stories:
                story.transaction(self.scn, segment)

    def _begin_anew(self, segment: int, emptied: bool) -> None:
        self.begun, self.unread = self.scn, () if emptied else KEYS
        for story in self.stories:
            story.begin_anew(self.scn, segment, emptied)


def by_story(rows: list[Row]) -> dict[int, list[Row]]:
    """Rows by the history that they're of."""
    return {
        number: list(of) for number, of in groupby(sorted(rows, key=lambda row: row[0]), lambda row: row[0])
    }
