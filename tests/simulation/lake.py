"""A model of what a reader of the lake sees: the mirror, the changelog behind it, and the live view of both."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.checkpoint import Checkpoint
from pipeline.messages import Append, ChangePart, ChunkPart, Kind
from pipeline.schema import TableId
from tests.simulation.server import Rows


class Violation(AssertionError):
    """A promise was broken; the text tells how."""


class Changed(NamedTuple):
    """A row image as the journal gets it."""

    scn: int
    ordinal: int
    kind: Kind
    key: int
    value: int


@dataclass
class Lake:
    """`mirror` holds the rows of first snapshots, `changes` the last value of each changed key, None if it's gone.

    `since`: the generation of each table's mirror.
    """

    mirror: dict[TableId, Rows] = field(default_factory=dict)
    changes: dict[TableId, dict[int, int | None]] = field(default_factory=dict)
    since: dict[TableId, int] = field(default_factory=dict)

    def copy(self) -> "Lake":
        """The same, to be kept."""
        return Lake(
            {table: dict(rows) for table, rows in self.mirror.items()},
            {table: dict(rows) for table, rows in self.changes.items()},
            dict(self.since),
        )

    def take(self, append: Append) -> None:
        """Deliver the parts in their order; a generation begins empty."""
        self._begin(append.checkpoint)
        for part in append.parts:
            match part:
                case ChangePart():
                    self._change(part)
                case ChunkPart():
                    self._add(part)

    def live_view(self, table: TableId) -> Rows:
        """Mirror rows whose key didn't change since, and the last of each changed key."""
        changed = self.changes.get(table, {})
        view = {key: value for key, value in self.mirror.get(table, {}).items() if key not in changed}
        view.update((key, value) for key, value in changed.items() if value is not None)
        return view

    def _begin(self, checkpoint: Checkpoint) -> None:
        for table, mirror in checkpoint.mirrors.items():
            if self.since.get(table, 0) < mirror.since:
                self.mirror[table], self.changes[table] = {}, {}
            self.since[table] = mirror.since

    def _change(self, part: ChangePart) -> None:
        table = part.changes.schema.table
        changes = self.changes.setdefault(table, {})
        for image in changed(part):
            if image.scn > self.since.get(table, 0):
                there = image.kind in {Kind.INSERT, Kind.UPDATE_AFTER}
                changes[image.key] = image.value if there else None

    def _add(self, part: ChunkPart) -> None:
        table = part.schema.table
        if part.scn <= self.since.get(table, 0):
            return
        pairs = chunk_rows(part)
        if not part.first:
            self.changes.setdefault(table, {}).update(pairs)
            return
        mirror = self.mirror.setdefault(table, {})
        for key, value in pairs:
            if key in mirror:
                raise Violation(f"{table}: key {key} is in the mirror twice, the second time by {part.chunk}")
            mirror[key] = value


def changed(part: ChangePart) -> Iterator[Changed]:
    """The row images of the part."""
    images, rows = part.changes.images, part.changes.rows
    columns = (images["transaction"], images["ordinal"], images["kind"], rows["id"], rows["value"])
    for index, ordinal, kind, key, value in zip(*(c.to_pylist() for c in columns), strict=True):
        yield Changed(part.first_scn + index, ordinal, Kind(kind), key, value)


def chunk_rows(part: ChunkPart) -> list[tuple[int, int]]:
    """The rows of a chunk."""
    return list(zip(part.rows["id"].to_pylist(), part.rows["value"].to_pylist(), strict=True))
