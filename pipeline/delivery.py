"""What is to be delivered to the lake next, and which schemas it can take on.

A *batch* is a run of segments, (after, through], delivered table by table and each to its end before the next one
begins. Of each table it's one commit, and that commit says `after`: whoever finds it knows that all tables have
everything through there. So a restart goes on from the greatest `after` that it finds, and skips in each table what
that table has already; nothing has to be kept beside the tables.

**Generations.** A mirror may be begun anew (`pipeline.checkpoint.Mirror`). Within a batch only the last generation of
each table counts: the mirror is emptied and laid out for it, in one commit that tells it, before anything else of the
batch arrives. From then on the live view counts only changes behind that SCN, of which the changelog has none yet: it
shows the mirror at its beginning, which is later than what it showed before and never wrong. A segment's rows of first
snapshots are of the generation that its checkpoint has (`pipeline.journal`), and those of an older one are left out.

**Schemas.** What statements did to columns comes before all rows of its segment (`pipeline.journal`), and a batch ends
before such a segment. So within a batch a column's name means one column, and before anything of it arrives the lake
tables take on all that the batch needs (`pipeline.lake_changes`), the changelog and the mirror each in one commit that
says through which segment it has. Whatever fails in between, each of them goes on from what it says itself. Within a
generation the mirror takes on a new schema only if its rows can stay as they are (`pipeline.evolution`). A table
without a mirror has nothing but its changelog.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pipeline.alterations import Alteration, altered
from pipeline.checkpoint import Checkpoint, Mirror, Ready
from pipeline.evolution import obstacle
from pipeline.journal import Entry, FileKind
from pipeline.lake_changes import REMEDY, Incompatible, Plan, Step, followed, planned
from pipeline.lake_rules import SchemaChanges
from pipeline.lake_tables import LakeColumn, Tier
from pipeline.schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the lake has of a table.

    `schema`: what its changelog has taken on, None where there's none, and `since` the segment that it came with:
    older files have older schemas, even if they come later, after a crash in between. `mirror_since`: the same of the
    mirror, which takes it on afterwards. `columns`: those of the changelog. `changes` and `rows`: the segments
    through which it has all changes, and all rows of first snapshots. `generation` of the mirror, None where there's
    none, `merged` the segment that it has reached, and `pending` the changes behind that, both as they were found.
    `after`: the segment through which all tables had everything when this one last got something. `partial`: whether
    its changes may lack columns. `stopped`: why it gets no more. `rebuilding`: since when (s since the epoch) its
    newest generation has been filled, None where its mirror is complete.
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
    stopped: str | None = None
    rebuilding: float | None = None


def said_by(tables: Iterable[Delivered]) -> int:
    """The segment through which a lake's own tables say that all had everything; -1 where there are no tables."""
    return max((table.after for table in tables if table.schema is not None), default=-1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of the journal: its segment, its place among the segment's files and its name there, its table's schema,
    the number of its rows and of its bytes, and whether some of its rows lack columns.
    """

    segment: int
    place: int
    path: str
    schema: TableSchema
    rows: int
    bytes: int
    absent: bool


@dataclass(frozen=True, slots=True)
class Pieces:
    """A table's files in a batch, by where they go, in the order of segments."""

    changes: tuple[Piece, ...] = ()
    rows: tuple[Piece, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of a mirror: it begins behind the SCN `since`, in `segment` or before, whose end has `schema`."""

    since: int
    segment: int
    schema: TableSchema


@dataclass(frozen=True, slots=True)
class Batch:
    """The segments (after, through] and what's in them.

    `checkpoint` is that of `through`. `generations`: those that the mirrors have at the first segment, and those that
    begin later, in order. `alterations`: what statements did to columns before the first segment. `commit_times`:
    samples of when their transactions committed, and `newest` the last of these, None where there were none; µs since
    the epoch.
    """

    after: int
    through: int
    tables: dict[TableId, Pieces]
    generations: dict[TableId, tuple[Generation, ...]]
    alterations: dict[TableId, tuple[Step, ...]]
    checkpoint: Checkpoint
    commit_times: tuple[int, ...]
    newest: int | None

    def newly_begun(self, table: TableId, delivered: Delivered) -> bool:
        """Whether the table's mirror is to be made, or begun anew."""
        last = self.generations.get(table, ())[-1:]
        return bool(last) and _newer(last[0], delivered.generation)

    def begins(self, table: TableId, generation: int) -> int:
        """The segment in which a generation of the table's mirror begins, as far as the batch tells."""
        return next(each.segment for each in self.generations[table] if each.since == generation)

    def tells_all_of(self, table: TableId, generation: int) -> bool:
        """Whether a generation that begins in the batch is complete with it: no snapshot has to fill it."""
        begins, rows = self.begins(table, generation), self.tables.get(table, Pieces()).rows
        mirror = self.checkpoint.mirrors.get(table)
        return mirror == Ready(generation) and all(piece.segment < begins for piece in rows)


# A batch is one commit in each table: the more is in it, the less it costs, and the longer it takes.
MOST_BYTES = 256 << 20
MOST_SEGMENTS = 500


def next_batch(entries: Iterable[Entry], most_bytes: int = MOST_BYTES) -> Batch:
    """The batch of the first of these entries, and of those after it until it has `most_bytes` of Parquet.

    It ends before columns are altered, and before a mirror begins another generation. There must be one entry at least,
    and no more are taken from `entries` than belong to it, and one that shows that it ends.
    """
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        if taken and (_alters(entry) or _begins_anew(taken[-1], entry)):
            break
        taken.append(entry)
        size += sum(file.bytes for file in entry.files)
        if size >= most_bytes or len(taken) == MOST_SEGMENTS:
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
    )


def _alters(entry: Entry) -> bool:
    return any(altered.alteration.changes for altered in entry.alterations)


def _begins_anew(before: Entry, entry: Entry) -> bool:
    """Whether a mirror that there was begins another generation in a segment."""
    had, has = before.checkpoint.mirrors, entry.checkpoint.mirrors
    return had != has and any(
        had[table].since < mirror.since for table, mirror in has.items() if table in had
    )


def _tables(entries: list[Entry]) -> dict[TableId, Pieces]:
    found: dict[TableId, dict[FileKind, list[Piece]]] = {}
    for entry in entries:
        for place, file in enumerate(entry.files):
            schema = entry.schemas[file.version]
            piece = Piece(entry.segment, place, file.path, schema, file.rows, file.bytes, file.absent)
            found.setdefault(file.table, {}).setdefault(file.kind, []).append(piece)
    return {
        table: Pieces(tuple(of.get(FileKind.CHANGES, ())), tuple(of.get(FileKind.ROWS, ())))
        for table, of in found.items()
    }


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
    for entry in entries:
        mirrors = entry.checkpoint.mirrors
        for table, mirror in mirrors.items() if mirrors != before else ():
            known = found.get(table, ())
            if not known or known[-1].since < mirror.since:
                begun = Generation(mirror.since, entry.segment, entry.checkpoint.schemas[table])
                found[table] = (*known, begun)
        before = mirrors
    return found


def _newer(generation: Generation, present: int | None) -> bool:
    return present is None or present < generation.since


def missing(delivered: Delivered, pieces: Pieces) -> Pieces:
    """Those of a table's files that the lake doesn't have yet."""
    return Pieces(
        tuple(piece for piece in pieces.changes if piece.segment > delivered.changes),
        tuple(piece for piece in pieces.rows if piece.segment > delivered.rows),
    )


@dataclass(frozen=True, slots=True)
class Accepted:
    """What of a batch a table's part of the lake can take: everything `through` a segment.

    `schema`: what the lake tables have to take on first, None where there's no table to make, and `since` the segment
    that it came with; `steps` lead there from whatever the lake tables have taken on, and `plan` is the changelog's.
    `generation`: that of the mirror, None where there's none to make. `partial`: whether changes may lack columns.
    `reason`: why it ends before the batch does, empty where it doesn't.
    """

    pieces: Pieces
    schema: TableSchema | None
    since: int
    steps: tuple[Step, ...]
    plan: Plan
    generation: int | None
    through: int
    partial: bool
    reason: str = ""


def accepted(
    delivered: Delivered, table: TableId, batch: Batch, rule: SchemaChanges = SchemaChanges.APPLY
) -> Accepted:
    """How far a table can be delivered by its rule, and what of its files it lacks.

    A segment is taken as a whole or not at all. So the segment that the present schema came with has no version in it
    that wasn't accepted, and neither has any before.
    """
    pieces = missing(delivered, batch.tables.get(table, Pieces()))
    begun = {each.segment: each for each in batch.generations.get(table, ())}
    partial = {piece.segment for piece in pieces.changes if piece.absent}
    versions = _versions(pieces)
    altered = batch.alterations.get(table, ())
    taken = Accepted(
        pieces,
        delivered.schema,
        delivered.since,
        (),
        planned(delivered.columns, delivered.schema),
        delivered.generation,
        batch.through,
        delivered.partial,
    )
    for segment in sorted({*versions, *begun, *(step.segment for step in altered)}):
        try:
            known = segment <= delivered.since
            after = replace(taken, partial=taken.partial or segment in partial)
            for step in altered:
                after = _altered(after, step, rule, known) if step.segment == segment else after
            taken = _taken(after, segment, versions.get(segment, []), begun.get(segment), rule, known)
        except Incompatible as error:
            before = Pieces(
                tuple(piece for piece in pieces.changes if piece.segment < segment),
                tuple(piece for piece in pieces.rows if piece.segment < segment),
            )
            reason = f"from segment {segment} on: {error}"
            taken = replace(taken, pieces=before, through=segment - 1, reason=reason)
            break
    return replace(taken, pieces=replace(taken.pieces, rows=_of_generation(taken, batch, table)))


def _versions(pieces: Pieces) -> dict[int, list[TableSchema]]:
    """The schemas of a table's files, by segment, in the order of the stream."""
    found: dict[int, list[TableSchema]] = {}
    for piece in sorted((*pieces.changes, *pieces.rows), key=lambda piece: (piece.segment, piece.place)):
        versions = found.setdefault(piece.segment, [])
        if piece.schema not in versions:
            versions.append(piece.schema)
    return found


def _of_generation(taken: Accepted, batch: Batch, table: TableId) -> tuple[Piece, ...]:
    """The rows that belong to the mirror's generation: none, where it's of a later one than all of the batch."""
    begins = (each.segment for each in batch.generations.get(table, ()) if each.since == taken.generation)
    first = next(begins, batch.through + 1)
    return tuple(piece for piece in taken.pieces.rows if piece.segment >= first)


def _altered(taken: Accepted, step: Step, rule: SchemaChanges, known: bool) -> Accepted:
    """With what a statement did to columns before a segment's rows. Raises Incompatible."""
    if taken.schema is None or not isinstance(step.change, Alteration):
        return taken
    changes = step.change.changes
    if not known and taken.partial and changes.renamed:
        raise Incompatible(_PARTIAL.format(old=changes.renamed[0][0], table=taken.schema.table))
    if not known and rule is not SchemaChanges.APPLY:
        done = [f"column {old!r} was renamed {new!r}" for old, new in changes.renamed]
        done += [f"column {name!r} was dropped" for name in changes.dropped]
        raise Incompatible(
            _RULED_OUT.format(what=" and ".join(done), table=taken.schema.table, rule=rule.value)
        )
    # Columns that came before it, without a row, come with the next one: the statement's schema may have them already.
    after = altered(taken.schema, changes, step.change.statement)
    return _stepped(taken, step, taken.schema if after is None else after.schema, known=known)


def _taken(
    taken: Accepted,
    segment: int,
    versions: list[TableSchema],
    generation: Generation | None,
    rule: SchemaChanges,
    known: bool,
) -> Accepted:
    """With a segment that has files of these versions, and perhaps a generation that's new. Raises Incompatible."""
    begun = generation if generation is not None and _newer(generation, taken.generation) else None
    if begun is not None:
        taken = replace(taken, generation=begun.since)
        versions = [*(version for version in versions if version != begun.schema), begun.schema]
    for version in versions:
        if not known:
            if taken.schema is not None and taken.schema.version == version.version:
                continue
            if begun is None and taken.generation is not None and taken.schema is not None:
                _stays(taken.schema, version)
            _ruled(taken, version, rule)
        anew = begun is not None and version == begun.schema
        taken = _stepped(taken, Step(segment, version, anew), version, known=known)
    return taken


def _stepped(taken: Accepted, step: Step, schema: TableSchema, *, known: bool) -> Accepted:
    """With a step; one that's `known` the changelog has made already, and the mirror perhaps not."""
    steps = (*taken.steps, step)
    if known:
        return replace(taken, steps=steps)
    plan = followed(taken.plan, Tier.CHANGELOG, [step])
    return replace(taken, steps=steps, plan=plan, schema=schema, since=step.segment)


def _stays(present: TableSchema, new: TableSchema) -> None:
    if why := obstacle(present, new):
        raise Incompatible(f"{why}: {REMEDY.format(table=new.table)}")


def _ruled(taken: Accepted, new: TableSchema, rule: SchemaChanges) -> None:
    """Raises Incompatible where the table's rule doesn't want its lake tables to take this schema on."""
    if taken.schema is None or rule is SchemaChanges.APPLY:
        return
    after = followed(taken.plan, Tier.CHANGELOG, [Step(taken.since, new)])
    gone = taken.plan.present - after.present
    if gone or (rule is SchemaChanges.REFUSE and after.columns != taken.plan.columns):
        what = f"{', '.join(sorted(gone))} went" if gone else "columns were added or widened"
        raise Incompatible(_RULED_OUT.format(what=what, table=new.table, rule=rule.value))


_PARTIAL = (
    "column {old!r} of {table} was renamed, and changes that lack columns tell these by their names: remove the lake "
    "tables of {table} and snapshot it anew, or set binlog_row_image=FULL on the source and then do so"
)
_RULED_OUT = (
    "{what} in {table}, and lake.rules has schema_changes = {rule!r} for it: give it another rule, or remove the lake "
    "tables of {table} and snapshot it anew"
)
