"""What is to be delivered to the lake next, and which schemas it can take on.

A *batch* is a run of segments, (after, through], delivered table by table and each to its end before the next one
begins. Of each table it's one commit, and that commit says `after`: whoever finds it knows that all tables have
everything through there. So a restart goes on from the greatest `after` that it finds, and skips in each table what
that table has already; nothing has to be kept beside the tables.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.checkpoint import Checkpoint
from pipeline.errors import Definite
from pipeline.journal import Entry, FileKind
from pipeline.mirror import Tier, columns, need_mapping, spark_type
from pipeline.schema import Column, TableId, TableSchema
from pipeline.types import DateTime, Enum, FixedBinary, Set, Time, Timestamp, arrow_type


@dataclass(frozen=True, slots=True)
class Delivered:
    """What the lake has of a table.

    `schema`: what its lake tables have taken on, None where there are none, and `since` the segment that it came
    with: older files have older schemas, even if they come later, after a crash in between. `changes` and `rows`:
    the segments through which it has all changes, and all rows of the first snapshot. `merged`: the segment that the
    mirror has reached, None where there's no mirror, and `pending` the changes behind that, both as they were found.
    `after`: the segment through which all tables had everything when this one last got something. `stopped`: why it
    gets no more.
    """

    schema: TableSchema | None = None
    since: int = 0
    changes: int = 0
    rows: int = 0
    merged: int | None = None
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
class Batch:
    """The segments (after, through] and what's in them.

    `checkpoint` is that of `through`. `commit_times`: samples of when their transactions committed, and `newest` the
    last of these, None where there were none; µs since the epoch.
    """

    after: int
    through: int
    tables: dict[TableId, Pieces]
    checkpoint: Checkpoint
    commit_times: tuple[int, ...]
    newest: int | None


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
        checkpoint=taken[-1].checkpoint,
        commit_times=tuple(sample for each in times for sample in each.samples),
        newest=max((each.newest for each in times), default=None),
    )


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
    that it came with. `reason`: why it ends before the batch does, empty where it doesn't.
    """

    pieces: Pieces
    schema: TableSchema | None
    since: int
    through: int
    reason: str = ""


def accepted(delivered: Delivered, table: TableId, batch: Batch) -> Accepted:
    """How far a table can be delivered, and what of its files it lacks.

    A segment is taken as a whole or not at all. So the segment that the present schema came with has no version in it
    that wasn't accepted, and neither has any before. A segment with rows that lack columns isn't taken: a value that
    the log didn't give would become NULL.
    """
    pieces = missing(delivered, batch.tables.get(table, Pieces()))
    lacking = {piece.segment for piece in pieces.changes if piece.absent}
    schema, since = delivered.schema, delivered.since
    for segment, versions in _versions(pieces, table, batch):
        if segment <= since and segment not in lacking:
            continue
        try:
            if segment in lacking:
                raise Incompatible(_LACKING.format(table=table))
            taken = schema
            for version in versions:
                taken = version if taken and version.version == taken.version else taken_on(taken, version)
        except Incompatible as error:
            before = Pieces(
                tuple(piece for piece in pieces.changes if piece.segment < segment),
                tuple(piece for piece in pieces.rows if piece.segment < segment),
            )
            return Accepted(before, schema, since, segment - 1, f"from segment {segment} on: {error}")
        if taken != schema:
            schema, since = taken, segment
    return Accepted(pieces, schema, since, batch.through)


def _versions(pieces: Pieces, table: TableId, batch: Batch) -> list[tuple[int, list[TableSchema]]]:
    """The schemas of a table's files, by segment; for an empty table whose mirror begins, the checkpoint's."""
    if not pieces.changes and not pieces.rows and table in batch.checkpoint.mirrors:
        return [(batch.through, [batch.checkpoint.schemas[table]])]
    found: dict[int, list[TableSchema]] = {}
    for piece in sorted((*pieces.changes, *pieces.rows), key=lambda piece: (piece.segment, piece.place)):
        versions = found.setdefault(piece.segment, [])
        if piece.schema not in versions:
            versions.append(piece.schema)
    return list(found.items())


def taken_on(present: TableSchema | None, new: TableSchema) -> TableSchema:
    """The schema of the lake tables after `new`: `new` itself, if each row of `present` can stay as it is.

    That's so if columns have only been added, and these may be null. Raises Incompatible with the reason.
    """
    try:
        columns(new, Tier.CHANGELOG)
    except Definite as error:
        raise Incompatible(f"{error}: rename it, or leave the table out") from error
    if present is None:
        return new
    remedy = f"remove the lake tables of {new.table} and snapshot it anew to have it with its new schema"
    if present.key_names != new.key_names:
        before, after = (", ".join(names) or "none" for names in (present.key_names, new.key_names))
        raise Incompatible(f"the primary key of {new.table} was ({before}) and is ({after}): {remedy}")
    has = {column.name: column for column in new.columns}
    for column in present.columns:
        if column.name not in has:
            raise Incompatible(f"column {column.name!r} of {new.table} was dropped or renamed: {remedy}")
        if not _keeps(column, has[column.name]):
            raise Incompatible(
                f"column {column.name!r} of {new.table} was {column.type} and is {has[column.name].type}: {remedy}"
            )
    was, now = (need_mapping(column.name for column in each.columns) for each in (present, new))
    if now and not was:
        raise Incompatible(
            f"a column whose name has spaces or punctuation was added to {new.table}: {remedy}"
        )
    for column in new.columns:
        if not column.nullable and column.name not in {c.name for c in present.columns}:
            raise Incompatible(
                f"column {column.name!r} was added to {new.table} as NOT NULL, so that its rows got a value that no "
                f"change tells: {remedy}"
            )
    return new


def _keeps(old: Column, new: Column) -> bool:
    """Whether each value of the old column is the same value in the new one."""
    if spark_type(arrow_type(old.type)) != spark_type(arrow_type(new.type)):
        return False
    match old.type, new.type:
        case (Enum(before), Enum(after)) | (Set(before), Set(after)):
            return after[: len(before)] == before
        case (FixedBinary(before_width), FixedBinary(after_width)):
            return before_width == after_width
        case (Time(before_digits), Time(after_digits)):
            return before_digits <= after_digits
        case (DateTime(before_digits), DateTime(after_digits)):
            return before_digits <= after_digits
        case (Timestamp(before_digits), Timestamp(after_digits)):
            return before_digits <= after_digits
        case _:
            return type(old.type) is type(new.type)
