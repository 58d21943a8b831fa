"""The journal's files: the operations of a consumer and of the one writer.

    claims/, consumers/, first/         who writes, who reads, where it begins (`writer_epochs`, `consumers`)
    lock                                on a local disk: held by the one process that writes
    connect-session                     the last session at a Spark Connect server (`actors.lake.spark.spark_connect`)
    schemas/0123456789abcdef.json       a version of a table's schema, written before the first entry that names it
    schemas/0123…-000000000007-EPOCH.json   the same in an object store, and the segment with which it was written
    segments/000000000007-EPOCH/*       a segment's files
    manifest/000000000007-EPOCH.json    its entry, which makes it exist

A segment's files come first, some of them long before the others if a transaction is large. Then they are made durable,
and last of all its entry is put (`files`). So a crash at any moment leaves either the entry with all that it names, or
leftovers that the next `recover` removes. No crash leaves a published entry that can't be read, so such an entry is
refused by name. A published segment counts once no other writer has taken an epoch of the journal
(`pipeline.journal.writer_epochs`). So two processes can't both continue, on any filesystem. Where it can be locked, the
second one doesn't even begin.

To start, the manifest's names are listed and the last entry is read. The number of earlier entries hardly matters.
"""

import errno
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import IO, Final, TypeVar

from actors.journal import segment_file, writer_epochs
from actors.journal.consumers import Consumer, ConsumerDamaged, Consumers
from actors.journal.files import Files, LocalFiles, NoRoom, journal_errors, open_files, wait_for_all
from actors.journal.recent_entries import RecentEntries
from actors.journal.writer_epochs import FIRST, JSON_SUFFIX, MANIFEST
from actors.runtime.filesystem import TEMPORARY
from actors.runtime.state_folder import local_folder
from pipeline.config.settings import JournalSettings
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.journal import manifest
from pipeline.journal import writer_epochs as epochs
from pipeline.journal.consumer_names import CONSUMERS
from pipeline.journal.entry import Entry, File
from pipeline.journal.manifest import DamagedManifest
from pipeline.journal.missing_generations import scans_through
from pipeline.journal.retention import MOST_AT_ONCE, RetainedSegment, removable
from pipeline.journal.segment import SegmentTable
from pipeline.journal.writer_epochs import JournalView
from pipeline.schema.table_schema import TableSchema

_Of = TypeVar("_Of")

_SCHEMAS = "schemas"
_SEGMENTS = "segments"
# For so long (s) retention reads entries, removes segments, and removes schemas, each. The rest has its turn later. In
# an object store a segment takes several requests, and those of MOST_AT_ONCE more time than the writer may be silent.
_RETAINS_FOR_S = 2.0
_FOLDERS = (MANIFEST, _SCHEMAS, _SEGMENTS, writer_epochs.EPOCHS, CONSUMERS, FIRST)


@dataclass(frozen=True, slots=True)
class Identity:
    """Which journal it is (a random id, so that another one in its place is noticed), and whose."""

    id: str
    pipeline: str


class UnreadableFile(Transient):
    """The disk doesn't give a file back. It may again: a filesystem of a network fails so for a while."""


class JournalReader:
    """What a consumer may do with a journal, in the writer's process or another one.

    `files.filesystem` is where its files are, and `file` returns a path in it. Raises Transient or Definite if the
    storage refuses.
    """

    def __init__(self, location: str | Path, recent: RecentEntries | None = None) -> None:
        """Open the journal at this path or URI; `recent`: what its writer keeps. Raises Definite where there's none."""
        self.recent: Final = recent or RecentEntries()
        self._location = str(location)
        self.files: Files = open_files(location)
        with journal_errors(self.files.shown):
            self._view = writer_epochs.read_view(self.files)
        self.identity = Identity(self._view.record.journal, self._view.record.pipeline)
        self.consumers = Consumers(self.files)
        # Those of the entry that was read last: nearly always the next one names the same.
        self._schemas: dict[str, TableSchema] = {}
        # The file of each version, if its name has more than that.
        self._schema_files: dict[str, str] = {}

    @property
    def local_folder(self) -> Path:
        """Returns the folder for data of this machine only (`actors.runtime.state_folder`)."""
        return local_folder(self._location, self.identity.pipeline)

    @property
    def directory(self) -> Path:
        """The directory of a journal that's on a local disk."""
        assert isinstance(self.files, LocalFiles), f"{self.files.shown} isn't on a local disk"
        return self.files.directory

    def last_segment(self) -> int:
        """The number of the last segment that no crash can take back, 0 if there's none."""
        with journal_errors(self.files.shown):
            # An entry can be seen before its name is durable; a consumer must not get ahead of what survives.
            self.files.make_durable(MANIFEST)
            view = self._view = writer_epochs.read_view(self.files)
        return view.last

    def last_entry(self) -> Entry | None:
        """The last segment that no crash can take back. Raises as `entry` does."""
        last = self.last_segment()
        return self.entry(last) if last else None

    def forget_consumer(self, name: str) -> None:
        """Keeps nothing for a consumer any more. Raises Definite where there's no such one.

        If the lake's file is damaged, the lake counts as without each scan that the journal knows of. It must not be
        ahead of the journal's end.
        """
        try:
            self.consumers.forget(name)
        except ConsumerDamaged:
            last = self.last_entry()
            segment = 0 if last is None else last.segment
            lost = {} if last is None else scans_through(last.checkpoint.scanned, last.checkpoint)
            may_be = Consumer(segment, 0, None, unchecked_end=segment, lost=lost)
            self.consumers.forget_damaged(name, may_be)

    def entries(self, after: int, through: int) -> Iterator[Entry]:
        """The segments with `after` < number <= `through`, in order; raises as `entry` does."""
        for segment in range(after + 1, through + 1):
            yield self.entry(segment)

    def entry(self, segment: int) -> Entry:
        """One segment. Raises Definite where it's damaged or gone."""
        return self._read_entry(segment)[0]

    def _read_entry(self, segment: int) -> tuple[Entry, int]:
        """Returns a segment, and the bytes of its entry's file."""
        if (recent := self.recent.find(self._name(segment))) is not None:
            return recent
        with journal_errors(self.files.shown):
            name = self._entry_name(segment)
            with self._refusing(name):
                text = self.files.read(name)
                entry = manifest.from_json(text.decode(), self.identity.id, self._schema)
                self._schemas = dict(entry.schemas)
        if entry.segment != segment:
            raise Definite(
                f"{self.files.shown}/{name} is the entry of segment {entry.segment}: it was renamed or copied"
            )
        return entry, len(text)

    def file(self, segment: int, name: str) -> str:
        """The path of a segment's file within `files.filesystem`."""
        return self.files.path(f"{self._folder(segment)}/{name}")

    def is_whole(self, segment: int, file: File) -> bool:
        """Returns whether a segment's file is there as it was sealed. Raises Transient if the storage refuses."""
        with journal_errors(self.files.shown):
            try:
                content = self.files.read(f"{self._folder(segment)}/{file.path}")
            except FileNotFoundError:
                return False
        return hashlib.sha256(content).hexdigest() == file.sha256

    def path(self, entry: Entry, file: File) -> Path:
        """Where a segment's file is, in a journal on a local disk."""
        return self.directory / self._folder(entry.segment) / file.path

    def _folder(self, segment: int) -> str:
        return f"{_SEGMENTS}/{self._name(segment)}"

    def _entry_name(self, segment: int) -> str:
        return f"{MANIFEST}/{self._name(segment)}{JSON_SUFFIX}"

    def _name(self, segment: int) -> str:
        """Returns the name of a sealed segment's folder and of its entry.

        A segment that came after we last looked may be of another epoch. What has the former epoch's name doesn't count
        then, if a store has put it late (`pipeline.journal.writer_epochs`).
        """
        view = self._view
        if segment > view.last:
            with journal_errors(self.files.shown):
                succeeded = writer_epochs.is_succeeded(self.files, view.epoch)
            if succeeded:
                self.last_segment()
            else:
                self._view = replace(view, last=segment)
        return self._view.name(segment)

    def schemas(self) -> Iterator[TableSchema]:
        """Every version of a table's columns that a segment may name."""
        with journal_errors(self.files.shown):
            self._schema_files = _newest(self._list_schemas())
            for version in sorted(self._schema_files):
                yield self._schema(version)

    def _schema(self, version: str) -> TableSchema:
        schema = self._schemas.get(version)
        if schema is None:
            name = self._schema_files.get(version, version)
            try:
                text = self.files.read(_schema_path(name))
            except FileNotFoundError:  # it has another name, or another one by now
                self._schema_files = _newest(self._list_schemas())
                name = self._schema_files.get(version, version)
                with self._refusing(_schema_path(name)):
                    text = self.files.read(_schema_path(name))
            with self._refusing(_schema_path(name)):
                schema = manifest.schema_from_json(text.decode(), version)
            self._schemas[version] = schema
        return schema

    def _list_schemas(self) -> list[str]:
        """Returns the files of schemas, without their suffix."""
        names = self.files.listed(_SCHEMAS)
        return [name.removesuffix(JSON_SUFFIX) for name in names if name.endswith(JSON_SUFFIX)]

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        """Name the file of the journal that's missing or damaged."""
        path = f"{self.files.shown}/{name}"
        try:
            yield
        except FileNotFoundError as error:
            raise Definite(f"{path} is missing: restore it from a copy of the journal") from error
        except UnicodeDecodeError as error:
            raise Definite(f"{path} isn't text: restore it from a copy of the journal") from error
        except DamagedManifest as error:
            raise Definite(f"{path} can't be used: {error}") from error
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise UnreadableFile(
                f"{path} couldn't be read ({error.strerror}); if that stays so, see to the disk, and restore the file "
                "from a copy of the journal"
            ) from error


@dataclass(frozen=True, slots=True)
class Removed:
    """What retention has removed: so many segments, and the bytes of their files and entries."""

    segments: int
    bytes: int


class JournalStore(JournalReader):
    """The journal for its one writer; `close` releases it. `bytes` are those of all segments' files and entries.

    An entry has the whole checkpoint. With many tables it may be larger than its segment's files.
    """

    def __init__(self, location: str | Path, lock: IO[str] | None, own: JournalView) -> None:
        super().__init__(location)
        self._lock = lock
        self._own = own
        # The epochs that we have put, or have tried to put.
        self._tried = {own.epoch}
        # Whether this epoch may have written already.
        self._used = False
        self._oldest = 1
        self.bytes = 0
        # After a restart rows are searched after this SCN; None if there are none.
        self._unread: int | None = None
        # The file of each version of a schema that is sure to stay, and the last segment that may need a file.
        self._there: dict[str, str]
        self._needed: dict[str, int]
        self._take_schemas(None)
        # The segment that each consumer reported, as of the last read.
        self.reported_segments: dict[str, int] = {}

    @classmethod
    def open_single_writer(cls, location: str | Path, pipeline: str) -> "JournalStore":
        """Open the journal for writing, and make it where there's none.

        Raises Definite while another process holds its lock, or where it's another pipeline's, and Fenced where
        another process takes an epoch at the same time.
        """
        files = open_files(location)
        with journal_errors(files.shown):
            files.make(_FOLDERS)
            lock = files.lock()
            try:
                return cls(location, lock, _take_epoch(files, pipeline, set()))
            except BaseException:
                if lock is not None:
                    lock.close()
                raise

    def leave_unchecked(self, *consumers: str) -> None:
        """Has these consumers check that their output isn't ahead of the journal, before a segment is sealed."""
        with journal_errors(self.files.shown):
            for consumer in consumers:
                self.consumers.leave_unchecked(consumer, self._own.last)

    def close(self) -> None:
        """Let another process write."""
        if self._lock is not None:
            self._lock.close()

    def recover(self) -> Entry | None:
        """Finds the last sealed segment, proves that it's complete, and removes what a crash left after it.

        Returns that segment's entry, None in a new journal.

        A store may still carry out what failed before. So each recovery after the first has an epoch of its own there.
        Raises Definite if the last segment is damaged, or if there are later segments that no crash explains. Raises
        Fenced if another process has taken an epoch of the journal.
        """
        self.recent.clear()
        with journal_errors(self.files.shown):
            self.files.make_durable(MANIFEST)
            writer_epochs.check_epoch(self.files, self._own.epoch, self._tried)
            if self._used and self.files.changes_late:
                self._own = _take_epoch(self.files, self.identity.pipeline, self._tried)
            self._used = True
            entries = writer_epochs.list_entries(self.files)
            self._own = self._view = own = epochs.valid_segments(
                self._own.epoch, self._own.record, entries, self.consumers.first()
            )
            self._oldest = self._begins(own, {epochs.entry_name(*entry) for entry in entries})
            last = self.entry(own.last) if own.last else None
            if last is not None:
                self._unread = min(last.checkpoint.unread.values(), default=None)
                for file in last.files:
                    self._verify(f"{self._folder(own.last)}/{file.path}", file)
            self._take_schemas(last)
            self.bytes = self._remove_leftovers(own, entries)
            return last

    def write(self, segment: int, tables: Sequence[SegmentTable], first: int = 0) -> tuple[File, ...]:
        """Writes files of a segment durably, `first` being the number of those that it has; they count once it's
        published."""
        with journal_errors(self.files.shown):
            written = tuple(
                self._write_table(segment, place, table) for place, table in enumerate(tables, first)
            )
            self.files.sync(f"{_SEGMENTS}/{self._own.name(segment)}", [file.path for file in written])
        return written

    def publish(self, entry: Entry) -> None:
        """Make a segment exist whose files are written. Raises Fenced where it doesn't count for us."""
        own, segment = self._own, entry.segment
        if segment != own.last + 1:
            raise InvariantBroken(f"segment {segment} was to be sealed, and the last one is {own.last}")
        with journal_errors(self.files.shown):
            self.files.finish_folder(
                f"{_SEGMENTS}/{own.name(segment)}", frozenset(file.path for file in entry.files)
            )
            self._put_schemas(
                segment, [entry.schemas[version] for version in entry.schemas.keys() - self._there.keys()]
            )
            self._needed |= {self._there[version]: segment for version in entry.schemas}
            text = manifest.to_json(entry, self.identity.id).encode()
            self.files.put(f"{MANIFEST}/{own.name(segment)}{JSON_SUFFIX}", text)
            writer_epochs.check_epoch(self.files, own.epoch)
        self._own = self._view = replace(own, last=segment)
        self.recent.keep(own.name(segment), entry, len(text))
        self._unread = min(entry.checkpoint.unread.values(), default=None)
        self.bytes += sum(file.bytes for file in entry.files) + len(text)

    def _put_schemas(self, segment: int, schemas: Sequence[TableSchema]) -> None:
        """Writes schemas durably: those of all tables at a first start."""
        suffix = f"-{self._own.name(segment)}" if self.files.changes_late else ""

        def put(schema: TableSchema) -> None:
            text = manifest.schema_to_json(schema)
            self.files.put(_schema_path(f"{schema.version}{suffix}"), text.encode())

        wait_for_all(put, schemas)
        self._there |= {schema.version: f"{schema.version}{suffix}" for schema in schemas}

    def _take_schemas(self, last: Entry | None) -> None:
        """Finds out which schemas are there, where this is the last segment.

        Where removals may come late, a writer before may have tried to remove what that segment doesn't name
        (`pipeline.journal.writer_epochs`).
        """
        self.files.make_durable(_SCHEMAS)
        names = self._list_schemas()
        self._there, self._needed = _newest(names), dict.fromkeys(names, self._own.last)
        if self.files.changes_late:
            named = last.schemas if last is not None else {}
            self._there = {version: name for version, name in self._there.items() if version in named}

    def retain(self, settings: JournalSettings, now: int, *, full: bool = False) -> Removed:
        """Remove a few of the segments that may go, if there are any; `now` in µs since the epoch.

        `full`: whether the filesystem has no room. Then all may go that no consumer needs.
        """
        with journal_errors(self.files.shown):
            last, first = self._own.last, self.consumers.first()
            oldest = (self._retained(segment) for segment in range(self._oldest, last))
            at, unread, size = self._consumers_at(), self._unread, self.bytes
            may_go = removable(oldest, first, last, at, unread, size, settings, now, full=full)
            going = tuple(_taken_soon(may_go))
            if not going:
                return Removed(0, 0)
            writer_epochs.check_epoch(self.files, self._own.epoch)
            if going[-1].segment >= first:
                self.consumers.begin_at(going[-1].segment + 1)
            # A consumer may have come that needs some of them (`pipeline.journal.retention`).
            least = min(self._consumers_at(), default=last)
            gone = []
            for kept in _taken_soon(kept for kept in going if kept.segment < least):
                self.recent.forget(self._own.name(kept.segment))
                self.files.remove_folder(self._folder(kept.segment))
                self.files.remove(self._entry_name(kept.segment))
                self._oldest = kept.segment + 1
                gone.append(kept)
            self._forget_schemas()
        removed = Removed(len(gone), sum(kept.bytes for kept in gone))
        self.bytes -= removed.bytes
        return removed

    def kept_for(self) -> str | None:
        """The consumer that the oldest segment is kept for, if it's for one."""
        return self.consumers.slowest_before(self._oldest)

    def _consumers_at(self) -> list[int]:
        self.reported_segments = {name: consumer.segment for name, consumer in self.consumers.all().items()}
        return list(self.reported_segments.values())

    def _retained(self, segment: int) -> RetainedSegment:
        """Returns what retention goes by.

        A segment whose entry can't be read is no younger than the next one, and has no later SCN. So it goes with that
        one. Whoever needs it reports the damage.
        """
        readable, entry, size = self._first_readable(segment)
        size += sum(file.bytes for file in entry.files)
        size = size if readable == segment else self._stored_bytes(segment)
        return RetainedSegment(segment, size, entry.last_scn, entry.sealed_at)

    def _first_readable(self, segment: int) -> tuple[int, Entry, int]:
        """Returns the first segment from this one on whose entry can be read, and what `_read_entry` does of it."""
        for readable in range(segment, self._own.last):
            with suppress(Definite, UnreadableFile):
                return readable, *self._read_entry(readable)
        return self._own.last, *self._read_entry(self._own.last)  # capture needs its checkpoint

    def _stored_bytes(self, segment: int) -> int:
        """Returns the bytes that are there of a segment's files and of its entry."""
        files, entry = dict[str, int](), b""
        with suppress(FileNotFoundError):
            files = self.files.sizes(self._folder(segment))
        name = self._entry_name(segment)
        with suppress(Definite, UnreadableFile), self._refusing(name):
            entry = self.files.read(name)
        return sum(files.values()) + len(entry)

    def _forget_schemas(self) -> None:
        """Remove a few of the schemas that no segment names any more, if there are any."""
        needless = (name for name, segment in self._needed.items() if segment < self._oldest)
        for name in _taken_soon(list(islice(needless, MOST_AT_ONCE))):
            del self._needed[name]
            if self._there.get(version := name.partition("-")[0]) == name:
                del self._there[version]
            self.files.remove(_schema_path(name))

    def _begins(self, own: JournalView, names: set[str]) -> int:
        """The oldest segment that there is; all from there on are. Raises Definite where one is missing."""
        first = oldest = self.consumers.first()
        if own.last == 0 and first == 1:
            return first
        for segment in range(first, max(first, own.last) + 1):
            if own.name(segment) not in names:
                raise Definite(
                    f"{self.files.shown}/{self._entry_name(segment)} is missing: restore it from a copy of the journal"
                )
        while oldest > 1 and own.name(oldest - 1) in names:
            oldest -= 1
        return oldest

    def _remove_leftovers(self, own: JournalView, entries: Sequence[tuple[int, str]]) -> int:
        """Remove what isn't of a segment that counts; the bytes of those that do."""
        # Not among consumers, which may be writing right now: the next write replaces an incomplete one.
        for folder in (MANIFEST, _SCHEMAS, writer_epochs.EPOCHS, FIRST):
            for name in self.files.listed(folder):
                if name.endswith(TEMPORARY):
                    self.files.remove(f"{folder}/{name}")
        sizes = self.files.sizes(_SEGMENTS)
        for name in list(sizes):
            found = epochs.segment_of(name.removesuffix(TEMPORARY))
            if found is None:
                continue
            if found[0] > own.last + 1:
                raise Definite(
                    f"{self.files.shown}/{_SEGMENTS}/{name} comes after segment {own.last}, the last one of the "
                    f"manifest: entries have been lost from {self.files.shown}/{MANIFEST}; restore them"
                )
            if name.endswith(TEMPORARY) or not _counts(own, found):
                self.files.remove_folder(f"{_SEGMENTS}/{name.removesuffix(TEMPORARY)}")
                del sizes[name]
        for entry in entries:
            if not _counts(own, entry):
                self.files.remove(f"{MANIFEST}/{epochs.entry_name(*entry)}{JSON_SUFFIX}")
        return sum(sizes.values()) + sum(self.files.sizes(MANIFEST).values())

    def _verify(self, name: str, file: File) -> None:
        with self._refusing(name):
            if hashlib.sha256(self.files.read(name)).hexdigest() != file.sha256:
                raise DamagedManifest(
                    "its checksum isn't the one that it was sealed with; restore it from a copy of the journal"
                )

    def _write_table(self, segment: int, place: int, table: SegmentTable) -> File:
        version = table.schema.version
        path = f"{place:04}.{version}.{table.kind}.parquet"
        with self.files.written(f"{_SEGMENTS}/{self._own.name(segment)}", path) as file:
            size, digest = segment_file.write_parquet(file, table)
        return File(
            path=path,
            table=table.schema.table,
            version=version,
            kind=table.kind,
            rows=table.rows.num_rows,
            bytes=size,
            sha256=digest,
            absent=table.absent,
        )


def _taken_soon(each: Iterable[_Of]) -> Iterator[_Of]:
    """Yields the first one, and further ones until the time is up. The rest has its turn later."""
    until = monotonic() + _RETAINS_FOR_S
    for one in each:
        yield one
        if monotonic() >= until:
            return


def _newest(schemas: Iterable[str]) -> dict[str, str]:
    """Returns the file of each version that was written last."""
    return {name.partition("-")[0]: name for name in sorted(schemas)}


def _schema_path(name: str) -> str:
    return f"{_SCHEMAS}/{name}{JSON_SUFFIX}"


def _counts(own: JournalView, found: tuple[int, str]) -> bool:
    return found[0] <= own.last and own.name(found[0]) == epochs.entry_name(*found)


def _take_epoch(files: Files, pipeline: str, tried: set[str]) -> JournalView:
    """Take an epoch of the journal, by the journal's reserve where there's no other room."""
    try:
        with journal_errors(files.shown):
            return writer_epochs.take_epoch(files, pipeline, tried)
    except NoRoom:
        files.release()
        return writer_epochs.take_epoch(files, pipeline, tried)
