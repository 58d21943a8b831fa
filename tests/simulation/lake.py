"""A model of what a reader of the lake sees: the mirror, the changelog behind it, and the live view of both."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.messages.journal import Append, ChangePart, ChunkPart
from pipeline.messages.row_images import ImageKind
from pipeline.schema.table_schema import TableId, TableSchema
from tests.simulation.server import Row, Rows


class Violation(AssertionError):
    """A promise was broken; the text tells how."""


class Changed(NamedTuple):
    """A row image as the journal gets it."""

    scn: int
    ordinal: int
    kind: ImageKind
    key: int | None  # None where the table was emptied
    value: int | None


Key = tuple[int, ...]
Change = tuple[bool, int, int]  # whether the row is there afterwards, its key, its value


@dataclass
class Lake:
    """`mirror` holds the rows of first snapshots and `changes` what came behind, each row by its key in the schema
    that held; `since` says the generation of each table's mirror.
    """

    mirror: dict[TableId, list[Row]] = field(default_factory=dict)
    changes: dict[TableId, list[Change]] = field(default_factory=dict)
    since: dict[TableId, int] = field(default_factory=dict)

    def copy(self) -> "Lake":
        """The same, to be kept."""
        return Lake(
            {table: list(rows) for table, rows in self.mirror.items()},
            {table: list(rows) for table, rows in self.changes.items()},
            dict(self.since),
        )

    def take(self, append: Append) -> None:
        """Deliver the parts in their order; a generation begins empty."""
        for table, mirror in append.checkpoint.mirrors.items():
            if self.since.get(table, 0) < mirror.since:
                self.mirror[table], self.changes[table] = [], []
            self.since[table] = mirror.since
        for part in append.parts:
            table = (part.changes.schema if isinstance(part, ChangePart) else part.schema).table
            match part:
                case ChangePart():
                    self.changes.setdefault(table, []).extend(self._changes(part))
                case ChunkPart(verifies=True):
                    pass  # which is compared, and no more
                case ChunkPart(scn=scn, first=first) if scn > self.since.get(table, 0):
                    rows = chunk_rows(part)
                    if first:
                        self.mirror.setdefault(table, []).extend(rows)
                    else:
                        self.changes.setdefault(table, []).extend((True, *row) for row in rows)
                        self.changes[table].extend((False, *row) for row in gone_rows(part))
                case ChunkPart():
                    pass  # of a generation before

    def live_view(self, schema: TableSchema) -> Rows:
        """The rows of the mirror whose key didn't change since, and the last of each changed key."""
        whole = len(schema.key) > 1
        changed: dict[Key, int | None] = {}
        for there, key, value in self.changes.get(schema.table, []):
            changed[(key, value) if whole else (key,)] = value if there else None
        mirror = {row if whole else row[:1]: row for row in self.mirror.get(schema.table, [])}
        if len(mirror) < len(self.mirror.get(schema.table, [])):
            raise Violation(f"{schema.table}: a key is in the mirror twice: {self.mirror[schema.table]}")
        view = {row[0]: row[1] for key, row in mirror.items() if key not in changed}
        for changed_key, last in changed.items():
            if last is not None:
                if changed_key[0] in view:
                    raise Violation(f"{schema.table}: the live view has {changed_key[0]} under two keys")
                view[changed_key[0]] = last
        return view

    def _changes(self, part: ChangePart) -> Iterator[Change]:
        """As the journal has them: an update is its new row, and its old one only where the key is another."""
        keys = len(part.changes.schema.key)
        old: Row | None = None
        for image in changed(part):
            if image.scn <= self.since.get(part.changes.schema.table, 0):
                continue
            if image.key is None or image.value is None:
                continue  # what was there is of the generation before
            row = (image.key, image.value)
            if image.kind is ImageKind.UPDATE_BEFORE:
                old = row
                continue
            if image.kind is ImageKind.UPDATE_AFTER and old is not None and old[:keys] != row[:keys]:
                yield (False, *old)
            yield (image.kind is not ImageKind.DELETE, *row)


def changed(part: ChangePart) -> Iterator[Changed]:
    """The row images of the part."""
    images, rows = part.changes.images, part.changes.rows
    columns = (images["transaction"], images["ordinal"], images["kind"], rows["id"], rows["value"])
    for index, ordinal, kind, key, value in zip(*(c.to_pylist() for c in columns), strict=True):
        yield Changed(part.first_scn + index, ordinal, ImageKind(kind), key, value)


def gone_rows(part: ChunkPart) -> list[Row]:
    """The keys that a repair found no row of, as rows."""
    if part.gone is None:
        return []
    return [(key["id"], key.get("value", 0)) for key in part.gone.to_pylist()]


def chunk_rows(part: ChunkPart) -> list[tuple[int, int]]:
    """The rows of a chunk."""
    return list(zip(part.rows["id"].to_pylist(), part.rows["value"].to_pylist(), strict=True))
