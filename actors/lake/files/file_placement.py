"""Files of the journal become files of a lake table: linked if possible, else copied, else rewritten.

A link costs nothing, whatever the file's size, and takes no space twice. Each of the two folders may remove its name of
the file, and the other doesn't notice. On a disk a file always gets the same name, however often and by whom it is
placed. The name says which file of which journal it is. In a store no name in a table is used twice. There an attempt
that fails leaves a part of a file, or the store completes the file later. A predecessor may still be at work, too. None
of that may replace a file that a commit names. A file is complete when it appears, and durable before Delta's log names
it. VACUUM removes a file that was placed and never named, as it removes all old files that Delta doesn't know. So
placing sets the file's age to now, for a link also that of the journal's file. A commit is made durable as well before
the journal learns that the lake has its files. So the journal still has what a power cut takes from the lake. A kill
may come between a commit and that. So the next process makes durable what it finds, before it reports it.

Spark syncs nothing that it writes. If a power cut leaves a commit and takes the files that it adds, nobody can read the
table. So a commit is synced after its files, and a commit of this process's own gets its name after all earlier ones
are durable.

Source: POSIX `link`, `rename` and `fsync`; Delta's VACUUM goes by modification times.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from actors.journal.store import JournalReader
from actors.lake.filesystem import lake_filesystem
from actors.lake.transaction_log.delta_log import LOG
from actors.runtime.filesystem import DISK_FULL, NO_LINK, TEMPORARY, list_folder, sync
from actors.runtime.redaction import safe_message
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.journal.change_rows import SOURCE, changes_schema
from pipeline.journal.segment import has_one_order
from pipeline.lake.batch import Piece
from pipeline.lake.files.parquet_files import (
    Bounds,
    Day,
    Fit,
    Link,
    Ordered,
    Rewrite,
    Stored,
    add,
    fit,
    stats,
)
from pipeline.lake.files.value_conversion import form_rows
from pipeline.lake.files.written_files import added_paths
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableSchema

# More commits than this (changes of columns, MERGEs, maintenance) come between two appends only if most of them are
# old. Those the kernel has written long since.
_BEFORE: Final = 100

# The kernel has long since written an older file (s).
_WRITTEN_WITHIN_S: Final = 600.0

# Of how many lake tables it is remembered how files come into them.
_MOST_FITS: Final = 4096

# How many rows are rewritten at a time, and how many bytes are copied.
_ROWS: Final = 8192
_PIECE: Final = 4 << 20


class LakeFull(Transient):
    """The lake's filesystem is full, for every table."""


def tell_nobody() -> None:
    """Does nothing."""


class LakeFiles:
    """Places files of one journal, and makes them durable. `advanced` is called for each piece of a file, in the
    caller's thread."""

    def __init__(self, journal: JournalReader, advanced: Callable[[], object] = tell_nobody) -> None:
        self._journal = journal
        self._advanced = advanced
        self._filesystem = journal.files.filesystem
        self._synced: dict[str, int] = {}
        # How files of a schema come into a table of these columns, as found for its last file.
        self._fits: dict[str, tuple[TableSchema, Mapping[str, Stored], pa.Schema, Fit]] = {}

    def place(
        self, table: str, tier: Tier, pieces: Sequence[Piece], columns: Mapping[str, Stored]
    ) -> list[str]:
        """Places files in the folder of a lake table with these columns. Returns the actions that make them part of it.

        Raises Definite if a file of the journal is gone or damaged, and Transient if the lake's filesystem fails.
        Raises ValueRefused if a column's form can't have a value.
        """
        with naming_table(table):
            lake, folder = lake_filesystem(table)
            attempt = "" if _is_local(lake) else f"-{uuid4().hex[:12]}"
            actions = [self._place(lake, folder, tier, piece, columns, attempt) for piece in pieces]
            if _is_local(lake):
                sync(folder)
        return actions

    def hold(self, folder: str, pieces: Sequence[Piece]) -> None:
        """Places files as they are in a folder of no lake table, by names that begin with segment and schema version.

        Raises as `place` does.
        """
        with naming_table(folder):
            lake, inside = lake_filesystem(folder)
            lake.create_dir(inside, recursive=True)
            for piece in pieces:
                self._advanced()
                source = self._journal.file(piece.segment, piece.path)
                name = f"{piece.segment:012}-{piece.schema.version}-{piece.place:04}.parquet"
                self._look_at(source, piece)
                formed = changes_schema(piece.schema) if piece.schema.formed else None
                self._write(source, piece, formed, lake, f"{inside}/{name}")
            if _is_local(lake):
                sync(inside)

    def sync_commit(self, table: str, version: int, *, durable: bool = False) -> None:
        """Makes all commits of a table's log up to this one durable, each after its files. `durable`: this one is
        already.

        If an earlier one is lost, such as a change of columns, no later one can be read. A predecessor has made its own
        appends durable. So this process's first append only syncs what may have come since then, and is young.
        """
        with naming_table(table):
            lake, folder = lake_filesystem(table)
            if not _is_local(lake):
                return
            known = self._synced.get(table)
            # It isn't known, or another table was made in its place.
            first = known + 1 if known is not None and known <= version else max(0, version - _BEFORE)
            for earlier in range(first, version):
                if _is_young(_commit(folder, earlier)):
                    with suppress(FileNotFoundError):  # it has expired
                        _sync_with_files(folder, earlier, self._advanced)
            if not durable:
                _sync_with_files(folder, version, self._advanced)
            if first < version or not durable:
                sync(f"{folder}/{LOG}")
            self._synced[table] = version

    def sync_earlier(self, table: str, version: int) -> None:
        """Makes all commits before this one durable, so that this one may become so."""
        if self._synced.get(table) != version - 1:
            self.sync_commit(table, version - 1)

    def sync_found(self, table: str, version: int) -> None:
        """Makes a table durable as another process may have left it, unless its newest commit is old."""
        with naming_table(table):
            lake, folder = lake_filesystem(table)
            if not _is_local(lake) or not _is_young(_commit(folder, version)):
                return
        self.sync_commit(table, version)

    def remove(self, begins: str, kept: str | None) -> None:
        """Removes the lake tables whose paths begin like this, except the one to keep."""
        with naming_table(begins):
            lake, beginning = lake_filesystem(begins)
            folder, _, name = beginning.rpartition("/")
            there = list_folder(lake, folder)
            left = None if kept is None else lake_filesystem(kept)[1].rpartition("/")[2]
            for info in there:
                generation = info.base_name.removeprefix(name)
                if info.base_name.startswith(name) and generation.isdecimal() and info.base_name != left:
                    lake.delete_dir(info.path)

    def _place(
        self,
        lake: fs.FileSystem,
        folder: str,
        tier: Tier,
        piece: Piece,
        columns: Mapping[str, Stored],
        attempt: str,
    ) -> str:
        self._advanced()
        source = self._journal.file(piece.segment, piece.path)
        name = f"{piece.segment:012}-{piece.place:04}-{self._journal.identity.id[:8]}{attempt}.parquet"
        path = f"{folder}/{name}"
        self._look_at(source, piece)
        file, fitting = self._fit(folder, tier, piece.schema, columns)
        copied = isinstance(fitting, Link) and not piece.schema.formed
        linked = None
        if copied:
            with suppress(FileExistsError):  # an attempt before this one has placed something of that name
                linked = self._linked(source, lake, path)
        if linked is None:
            rewritten = fitting.schema if isinstance(fitting, Rewrite) else file
            self._write(source, piece, None if copied else rewritten, lake, path)
        # What was copied is the same in the journal, and that is seldom farther away than a store.
        where, at = (self._filesystem, source) if copied and not _is_local(lake) else (lake, path)
        if linked is None:
            info = where.get_file_info(at)
            size, modified_ns = info.size, info.mtime_ns
        else:
            size, modified_ns = piece.bytes, linked
        with where.open_input_file(at) as opened:
            footer = pq.read_metadata(opened)
        return add(name, size, modified_ns // 1_000_000, stats(footer.num_rows, _bounds(footer)))

    def _fit(
        self, folder: str, tier: Tier, schema: TableSchema, columns: Mapping[str, Stored]
    ) -> tuple[pa.Schema, Fit]:
        """Returns the columns of a file of this schema, and how it comes into the table in a folder."""
        known = self._fits.get(folder)
        if known is None or known[1] is not columns or known[0] != schema:
            file = changes_schema(schema) if tier is Tier.CHANGELOG else schema.arrow
            if len(self._fits) >= _MOST_FITS:
                self._fits.clear()
            self._fits[folder] = known = (schema, columns, file, fit(file, columns))
        return known[2], known[3]

    def _look_at(self, source: str, piece: Piece) -> None:
        """Raises Definite if the journal's file is gone, or has another size than when it was sealed."""
        info = self._filesystem.get_file_info(source)
        if info.type is fs.FileType.NotFound:
            raise Definite(f"{source} is missing: restore it from a copy of the journal")
        if info.size != piece.bytes:
            raise Definite(
                f"{source} has {info.size} bytes, and had {piece.bytes} when it was sealed: restore it from a copy of "
                "the journal"
            )

    def _write(
        self, source: str, piece: Piece, schema: pa.Schema | None, lake: fs.FileSystem, path: str
    ) -> None:
        """Makes the file appear in the lake under this name, whatever has it: rewritten with these columns, None as it
        is.

        An object appears when it is complete, and a file when it gets its name.
        """
        beside = path + TEMPORARY if _is_local(lake) else path
        if beside != path:  # what a kill has left there may be a link to the journal's file
            Path(beside).unlink(missing_ok=True)
        if schema is None:
            self._take(source, lake, beside)
        else:
            self._rewrite(source, piece, schema, lake, beside)
        if beside != path:
            try:
                Path(beside).rename(path)
            finally:  # renaming one of two links to the other does nothing
                Path(beside).unlink(missing_ok=True)

    def _linked(self, source: str, lake: fs.FileSystem, path: str) -> int | None:
        """Links the file into the lake under this name. Returns the moment (ns since the epoch).

        Returns None if there can be no link. Raises FileExistsError if something has that name.
        """
        if not _is_local(lake) or not _is_local(self._filesystem):
            return None
        now = time.time_ns()
        try:
            os.utime(source, ns=(now, now))  # before VACUUM can see the link
            os.link(source, path)
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            return None
        return now

    def _take(self, source: str, lake: fs.FileSystem, target: str) -> None:
        """Makes the file appear in the lake as it is, where nothing is yet."""
        if self._linked(source, lake, target) is not None:
            return
        with (
            self._filesystem.open_input_stream(source, compression=None) as read,
            lake.open_output_stream(target, compression=None) as written,
        ):
            while piece := read.read(_PIECE):
                written.write(piece)
                self._advanced()
        _sync_if_local(lake, target)

    def _rewrite(
        self, source: str, piece: Piece, schema: pa.Schema, lake: fs.FileSystem, target: str
    ) -> None:
        """Writes the file's rows with other names, types and forms; `schema` has its columns in their order.

        SOURCE is left out.
        """
        with self._filesystem.open_input_file(source) as opened, pq.ParquetFile(opened) as read:
            kept = [name for name in read.schema_arrow.names if name != SOURCE.name]
            renamed = dict(zip(kept, schema.names, strict=True))
            stated = {renamed[each.column] for each in _bounds(read.metadata)}
            stated = {name for name in stated if has_one_order(schema.field(name).type)}
            writer = pq.ParquetWriter(
                target,
                schema,
                filesystem=lake,
                compression="lz4",
                use_dictionary=False,
                write_statistics=list(stated),
            )
            with writer:
                for batch in read.iter_batches(_ROWS):
                    rows = form_rows(batch.select(kept), piece.schema, piece.segment)
                    writer.write_batch(_cast(rows, schema, source))
                    self._advanced()
        _sync_if_local(lake, target)


def _cast(batch: pa.RecordBatch, schema: pa.Schema, source: str) -> pa.RecordBatch:
    try:
        arrays = [_cast_column(*each) for each in zip(batch.columns, schema.types, strict=True)]
    except pa.ArrowInvalid as error:
        raise InvariantBroken(
            f"a value of {source} isn't one of its column in the lake: {safe_message(error)}"
        ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast_column(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(type_):
        return values.cast(type_)
    parts = [values.field(i).cast(part.type) for i, part in enumerate(type_)]  # their names may differ
    return pa.StructArray.from_arrays(parts, fields=list(type_), mask=values.is_null())


def _bounds(footer: pq.FileMetaData) -> list[Bounds]:
    """Returns the statistics in a footer, row group by row group."""
    found = []
    for row_group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(row_group.column, range(row_group.num_columns)):
            if (said := chunk.statistics) is not None:
                least, greatest = _extent(said) if said.has_min_max else (None, None)
                found.append(Bounds(chunk.path_in_schema, least, greatest, said.null_count))
    return found


def _extent(said: pq.Statistics) -> tuple[Ordered, Ordered]:
    """Returns the least and the greatest value."""
    if said.logical_type.type == "DATE":
        return Day(said.min_raw), Day(said.max_raw)
    return said.min, said.max


def _commit(folder: str, version: int) -> str:
    return f"{folder}/{LOG}/{version:020}.json"


def _sync_with_files(folder: str, version: int, advanced: Callable[[], object]) -> None:
    """Makes a commit durable, and before that the files of rows and deletion vectors that it adds.

    `advanced` is called for each of these: a slow disk may take minutes for what a compaction has written.
    """
    commit = _commit(folder, version)
    if _is_young(commit):
        lines = Path(commit).read_bytes().splitlines()
        added = [Path(folder, unquote(path)) for path in added_paths(lines)]
        if young := [path for path in added if _is_young(path)]:
            for path in young:
                with suppress(FileNotFoundError):  # VACUUM removes files
                    sync(path)
                advanced()
            for inside in sorted({Path(folder), *(path.parent for path in young)}, reverse=True):
                sync(inside)
    sync(commit)


def sync_checkpoint(table: str, version: int) -> None:
    """Makes the checkpoint of a version durable, also one that has parts or files of its own beside the log."""
    with naming_table(table):
        lake, folder = lake_filesystem(table)
        if not _is_local(lake):
            return
        log = Path(folder, LOG)
        beside = [path for path in log.glob("_sidecars/*") if _is_young(path)]
        for path in (*log.glob(f"{version:020}.checkpoint*"), *beside, log / "_last_checkpoint"):
            sync(path)
        for inside in sorted({log, *(path.parent for path in beside)}, reverse=True):
            sync(inside)


def _is_young(path: str | Path) -> bool:
    with suppress(FileNotFoundError):  # it has expired
        return os.lstat(path).st_mtime > time.time() - _WRITTEN_WITHIN_S
    return False


def _is_local(filesystem: fs.FileSystem) -> bool:
    return isinstance(filesystem, fs.LocalFileSystem)


def _sync_if_local(filesystem: fs.FileSystem, path: str) -> None:
    if _is_local(filesystem):
        sync(path)


@contextmanager
def naming_table(table: str) -> Iterator[None]:
    """Names the table in an error of the lake's filesystem, as LakeFull or Transient."""
    try:
        yield
    except OSError as error:
        if error.errno in DISK_FULL:
            raise LakeFull(f"no room was left in {table}") from error
        raise Transient(f"files can't be placed ({error}) in {table}") from error
