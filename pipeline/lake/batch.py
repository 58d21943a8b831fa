"""A run of segments on its way to the lake: its content for each table, and what a lake table has already."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipeline.journal.entry import Entry, FileKind
from pipeline.lake.live_view import Versions
from pipeline.lake.tables.column_changes import Step
from pipeline.lake.tables.columns import LakeColumn, refused_names
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Mirror, Ready


@dataclass(frozen=True, slots=True)
class DeliveryStop:
    """Why the sink delivers nothing to a table, until its mirror begins a generation at this SCN or later."""

    reason: str
    scn: int


@dataclass(frozen=True, slots=True)
class LakeTableState:
    """What the lake has of a table.

    `schema`: that of the changelog, None without one. `since`: the segment that the schema came with. Older files have
    older schemas, even if they come later, after a crash. `mirror_since`: the same for the mirror, which takes the
    schema later. `columns`: those of the changelog. `changes` and `rows`: the segments through which it has all
    changes, and all rows of first snapshots. `generation` of the mirror, None without one. `merged`: the segment that
    the mirror has reached, and `pending`: the number of changes after it, both as the sink found them. `after`: the
    segment through which all tables had everything when this one was last delivered. `partial`: whether its changes may
    lack columns. `rebuilding`: since when (s since the epoch) the newest generation is being filled, None if the mirror
    is complete. `at`: the versions at which readers see all of this, None without a changelog. `uncompared`: whether
    verified rows were waiting when the sink found the table. `capture_stopped`: why capture has nothing more of it, as
    the lake says; empty if it hasn't stopped.
    """

    schema: TableSchema | None = None
    since: int = 0
    mirror_since: int = 0
    columns: tuple[LakeColumn, ...] = ()
    changes: int = 0
    rows: int = 0
    generation: int | None = None
    merged: int = 0
    pending: int = 0
    after: int = 0
    partial: bool = False
    stopped: DeliveryStop | None = None
    rebuilding: float | None = None
    at: Versions | None = None
    uncompared: bool = False
    capture_stopped: str = ""

    @property
    def furthest(self) -> int:
        """Returns the last segment of which it has anything."""
        return max(self.changes, self.rows, self.merged, self.after, self.since, self.mirror_since)

    def may_lack(self, segment: int) -> bool:
        """Returns whether it may lack something of the segments through this one.

        The changelog's commit comes first. So a generation that is being filled may lack rows of segments whose changes
        are there.
        """
        return self.changes < segment or (self.rebuilding is not None and self.rows < segment)


def reported_segment(tables: Iterable[LakeTableState]) -> int:
    """Returns the segment through which a lake's own tables report that all have everything; -1 without tables."""
    return max((table.after for table in tables if table.schema is not None), default=-1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of the journal.

    It has its segment, its place among the segment's files and its name there. It has its table's schema, and the
    number of its rows and of its bytes. It also says whether some of its rows lack columns. `latest`: whether the table
    has this schema at the segment's end.

    Once it is accepted (`pipeline.lake.delivery`), the schema has the forms of the lake, and the file doesn't.
    """

    segment: int
    place: int
    path: str
    schema: TableSchema
    rows: int
    bytes: int
    absent: bool
    latest: bool = False


@dataclass(frozen=True, slots=True)
class Pieces:
    """A table's files in a batch, by where they go, in the order of segments. `verified`: only to be compared."""

    changes: tuple[Piece, ...] = ()
    rows: tuple[Piece, ...] = ()
    verified: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a mirror: it begins after the SCN `since`, in `segment` or before, whose end has `schema`.

    `ready`: whether it has all of its rows at that end, `emptied`: whether it begins because a statement took all rows.
    Both only if no snapshot has read the table in that segment.
    """

    since: int
    segment: int
    schema: TableSchema
    ready: bool = True
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """The segments (after, through] and their content.

    `checkpoint` is that of `through`. `generations`: those that the mirrors have at the first segment, and those that
    begin later, in order. `alterations`: what statements did to columns before the first segment. `commit_times`:
    samples of when their transactions committed, and `newest` the last of these, None where there were none; µs since
    the epoch. `sealed`: when each of the segments was sealed (µs since the epoch). `cut_off`: why each of these tables
    gets nothing more. Its generation lacks segments that the journal removed, and capture has stopped it, so that no
    later one begins by itself.
    """

    after: int
    through: int
    tables: dict[TableId, Pieces]
    generations: dict[TableId, tuple[Generation, ...]]
    alterations: dict[TableId, tuple[Step, ...]]
    checkpoint: Checkpoint
    commit_times: tuple[int, ...]
    newest: int | None
    sealed: Mapping[int, int]
    cut_off: Mapping[TableId, str] = field(default_factory=dict)

    def newly_begun(self, table: TableId, delivered: LakeTableState) -> bool:
        """Returns whether the table's mirror must be created, or begins again."""
        last = self.generations.get(table, ())[-1:]
        return bool(last) and is_newer(last[0], delivered.generation)

    def resumed(self, table: TableId, delivered: LakeTableState) -> "Generation | None":
        """Returns the generation with which a stopped table resumes: the last one, if it begins after the stop."""
        last = self.generations.get(table, ())[-1:]
        if delivered.stopped is None or not last or last[0].since < delivered.stopped.scn:
            return None
        return last[0]

    def stops(self, table: TableId, delivered: LakeTableState) -> bool:
        """Returns whether the lake has to say that capture has stopped the table, or that it hasn't any more.

        A table that is further already knows better: such a batch comes again for another table.
        """
        stopped = self.checkpoint.stopped.get(table, "")
        current = delivered.schema is not None and delivered.changes <= self.through
        return current and delivered.capture_stopped != stopped

    def completes(self, table: TableId, generation: int, *, shown: bool) -> bool:
        """Returns whether a generation that begins in the batch is complete with it: no snapshot has to fill it.

        A snapshot may bring no rows, because changes have superseded all of them. Then these changes fill it, and
        readers must not see the table empty before the changes come. If they are `shown` an earlier generation, only a
        statement says that the table is empty.
        """
        begun = next(each for each in self.generations[table] if each.since == generation)
        pieces = self.tables.get(table, Pieces())
        empty = all(piece.segment < begun.segment for piece in pieces.rows)
        mirror = self.checkpoint.mirrors.get(table)
        at_once = begun.emptied if shown else begun.ready
        return mirror == Ready(generation) and empty and (at_once or not pieces.changes)


# A batch is one commit in each table: a larger one costs less for each row, and takes longer.
MOST_BATCH_BYTES = 256 << 20


MOST_BATCH_SEGMENTS = 500


def next_batch(entries: Iterable[Entry], most_bytes: int = MOST_BATCH_BYTES) -> Batch:
    """Returns the batch of the first of these entries, and of those after it until it has `most_bytes` of Parquet.

    It ends before columns are altered, and before a mirror begins another generation. `entries` has at least one. The
    batch takes no more of them than belong to it, and one that shows where it ends.
    """
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        if taken and (_alters(entry) or _begins_anew(taken[-1], entry)):
            break
        taken.append(entry)
        size += sum(file.bytes for file in entry.files)
        if size >= most_bytes or len(taken) == MOST_BATCH_SEGMENTS:
            break
    times = [entry.commit_times for entry in taken if entry.commit_times is not None]
    return Batch(
        after=taken[0].segment - 1,
        through=taken[-1].segment,
        tables=_tables(taken),
        generations=_generations(taken),
        alterations=_alterations(taken[0]),
        checkpoint=taken[-1].checkpoint,
        commit_times=tuple(sample for each in times for sample in each.samples),
        newest=max((each.newest for each in times), default=None),
        sealed={entry.segment: entry.sealed_at for entry in taken},
    )


def _alters(entry: Entry) -> bool:
    return any(altered.alteration.changes for altered in entry.alterations)


def _begins_anew(before: Entry, entry: Entry) -> bool:
    """Returns whether an existing mirror begins another generation in a segment."""
    had, has = before.checkpoint.mirrors, entry.checkpoint.mirrors
    return had != has and any(
        had[table].since < mirror.since for table, mirror in has.items() if table in had
    )


def _tables(entries: list[Entry]) -> dict[TableId, Pieces]:
    found: dict[TableId, dict[FileKind, list[Piece]]] = {}
    for entry in entries:
        last = entry.stored_schemas
        for place, file in enumerate(entry.files):
            schema = entry.schemas[file.version]
            latest = schema == last.get(file.table)
            piece = Piece(entry.segment, place, file.path, schema, file.rows, file.bytes, file.absent, latest)
            found.setdefault(file.table, {}).setdefault(file.kind, []).append(piece)
    return {table: Pieces(*(tuple(of.get(kind, ())) for kind in FileKind)) for table, of in found.items()}


def _alterations(entry: Entry) -> dict[TableId, tuple[Step, ...]]:
    found: dict[TableId, tuple[Step, ...]] = {}
    for alteration in (each.alteration for each in entry.alterations):
        if alteration.changes:
            table = alteration.schema.table
            found[table] = (*found.get(table, ()), Step(entry.segment, alteration))
    return found


def _generations(entries: list[Entry]) -> dict[TableId, tuple[Generation, ...]]:
    found: dict[TableId, tuple[Generation, ...]] = {}
    before: Mapping[TableId, Mirror] = {}
    waiting = frozenset[TableId]()
    for entry in entries:
        mirrors = entry.checkpoint.mirrors
        begun = [
            table
            for table in (mirrors if mirrors != before else waiting)
            if not (known := found.get(table, ())) or known[-1].since < mirrors[table].since
        ]
        waiting = frozenset(table for table in begun if _awaits_names(entry, table))
        read = {each.chunk.table for each in entry.chunks}
        for table in begun:
            if table not in waiting:
                mirror, schema = mirrors[table], entry.stored_schemas[table]
                unread = table not in read
                ready, emptied = isinstance(mirror, Ready) and unread, table in entry.emptied and unread
                generation = Generation(mirror.since, entry.segment, schema, ready, emptied)
                found[table] = (*found.get(table, ()), generation)
        before = mirrors
    return found


def _awaits_names(entry: Entry, table: TableId) -> bool:
    """Returns whether the lake can't have the table's columns in a segment without rows of it, and the stream has still
    to prove them.

    A recaptured table has the schema of before its stop until then, also where that is why it stopped. Its rows come
    after the proof.
    """
    return (
        table in entry.checkpoint.unproven
        and all(file.table != table for file in entry.files)
        and refused_names(entry.stored_schemas[table]) is not None
    )


def is_newer(generation: Generation, present: int | None) -> bool:
    """Returns whether the generation is later than the present one."""
    return present is None or present < generation.since


def missing_pieces(delivered: LakeTableState, table: TableId, batch: Batch) -> Pieces:
    """Returns those of a table's files that the lake should have and doesn't have yet.

    A stopped table gets nothing from before the generation with which it resumes. Nothing says which files to compare
    it has, and to place them again is harmless.
    """
    if table in batch.cut_off:
        return Pieces()
    pieces, back = batch.tables.get(table, Pieces()), batch.resumed(table, delivered)
    before = 0 if back is None else back.segment - 1
    return Pieces(
        tuple(piece for piece in pieces.changes if piece.segment > max(delivered.changes, before)),
        tuple(piece for piece in pieces.rows if piece.segment > max(delivered.rows, before)),
        pieces.verified,
    )
