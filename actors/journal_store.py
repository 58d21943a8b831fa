"""The journal's files.

    journal.json                        whose journal this is: an id made with it, and the pipeline's name
    lock                                held by the one process that writes
    schemas/0123456789abcdef.json       a version of a table's schema, written before the first entry that names it
    segments/000000000007/*.parquet     a segment's files
    manifest/000000000007.json          its entry, which makes it exist

A segment is written under a name that nobody reads (`….tmp`), made durable, and renamed; last of all its
entry, in the same way. So a crash at any moment leaves either the entry with all that it names, or leftovers
that the next `recover` removes. An entry that's published and can't be read is no crash's doing, and is
refused by name.

Source for what must be synced and when: POSIX `fsync` and `rename`; a new name is durable once its directory
is.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import manifest
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.journal import Entry, File, SegmentTable
from pipeline.manifest import Damaged
from pipeline.schema import TableSchema

_IDENTITY = "journal.json"
_LOCK = "lock"
_MANIFEST = "manifest"
_SCHEMAS = "schemas"
_SEGMENTS = "segments"
_TEMPORARY = ".tmp"
_SEGMENT_NAME = re.compile(r"([0-9]{12})(\.tmp)?")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which journal it is (a random id, so that another one in its place is noticed), and whose."""

    id: str
    pipeline: str


class JournalReader:
    """What a consumer may do with a journal, in the writer's process or another one."""

    def __init__(self, directory: Path) -> None:
        """Open the journal in this directory. Raises Definite where there's none."""
        self.directory = directory
        self.segments = directory / _SEGMENTS
        self.identity = _read_identity(directory)
        self._schemas: dict[str, TableSchema] = {}

    def last_segment(self) -> int:
        """The number of the last segment that no crash can take back, 0 if there's none."""
        manifest_directory = self.directory / _MANIFEST
        # An entry can be seen before its name is durable; a consumer must not get ahead of what survives.
        _sync(manifest_directory)
        return max((int(path.stem) for path in manifest_directory.glob("*.json")), default=0)

    def entries(self, after: int, through: int) -> Iterator[Entry]:
        """The segments with `after` < number <= `through`, in order; raises as `entry` does."""
        for segment in range(after + 1, through + 1):
            yield self.entry(segment)

    def entry(self, segment: int) -> Entry:
        """One segment. Raises Definite where it's damaged or gone."""
        path = self.directory / _MANIFEST / f"{numbered(segment)}.json"
        with _refusing(path):
            text = path.read_text()
            entry = manifest.from_json(text, self._schema)
        if entry.segment != segment:
            raise Definite(f"{path} is the entry of segment {entry.segment}: it was renamed or copied")
        return entry

    def path(self, entry: Entry, file: File) -> Path:
        """Where a segment's file is."""
        return self.segments / numbered(entry.segment) / file.path

    def _schema(self, version: str) -> TableSchema:
        if version not in self._schemas:
            path = self.directory / _SCHEMAS / f"{version}.json"
            with _refusing(path):
                self._schemas[version] = manifest.schema_from_json(path.read_text(), version)
        return self._schemas[version]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a start finds: the last sealed segment, None in a new journal, and the bytes of all segments."""

    last: Entry | None
    bytes: int


class JournalStore(JournalReader):
    """The journal as its one writer has it; `close` gives it up."""

    def __init__(self, directory: Path, lock: IO[str]) -> None:
        super().__init__(directory)
        self._lock = lock
        # Those whose names are durable.
        _sync(directory / _SCHEMAS)
        self._written = {path.stem for path in (directory / _SCHEMAS).glob("*.json")}

    @classmethod
    def open_single_writer(cls, directory: Path, pipeline: str) -> "JournalStore":
        """Open the journal for writing, and make it where there's none.

        Raises Definite while another process writes to it, or where it's another pipeline's.
        """
        with _telling(directory):
            (directory / _MANIFEST).mkdir(parents=True, exist_ok=True)
            (directory / _SCHEMAS).mkdir(exist_ok=True)
            (directory / _SEGMENTS).mkdir(exist_ok=True)
            lock = _locked(directory)
            try:
                _claim(directory, pipeline)
                return cls(directory, lock)
            except BaseException:
                lock.close()
                raise

    def close(self) -> None:
        """Let another process write."""
        self._lock.close()

    def recover(self) -> Recovered:
        """Find the last sealed segment, prove that it's whole, and remove what a crash left behind it.

        Raises Definite where the last segment is damaged, or where segments lie behind it that no crash explains.
        """
        with _telling(self.directory):
            number = self.last_segment()
            last = self.entry(number) if number else None
            if last is not None:
                for file in last.files:
                    _verify(self.path(last, file), file)
            self._remove_leftovers(number)
            size = sum(path.stat().st_size for path in self.segments.glob("*/*"))
            return Recovered(last, size)

    def write(self, segment: int, tables: Sequence[SegmentTable]) -> tuple[File, ...]:
        """Write the files of a segment, durably; it exists once its entry is published."""
        if not tables:
            return ()
        final = self.segments / numbered(segment)
        temporary = final.with_suffix(_TEMPORARY)
        with _telling(self.directory):
            temporary.mkdir()
            files = tuple(_write_table(temporary, table) for table in tables)
            _sync(temporary)
            temporary.rename(final)
            _sync(self.segments)
        return files

    def publish(self, entry: Entry) -> None:
        """Make a segment exist whose files are written."""
        path = self.directory / _MANIFEST / f"{numbered(entry.segment)}.json"
        if path.exists():
            raise InvariantBroken(f"segment {entry.segment} was to be sealed a second time: {path} exists")
        with _telling(self.directory):
            for version in entry.schemas.keys() - self._written:
                text = manifest.schema_to_json(entry.schemas[version])
                _write_whole(self.directory / _SCHEMAS / f"{version}.json", text.encode())
                self._written.add(version)
            _write_whole(path, manifest.to_json(entry).encode())

    def _remove_leftovers(self, last: int) -> None:
        for directory in (_MANIFEST, _SCHEMAS):
            for path in (self.directory / directory).glob(f"*{_TEMPORARY}"):
                path.unlink()
        for path in self.segments.iterdir():
            match = _SEGMENT_NAME.fullmatch(path.name)
            number = int(match[1]) if match else 0
            if number > last + 1:
                raise Definite(
                    f"{path} lies behind segment {last}, the last one of the manifest: entries have been lost from "
                    f"{self.directory / _MANIFEST}; restore them"
                )
            if number > last:
                shutil.rmtree(path)


def _claim(directory: Path, pipeline: str) -> None:
    """Make the journal this pipeline's, or check that it is."""
    if not (directory / _IDENTITY).exists():
        if any((directory / _MANIFEST).glob("*.json")):
            raise Definite(
                f"{directory} holds segments without {_IDENTITY}: restore it from a copy of the journal"
            )
        identity = asdict(Identity(str(uuid.uuid4()), pipeline))
        _write_whole(directory / _IDENTITY, json.dumps(identity).encode())
        _sync(directory.parent)
    owner = _read_identity(directory).pipeline
    if owner != pipeline:
        raise Definite(
            f"{directory} is the journal of pipeline {owner!r}: give {pipeline!r} a directory of its own"
        )


def _locked(directory: Path) -> IO[str]:
    """The lock file, locked until it's closed or the process ends, and naming the holder."""
    lock = (directory / _LOCK).open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read() or "another process"
        lock.close()
        raise Definite(f"{directory} is being written to by {holder}: stop that one first") from error
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}")
    lock.flush()
    return lock


def _write_table(directory: Path, table: SegmentTable) -> File:
    buffer = pa.BufferOutputStream()
    pq.write_table(table.rows, buffer, compression="lz4", use_dictionary=False)
    content = buffer.getvalue()
    version = table.schema.version
    path = f"{version}.{table.kind}.parquet"
    _write_durably(directory / path, content)
    digest = hashlib.sha256(content).hexdigest()
    return File(path, table.schema.table, version, table.kind, table.rows.num_rows, content.size, digest)


def _verify(path: Path, file: File) -> None:
    with _refusing(path):
        if hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
            raise Damaged(
                "its checksum isn't the one that it was sealed with; restore it from a copy of the journal"
            )


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that under its name there's all of it or nothing, durably."""
    temporary = path.with_name(path.name + _TEMPORARY)
    _write_durably(temporary, content)
    temporary.rename(path)
    _sync(path.parent)


def _write_durably(path: Path, content: bytes | pa.Buffer) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Name the file of the journal that's missing or damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise Definite(f"{path} is missing: restore it from a copy of the journal") from error
    except UnicodeDecodeError as error:
        raise Definite(f"{path} isn't text: restore it from a copy of the journal") from error
    except Damaged as error:
        raise Definite(f"{path} can't be used: {error}") from error


@contextmanager
def _telling(directory: Path) -> Iterator[None]:
    """Say in our terms what the filesystem refused."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
                raise Transient(
                    f"no room was left for the journal in {directory} ({error.strerror})"
                ) from error
            case errno.EACCES | errno.EPERM | errno.EROFS | errno.ENOTDIR:
                raise Definite(
                    f"the journal in {directory} can't be written: {error}; see to its permissions"
                ) from error
            case _:
                raise Transient(f"writing the journal in {directory} failed: {error}") from error


def numbered(segment: int) -> str:
    """The name of a segment's folder and of its entry: names sort as the numbers do."""
    return f"{segment:012d}"


def _read_identity(directory: Path) -> Identity:
    path = directory / _IDENTITY
    try:
        value = json.loads(path.read_text())
        return Identity(value["id"], value["pipeline"])
    except FileNotFoundError as error:
        raise Definite(f"{directory} holds no journal: {_IDENTITY} is missing") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Definite(f"{path} is damaged: restore it from a copy of the journal") from error


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
