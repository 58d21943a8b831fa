"""A segment of the journal: which rows are in which of its files, and the entry that makes it exist.

The journal is the stream of capture, in order, durable, and read by any number of consumers. A *segment* is what came
between two moments at which everything was made durable. It has one Parquet file for each table version and kind of
file, and one *entry* in the manifest. Only the entry makes the segment exist. Segments are numbered from 1 without a
gap. An entry holds the checkpoint after the segment's rows, so the two can't diverge. Capture continues from the last
entry, and what no entry names never happened.

There are three kinds of files. A *changes* file has the meta columns of META, then the table's own columns by their
names, then SOURCE. Its rows are in the order of the stream, which is the order of (`__scn`, `__ordinal`). A *rows* file
has the table's own columns only: chunks of a table's first snapshot, which go to the mirror unchanged. They are of the
generation that the table's mirror has in the entry's checkpoint. If the mirror began again within the segment, earlier
chunks are left out. A *verified* file has the form of a changes file. Its rows are those that a verification read, each
with the SCN at which the source had it, and `__chunk` names the verification. They are no changes: the lake compares
them with what it has.

Rows may be flushed *early*: into files of the open segment, which no entry names yet. There are two reasons for it.

If one file gets many rows, it's written while the segment fills. Then the segment seals as fast as one with few rows,
and other data in it doesn't wait for the writing of a snapshot's chunks. A file has the rows of its table version and
kind, in their order, after those in the file before. So the files of one version and kind are in the order of the
stream. Each but the last has at least AHEAD bytes of rows, which bounds their number. The rows' parts stay, without
columns, because an entry describes them. When such a file was written, all chunks in it were of the mirror's present
generation. If the mirror begins again after that within the segment, the file is left out.

A transaction is in one segment, however large it is. If its rows fill a segment before its end has come, they are
flushed early too. Nothing complete may wait then, so the transaction is the first thing in its segment. If the end
never comes, no entry ever names these files.

An entry has its files in the order in which the stream first had rows for their versions and kinds, whichever were
flushed early. So the versions of a table come in their order, and a lake follows them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.column_protection import Protection
from pipeline.config.settings import JournalSettings
from pipeline.config.table_rules import LakeRule, rule_of
from pipeline.journal.change_rows import ChangeRun, change_tables, chunk_table
from pipeline.journal.entry import (
    CommitTimes,
    Entry,
    File,
    FileKind,
    ProtectedTable,
    SealedChunk,
    resumed_tables,
)
from pipeline.journal.protected_rows import protect_rows
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart
from pipeline.messages.message_size import of_part
from pipeline.messages.row_images import TableChanges
from pipeline.schema.ddl.alter_table import Altered
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.snapshot.checkpoint import Checkpoint, Mirror
from pipeline.snapshot.key_protection import conceal_keys
from pipeline.types.buffers import Longs

# How many commit times an entry keeps, at most, to measure how fresh its segment was.
COMMIT_TIME_SAMPLES = 16

# How many images of changes become rows together, unless a slice alone has more: a slice of ten takes a millisecond.
IMAGES_TOGETHER = 20_000

# So many columns that an image lacks take as much as another image, about.
COLUMNS_NAMED = 16

# How many bytes of rows one file gets ahead, at least.
AHEAD = 4 << 20

# How many files a second the journal gets at most where tables change a little each. Files that are written ahead have
# megabytes each and don't count.
FILES_PER_S = 250

# For each file of the last segment the next one waits at most so long (seconds) because sealing that one took as long.
# So after a few tables it doesn't wait.
REST_PER_FILE_S = 0.02

# How long (seconds) the next segment waits at most for either. The answers to signals wait with it, and a request by
# HTTP fails after half a minute.
LONGEST_PAUSE_S = 5.0

# How long (seconds) a new position alone may wait: it spares a restart the reading of filtered transactions, no more.
POSITION_INTERVAL_S = 5.0


# Which of a segment's files.
Which = tuple[TableSchema, FileKind]
# Some adjacent parts of a file: changes, or one chunk.
_Run = list[ChangePart | ChunkPart]


@dataclass(frozen=True, slots=True)
class Unsealed:
    """What isn't sealed yet: at least one append, and the bytes of its rows and texts, be they written ahead or not.

    Moments are in seconds of one monotonic clock: `since` that of the first append, `urgent_since` that of the first
    one with anything but a new position, None while there's none. `unwritten`: the bytes in memory, by file.
    """

    appends: tuple[Append, ...]
    bytes: int
    since: float
    urgent_since: float | None
    unwritten: Mapping[Which, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EarlyFile:
    """A file that's written ahead, when the stream was at this SCN; None for one of a transaction that hadn't ended."""

    file: File
    scn: int | None = None


@dataclass(frozen=True, slots=True)
class OpenTransactionRows:
    """Rows of a transaction or a scan whose end hasn't come, as far as they are in memory, and their bytes."""

    parts: tuple[ChangePart | ChunkPart, ...] = ()
    bytes: int = 0


def add_rows(unfinished: OpenTransactionRows, rows: AppendRows) -> OpenTransactionRows:
    """With more rows of the transaction."""
    return OpenTransactionRows(
        (*unfinished.parts, *rows.parts), unfinished.bytes + sum(map(of_part, rows.parts))
    )


def drop_written_rows(unfinished: OpenTransactionRows) -> OpenTransactionRows:
    """What is left in memory once the rows are written early: of each table version a part that says whose it is.

    Of a scan it's each chunk, without its rows, because the entry describes them.
    """
    left: dict[TableSchema | int, ChangePart | ChunkPart] = {}
    for part in unfinished.parts:
        left[part.changes.schema if isinstance(part, ChangePart) else part.scn] = _without_rows(part)
    return OpenTransactionRows(tuple(left.values()))


def end_transaction(unfinished: OpenTransactionRows, append: Append) -> Append:
    """The append that ends the transaction, with its rows before its own."""
    kept = [part for part in unfinished.parts if _whose(part)[0].table not in append.withdrawn]
    return replace(append, parts=(*kept, *append.parts))


def files_of_segment(
    ahead: Iterable[EarlyFile], rest: Iterable[File], appends: Sequence[Append], protection: Protection
) -> tuple[File, ...]:
    """Those of the files written ahead that come into the segment, and the rest, in the order of the stream."""
    whose = dict.fromkeys(map(_whose, parts_of_appends(appends)))
    stored = dict.fromkeys((protection.stored(schema).version, kind) for schema, kind in whose)
    places = {which: place for place, which in enumerate(stored)}
    files = (*(each.file for each in ahead if not _is_void(each, appends)), *rest)
    return tuple(sorted(files, key=lambda file: places[file.version, file.kind]))


def _is_void(ahead: EarlyFile, appends: Sequence[Append]) -> bool:
    table = ahead.file.table
    if ahead.scn is None:  # its transaction ends with the segment's first append
        return table in appends[0].withdrawn
    return ahead.file.kind is FileKind.ROWS and _begun_anew(table, ahead.scn, appends[-1].checkpoint.mirrors)


def add_append(waiting: Unsealed | None, append: Append, before: Checkpoint | None, now: float) -> Unsealed:
    """What waits after one more append; `before` is the last segment's checkpoint."""
    if waiting is None:
        waiting = Unsealed((), 0, now, None)
    urgent_since = waiting.urgent_since
    if urgent_since is None and _urgent(append, before):
        urgent_since = now
    unwritten = Counter(waiting.unwritten)
    for part in append.parts:
        unwritten[_whose(part)] += of_part(part)
    size = sum(map(of_part, append.parts)) + sum(len(each.statement.text) for each in append.statements)
    return Unsealed((*waiting.appends, append), waiting.bytes + size, waiting.since, urgent_since, unwritten)


def split_early_parts(waiting: Unsealed) -> tuple[Unsealed, list[ChangePart | ChunkPart]]:
    """The parts that are worth a file of their own, and what waits once they're written ahead."""
    large = {which for which, size in waiting.unwritten.items() if size >= AHEAD}
    if not large:
        return waiting, []
    parts = [part for part in parts_of_appends(waiting.appends) if _whose(part) in large]
    appends = tuple(
        replace(append, parts=tuple(_without_rows(p) if _whose(p) in large else p for p in append.parts))
        for append in waiting.appends
    )
    unwritten = {which: size for which, size in waiting.unwritten.items() if which not in large}
    return replace(waiting, appends=appends, unwritten=unwritten), parts


def holds_up_changes(waiting: Unsealed) -> bool:
    """Returns whether rows of chunks wait that are to be written ahead."""
    return any(
        isinstance(part, ChunkPart)
        and not _is_written(part)
        and waiting.unwritten.get(_whose(part), 0) >= AHEAD
        for append in waiting.appends
        for part in append.parts
    )


def is_full(waiting: Unsealed | None, unfinished: OpenTransactionRows, settings: JournalSettings) -> bool:
    """Whether there are as many rows as a segment may have."""
    size = unfinished.bytes + (waiting.bytes if waiting else 0)
    return size > 0 and size >= settings.seal_mib << 20


def seal_at(waiting: Unsealed, settings: JournalSettings) -> float:
    """Returns the moment at which the waiting rows are sealed, unless the segment is full before."""
    if waiting.urgent_since is None:
        return waiting.since + POSITION_INTERVAL_S
    return waiting.urgent_since + settings.seal_after_ms / 1000


def pause_after(sealed: Unsealed) -> float:
    """Returns for how long (s) no other segment is sealed after this one is begun, unless it's full: its tables cost a
    file each in the journal, and a commit each in the lake. It's LONGEST_PAUSE_S at most, however many tables there
    are."""
    return min(len(sealed.unwritten) / FILES_PER_S, LONGEST_PAUSE_S)


def rest_after(sealed: Unsealed, took_s: float) -> float:
    """Returns for how long (s) no other segment is sealed after this one is durable, unless it's full. Sealing it took
    so long.

    Whoever delivers it has the processors meanwhile. A change waits half of a round until its segment is sealed. With
    this it then waits for its own delivery, and otherwise for that of the segment before, too.
    """
    return min(took_s, len(sealed.unwritten) * REST_PER_FILE_S, LONGEST_PAUSE_S)


@dataclass(frozen=True, slots=True)
class SegmentTable:
    """What becomes one file of a segment."""

    schema: TableSchema
    kind: FileKind
    rows: pa.Table

    @property
    def absent(self) -> bool:
        """Whether there are rows of the log that lack columns."""
        absent = self.rows["__absent"] if self.kind is FileKind.CHANGES else None
        if absent is None or absent.null_count == len(absent):
            return False
        return bool(pc.any(pc.and_(absent.is_valid(), self.rows["__chunk"].is_null())).as_py())

    @property
    def stated(self) -> list[str]:
        """Returns the columns whose least and greatest value is in the file's footer: those that choose rows."""
        chosen_by = {"__segment", "__scn", *self.schema.key_names}
        schema = self.rows.schema
        return [name for name in schema.names if name in chosen_by and has_one_order(schema.field(name).type)]


def has_one_order(type_: pa.DataType) -> bool:
    """Returns whether the order of its values is the same for all who read them."""
    whole = pa.types.is_decimal(type_) and type_.scale == 0
    return bool(pa.types.is_integer(type_) or whole or pa.types.is_date(type_))


def segment_tables(
    segment: int,
    parts: Iterable[ChangePart | ChunkPart],
    rules: tuple[LakeRule, ...],
    protection: Protection,
) -> tuple[SegmentTable, ...]:
    """One table for each table version and kind of file, in order of first appearance; none of them is empty.

    They have no value that a rule protects.
    """
    groups: dict[Which, list[ChangePart | ChunkPart]] = {}
    for part in parts:
        if not _is_written(part):
            groups.setdefault(_whose(part), []).append(part)
    pieces: dict[Which, list[pa.Table]] = {which: [] for which in groups}
    runs = [(which, run) for which, group in groups.items() for run in _runs(group)]
    for lot in _lots(runs):
        for (which, _), rows in zip(lot, _rows(segment, [run for _, run in lot], rules), strict=True):
            if len(rows):
                pieces[which].append(rows)
    return tuple(
        _protected(schema, kind, tables[0] if len(tables) == 1 else pa.concat_tables(tables), protection)
        for (schema, kind), tables in pieces.items()
        if tables
    )


def _protected(schema: TableSchema, kind: FileKind, rows: pa.Table, protection: Protection) -> SegmentTable:
    if not protection.protects(schema.table):
        return SegmentTable(schema, kind, rows)
    return SegmentTable(protection.stored(schema), kind, protect_rows(rows, schema, protection))


def seal(
    segment: int,
    appends: Sequence[Append],
    files: tuple[File, ...],
    before: Checkpoint | None,
    sealed_at: int,
    protection: Protection,
) -> Entry:
    """The entry of a segment that ends with the last append's checkpoint; `before` is that of the last one."""
    parts = parts_of_appends(appends)
    slices = {part.first_scn: part.transactions for part in parts if isinstance(part, ChangePart)}
    checkpoint = conceal_keys(appends[-1].checkpoint, protection)
    altered = tuple(_stored_alteration(each, protection) for append in appends for each in append.alterations)
    protected = _protected_tables(checkpoint, protection)
    named = [part.changes.schema if isinstance(part, ChangePart) else part.schema for part in parts]
    named = [protection.stored(schema) for schema in named]
    named += [each.alteration.schema for each in altered]
    named += [each.schema for each in protected.values()]
    return Entry(
        segment=segment,
        files=files,
        first_scn=(before.scn if before else 0) + 1,
        last_scn=checkpoint.scn,
        transactions=sum(map(len, slices.values())),
        commit_times=_commit_times([run.commit_time for run in slices.values() if len(run)]),
        chunks=tuple(
            _sealed_chunk(part, protection)
            for part in parts
            if isinstance(part, ChunkPart) and not part.verifies
        ),
        checkpoint=checkpoint,
        schemas={schema.version: schema for schema in (*named, *checkpoint.schemas.values())},
        sealed_at=sealed_at,
        alterations=altered,
        statements=tuple(each for append in appends for each in append.statements),
        protected=protected,
        resumed=() if before is None else tuple(sorted(resumed_tables(before, checkpoint))),
        position_stays=before is not None and before.position == checkpoint.position,
    )


def _sealed_chunk(part: ChunkPart, protection: Protection) -> SealedChunk:
    version = protection.stored(part.schema).version if part.first else None
    return SealedChunk(part.chunk, part.low, part.high, len(part.rows), part.scn, part.at, version)


def _protected_tables(checkpoint: Checkpoint, protection: Protection) -> dict[TableId, ProtectedTable]:
    return {
        table: ProtectedTable(protection.stored(schema), digest)
        for table, schema in checkpoint.schemas.items()
        if (digest := protection.digest(table)) is not None
    }


def _stored_alteration(altered: Altered, protection: Protection) -> Altered:
    """Returns an alteration of the columns that the journal has. A constant may be a value that is protected."""
    alteration = altered.alteration
    table = alteration.schema.table
    if not protection.protects(table):
        return altered
    added = tuple(
        each
        for each in alteration.changes.added
        if protection.rule_of_column(table, each.column.name) is None
    )
    changes = replace(alteration.changes, added=added)
    return replace(
        altered, alteration=replace(alteration, schema=protection.stored(alteration.schema), changes=changes)
    )


def parts_of_appends(appends: Sequence[Append]) -> list[ChangePart | ChunkPart]:
    """All parts that come into a segment, in order; its last append's checkpoint says which rows count."""
    mirrors = appends[-1].checkpoint.mirrors
    return [part for append in appends for part in append.parts if not _left_behind(part, mirrors)]


def _left_behind(part: ChangePart | ChunkPart, mirrors: Mapping[TableId, Mirror]) -> bool:
    """Returns whether it's a chunk of an older generation of a mirror, which no reader needs any more."""
    if isinstance(part, ChangePart) or not part.first:
        return False
    return _begun_anew(part.schema.table, part.scn, mirrors)


def _begun_anew(table: TableId, scn: int, mirrors: Mapping[TableId, Mirror]) -> bool:
    """Returns whether the table's mirror has begun again at this SCN or after it."""
    mirror = mirrors.get(table)
    return mirror is not None and scn <= mirror.since


def _whose(part: ChangePart | ChunkPart) -> Which:
    """Which of a segment's files it's for."""
    match part:
        case ChangePart():
            return part.changes.schema, FileKind.CHANGES
        case ChunkPart():
            if part.verifies:
                return part.schema, FileKind.VERIFIED
            return part.schema, FileKind.ROWS if part.first else FileKind.CHANGES
        case _:
            assert_never(part)


def _runs(parts: Sequence[ChangePart | ChunkPart]) -> Iterator[list[ChangePart | ChunkPart]]:
    """The parts of one file, in their order; changes that are few are made rows together, a chunk by itself."""
    run: list[ChangePart | ChunkPart] = []
    rows = 0
    for part in parts:
        here = _images(part)
        if run and rows + here > IMAGES_TOGETHER:
            yield run
            run, rows = [], 0
        run.append(part)
        rows += here
    if run:
        yield run


def _lots(runs: Iterable[tuple[Which, _Run]]) -> Iterator[list[tuple[Which, _Run]]]:
    """Divides runs, in their order, into those that become rows together: a chunk does so by itself."""
    lot: list[tuple[Which, _Run]] = []
    images = 0
    for which, run in runs:
        here = sum(map(_images, run))
        if lot and images + here > IMAGES_TOGETHER:
            yield lot
            lot, images = [], 0
        lot.append((which, run))
        images += here
    if lot:
        yield lot


def _images(part: ChangePart | ChunkPart) -> int:
    """Returns how many images a part has, and for a chunk more than may become rows together.

    Images that lack columns count as more, since their rows name these.
    """
    if isinstance(part, ChunkPart):
        return 1 + IMAGES_TOGETHER
    changes = part.changes
    whole = changes.images.column("absent").null_count == len(changes.images)
    return len(changes.images) * (1 if whole else 1 + len(changes.schema.columns) // COLUMNS_NAMED)


def _rows(segment: int, lot: Sequence[_Run], rules: tuple[LakeRule, ...]) -> list[pa.Table]:
    """Returns the rows of each run."""
    match lot:
        case [[ChunkPart() as chunk]]:
            return [chunk_table(segment, chunk)]
        case _:
            changes = [[part for part in run if isinstance(part, ChangePart)] for run in lot]
            tables = [parts[0].changes.schema.table for parts in changes]
            before_images = [rule_of(rules, table).before_images for table in tables]
            return change_tables(segment, list(map(ChangeRun, changes, before_images)))


def _urgent(append: Append, before: Checkpoint | None) -> bool:
    """Returns whether a reader waits for it: it has rows, a statement, an answer, or a change of progress."""
    if append.parts or append.statements or append.answers or before is None:
        return True
    return not append.checkpoint.same_but_position(before)


def _without_rows(part: ChangePart | ChunkPart) -> ChangePart | ChunkPart:
    """The part once its rows are written: without columns, but with their number."""
    match part:
        case ChangePart():
            return replace(part, changes=_rowless(part.changes))
        case ChunkPart():
            return replace(part, rows=part.rows.select([]), gone=None)
        case _:
            assert_never(part)


def _rowless(changes: TableChanges) -> TableChanges:
    return replace(changes, images=changes.images.select([]), rows=changes.rows.select([]), bytes=0)


def _is_written(part: ChangePart | ChunkPart) -> bool:
    rows = part.changes.rows if isinstance(part, ChangePart) else part.rows
    return not rows.schema.names


def _commit_times(times: list[Longs]) -> CommitTimes | None:
    if not times:
        return None
    all_times = np.concatenate(times)
    places = np.linspace(0, all_times.size - 1, min(COMMIT_TIME_SAMPLES, all_times.size)).astype(np.int64)
    return CommitTimes(int(all_times.min()), int(all_times.max()), tuple(all_times[places].tolist()))
