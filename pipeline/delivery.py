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

Within a generation the mirror takes on a new schema only if its rows can stay as they are (`pipeline.evolution`). The
changelog keeps all columns that it ever had, so that it takes on any schema whose columns don't have another type than
before. A table without a mirror has nothing but its changelog.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipeline.checkpoint import Checkpoint, Mirror
from pipeline.errors import Definite
from pipeline.evolution import obstacle
from pipeline.journal import Entry, FileKind
from pipeline.lake_tables import Tier, columns, need_mapping
from pipeline.schema import TableId, TableSchema


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the lake has of a table.

    `schema`: what its lake tables have taken on, None where there are none, and `since` the segment that it came
    with: older files have older schemas, even if they come later, after a crash in between. `columns`: those of the
    changelog, their types (as Spark's SQL writes them) by name in small letters. `changes` and `rows`: the segments
    through which it has all changes, and all rows of first snapshots. `generation` of the mirror, None where there's
    none, `merged` the segment that it has reached, and `pending` the changes behind that, both as they were found.
    `after`: the segment through which all tables had everything when this one last got something. `stopped`: why it
    gets no more.
    """

    schema: TableSchema | None = None
    since: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    changes: int = 0
    rows: int = 0
    generation: int | None = None
    merged: int = 0
    pending: int = 0
    after: int = 0
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A file of the journal: its segment, its place among the segment's files and its name there, its table's schema
    and the number of its rows, and whether some of them lack columns.
    """

    segment: int
    place: int
    path: str
    schema: TableSchema
    rows: int
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
    begin later, in order. `commit_times`: samples of when their transactions committed, and `newest` the last of
    these, None where there were none; µs since the epoch.
    """

    after: int
    through: int
    tables: dict[TableId, Pieces]
    generations: dict[TableId, tuple[Generation, ...]]
    checkpoint: Checkpoint
    commit_times: tuple[int, ...]
    newest: int | None

    def newly_begun(self, table: TableId, delivered: Delivered) -> bool:
        """Whether the table's mirror is to be made, or begun anew."""
        last = self.generations.get(table, ())[-1:]
        return bool(last) and _newer(last[0], delivered.generation)


# A batch is one commit in each table: the more is in it, the less it costs, and the longer it takes.
MOST_BYTES = 256 << 20
MOST_SEGMENTS = 500


def next_batch(entries: Iterable[Entry], most_bytes: int = MOST_BYTES) -> Batch:
    """The batch of the first of these entries, and of those after it until it has `most_bytes` of Parquet.

    There must be one at least, and no more are taken from `entries` than belong to it.
    """
    taken: list[Entry] = []
    size = 0
    for entry in entries:
        taken.append(entry)
        size += sum(file.bytes for file in entry.files)
        if size >= most_bytes or len(taken) == MOST_SEGMENTS:
            break
    files = [(entry, place, file) for entry in taken for place, file in enumerate(entry.files)]
    tables = {
        table: Pieces(
            *(
                tuple(
                    Piece(
                        entry.segment, place, file.path, entry.schemas[file.version], file.rows, file.absent
                    )
                    for entry, place, file in files
                    if file.table == table and file.kind is kind
                )
                for kind in (FileKind.CHANGES, FileKind.ROWS)
            )
        )
        for table in dict.fromkeys(file.table for _, _, file in files)
    }
    times = [entry.commit_times for entry in taken if entry.commit_times is not None]
    return Batch(
        after=taken[0].segment - 1,
        through=taken[-1].segment,
        tables=tables,
        generations=_generations(taken),
        checkpoint=taken[-1].checkpoint,
        commit_times=tuple(sample for each in times for sample in each.samples),
        newest=max((each.newest for each in times), default=None),
    )


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


_LACKING = (
    "rows of {table} came without all of their columns, and what the others hold isn't known; set "
    "binlog_row_image=FULL on the source, remove the lake tables of {table} and snapshot it anew"
)


class Incompatible(Definite):
    """The lake tables of a table can't take on its new schema, or its rows."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """What of a batch a table's part of the lake can take: everything `through` a segment.

    `schema`: what the lake tables have to take on first, None where there's no table to make, and `since` the segment
    that it came with; `versions` are all that came, in order, whose columns the changelog needs. `generation`: that of
    the mirror, None where there's none to make. `reason`: why it ends before the batch does, empty where it doesn't.
    """

    pieces: Pieces
    schema: TableSchema | None
    since: int
    versions: tuple[TableSchema, ...]
    columns: Mapping[str, str]
    generation: int | None
    through: int
    reason: str = ""


def accepted(delivered: Delivered, table: TableId, batch: Batch) -> Accepted:
    """How far a table can be delivered, and what of its files it lacks.

    A segment is taken as a whole or not at all. So the segment that the present schema came with has no version in it
    that wasn't accepted, and neither has any before. A segment with rows that lack columns isn't taken: a value that
    the log didn't give would become NULL.
    """
    pieces = missing(delivered, batch.tables.get(table, Pieces()))
    begun = {each.segment: each for each in batch.generations.get(table, ())}
    lacking = {piece.segment for piece in pieces.changes if piece.absent}
    versions = _versions(pieces)
    taken = Accepted(
        pieces, delivered.schema, delivered.since, (), delivered.columns, delivered.generation, batch.through
    )
    for segment in sorted(versions.keys() | begun.keys()):
        try:
            if segment in lacking:
                raise Incompatible(_LACKING.format(table=table))
            taken = _taken(taken, segment, versions.get(segment, []), begun.get(segment))
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


def _taken(
    taken: Accepted, segment: int, versions: list[TableSchema], generation: Generation | None
) -> Accepted:
    """With a segment that has files of these versions, and perhaps a generation that's new. Raises Incompatible."""
    begun = generation if generation is not None and _newer(generation, taken.generation) else None
    if begun is not None:
        taken = replace(taken, generation=begun.since)
        versions = [*(version for version in versions if version != begun.schema), begun.schema]
    if segment <= taken.since:
        return taken
    for version in versions:
        if taken.schema is not None and taken.schema.version == version.version:
            continue
        if begun is None and taken.generation is not None and taken.schema is not None:
            _stays(taken.schema, version)
        held = with_columns(taken.columns, version)
        taken = replace(
            taken, schema=version, since=segment, columns=held, versions=(*taken.versions, version)
        )
    return taken


_REMEDY = "remove the lake tables of {table} and snapshot it anew to have it with its new schema"


def _stays(present: TableSchema, new: TableSchema) -> None:
    if why := obstacle(present, new):
        raise Incompatible(f"{why}: {_REMEDY.format(table=new.table)}")


def with_columns(has: Mapping[str, str], new: TableSchema) -> dict[str, str]:
    """The columns of a changelog that has these, by `Delivered.columns`, once it takes rows of `new` as well.

    Raises Incompatible with the reason where it can't.
    """
    try:
        wanted = columns(new, Tier.CHANGELOG)
    except Definite as error:
        raise Incompatible(f"{error}: rename it, or leave the table out") from error
    remedy = _REMEDY.format(table=new.table)
    for column in wanted:
        there = has.get(column.name.lower())
        if there is not None and there.casefold() != column.type.casefold():
            raise Incompatible(
                f"column {column.name!r} of {new.table} was {there.upper()} and is {column.type}: {remedy}"
            )
    if has and not need_mapping(has) and need_mapping(column.name for column in wanted):
        raise Incompatible(
            f"a column whose name has spaces or punctuation was added to {new.table}: {remedy}"
        )
    return {**has, **{column.name.lower(): column.type for column in wanted}}
