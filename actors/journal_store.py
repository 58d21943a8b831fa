"""The journal's files.

    journal.json                        whose journal this is: an id made with it, and the pipeline's name
    lock                                held by the one process that writes
    schemas/0123456789abcdef.json       a version of a table's schema, written before the first entry that names it
    segments/000000000007/*.parquet     a segment's files
    manifest/000000000007.json          its entry, which makes it exist

A segment's files are written into a folder that nobody reads (`….tmp`), some of them long before the others
where a transaction is large; the whole is made durable, and renamed; last of all its entry, in the same way. So
a crash at any moment leaves either the entry with all that it names, or leftovers that the next `recover`
removes. An entry that's published and can't be read is no crash's doing, and is
refused by name.

Source for what must be synced and when: POSIX `fsync` and `rename`; a new name is durable once its directory
is.
"""

import errno
import fcntl
import hashlib
import io
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
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import manifest
from pipeline.errors import Definite, InvariantBroken, Transient
from pipeline.journal import Entry, File, SegmentTable
from pipeline.manifest import Damaged
from pipeline.schema import TableSchema

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_IDENTITY = "journal.json"
_LOCK = "lock"
_MANIFEST = "manifest"
_SCHEMAS = "schemas"
_SEGMENTS = "segments"
_TEMPORARY = ".tmp"
# A page of a Parquet file (bytes), as pyarrow makes them; a row can't be divided.
_PAGE = 1 << 20
# What's written at once (bytes): each time the thread waits for the interpreter, which others may be busy with.
_PIECE = 4 << 20
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

    def write(self, segment: int, tables: Sequence[SegmentTable], first: int = 0) -> tuple[File, ...]:
        """Write files of a segment, `first` being the number of those that it has; they count once it's published."""
        if not tables:
            return ()
        temporary = self._temporary(segment)
        with _telling(self.directory):
            if first == 0:
                temporary.mkdir()
            return tuple(_write_table(temporary, place, table) for place, table in enumerate(tables, first))

    def publish(self, entry: Entry) -> None:
        """Make a segment exist whose files are written."""
        path = self.directory / _MANIFEST / f"{numbered(entry.segment)}.json"
        if path.exists():
            raise InvariantBroken(f"segment {entry.segment} was to be sealed a second time: {path} exists")
        with _telling(self.directory):
            self._keep(entry)
            for version in entry.schemas.keys() - self._written:
                text = manifest.schema_to_json(entry.schemas[version])
                _write_whole(self.directory / _SCHEMAS / f"{version}.json", text.encode())
                self._written.add(version)
            _write_whole(path, manifest.to_json(entry).encode())

    def _keep(self, entry: Entry) -> None:
        """Give the files that the entry names their place; those that it doesn't name are removed."""
        temporary, named = self._temporary(entry.segment), {file.path for file in entry.files}
        if not named and not temporary.exists():
            return
        for path in temporary.iterdir():
            if path.name not in named:
                path.unlink()
        if not named:
            temporary.rmdir()
            return
        _sync(temporary)
        temporary.rename(self.segments / numbered(entry.segment))
        _sync(self.segments)

    def _temporary(self, segment: int) -> Path:
        return self.segments / f"{numbered(segment)}{_TEMPORARY}"

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


def _write_table(directory: Path, place: int, table: SegmentTable) -> File:
    version = table.schema.version
    path = f"{place:04}.{version}.{table.kind}.parquet"
    with (directory / path).open("wb") as file:
        digesting = _Digesting(file)
        with pa.BufferedOutputStream(pa.PythonFile(digesting, mode="w"), _PIECE) as stream:
            pq.write_table(
                table.rows,
                stream,
                compression="lz4",
                use_dictionary=False,
                write_statistics=False,  # whoever reads it reads all of it
                write_batch_size=_batch(table.rows),
            )
        file.flush()
        os.fsync(file.fileno())
    return File(
        path=path,
        table=table.schema.table,
        version=version,
        kind=table.kind,
        rows=table.rows.num_rows,
        bytes=digesting.tell(),
        sha256=digesting.hexdigest(),
        absent=table.absent,
    )


def _batch(rows: pa.Table) -> int:
    """How many rows are written before it's looked whether they fill a page: with large ones, one at a time."""
    row_bytes = int(rows.nbytes // rows.num_rows)
    return max(1, min(_PAGE // max(1, row_bytes), 1024))


class _Digesting(io.RawIOBase):
    """A file that's written from front to back, digested on the way, so that none of it has to stay in memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._bytes = 0

    def writable(self) -> bool:
        """So it is."""
        return True

    def tell(self) -> int:
        """How many bytes are written."""
        return self._bytes

    def write(self, content: "ReadableBuffer") -> int:
        """Write all of it."""
        self._digest.update(content)
        size = self._file.write(content)
        self._bytes += size
        return size

    def hexdigest(self) -> str:
        """The SHA-256 of what's written."""
        return self._digest.hexdigest()


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
