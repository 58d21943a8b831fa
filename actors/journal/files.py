"""The storage of the journal's files: a local disk, or any other filesystem that pyarrow reaches, with one interface.

Names are relative to the journal, with `/` between folders. The journal relies on two guarantees of both. `put` makes a
file appear completely, and no crash reverts it after it has returned. A listing shows all that was put before it. They
differ in how a file becomes durable and appears at once. On a disk it's written beside its place, synced and renamed.
An object store shows an object when it's complete, and has no rename.

Source for what must be synced and when: POSIX `fsync` and `rename`; a new name is durable once its directory is. That a
put is atomic and a listing consistent: Amazon S3 ("Amazon S3 data consistency model") and Google Cloud Storage
("Consistency").
"""

import errno
import fcntl
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from pyarrow import fs

from actors.journal.served_files import ServedFiles
from actors.runtime.filesystem import (
    DISK_FULL,
    TEMPORARY,
    filesystem_at,
    list_folder,
    put_file,
    sync,
    unsynced_file,
)
from pipeline.errors import Definite, Transient

Of = TypeVar("Of")

_LOCK = "lock"
_RESERVE = "reserve"
# Bytes for some hundred of the small files that consumers and retention write to make progress.
_RESERVED = 1 << 20
# From so many files on they are written or synced at the same time, so many at once.
_MANY = 8


class NoRoom(Transient):
    """The journal's filesystem has no room left, or the quota of its user hasn't."""


class Writable(Protocol):
    """A file that's written from front to back."""

    def write(self, content: Any, /) -> object:
        """Write all of it."""


class Files(Protocol):
    """A journal's files; `shown` is where they are, as messages say it. Raises OSError where the place refuses."""

    shown: str
    filesystem: fs.FileSystem
    # Whether a file may still appear, or go, after the call for that has failed.
    changes_late: bool

    def path(self, name: str) -> str:
        """The path of a file within `filesystem`."""

    def make(self, folders: Sequence[str]) -> None:
        """Make the place of a new journal with these folders, where it isn't there."""

    def lock(self) -> IO[str] | None:
        """Keep others from writing, as far as the place can; until it's closed. Raises Definite where one holds it."""

    def read(self, name: str) -> bytes:
        """All of a file. Raises FileNotFoundError."""

    def listed(self, folder: str) -> list[str]:
        """The names in a folder, none where there's no such folder."""

    def make_durable(self, folder: str) -> None:
        """Makes the names in the folder durable."""

    def put(self, name: str, content: bytes) -> None:
        """Writes a file that appears completely, durably, in place of the old one."""

    def written(self, folder: str, name: str) -> AbstractContextManager[Writable]:
        """A new file of a folder that isn't kept yet; to be found once it's kept."""

    def sync(self, folder: str, names: Sequence[str]) -> None:
        """Makes files durable that are written in a folder that isn't kept yet."""

    def finish_folder(self, folder: str, names: frozenset[str]) -> None:
        """Make a folder durable whose files are written; those that aren't named are removed."""

    def rename(self, name: str, other: str) -> None:
        """Gives a file another name, durably, in place of what has that name. On a disk that needs no room."""

    def remove(self, name: str) -> None:
        """Remove a file, if it's there."""

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that's in it, kept or not, if it's there."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of each file in a folder, and in each folder of it."""

    def reserve(self) -> bool:
        """Keep a little room for when the place is full; whether there's room for it."""

    def release(self) -> None:
        """Give that room up."""


class LocalFiles:
    """On a disk of this machine, or one that looks like it."""

    changes_late = False

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shown = str(directory)
        self.filesystem = fs.LocalFileSystem()

    def path(self, name: str) -> str:
        """The path of a file."""
        return str(self.directory / name)

    def make(self, folders: Sequence[str]) -> None:
        """Make the directories, durably."""
        above = self.directory.parents
        new = [folder for folder in above if not folder.exists()]
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise Definite(
                f"journal.path: {error.filename} is no folder; give another path, or move that file away"
            ) from error
        for parent in above[: len(new) + 1]:  # each has the name of the one below it
            sync(parent)
        for folder in folders:
            (self.directory / folder).mkdir(exist_ok=True)
        sync(self.directory)

    def lock(self) -> IO[str]:
        """The lock file, locked until it's closed or the process ends, and naming the holder."""
        lock = (self.directory / _LOCK).open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read() or "another process"
            lock.close()
            raise Definite(f"{self.shown} is being written to by {holder}: stop that one first") from error
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {socket.gethostname()}")
        lock.flush()
        return lock

    def read(self, name: str) -> bytes:
        """All of a file."""
        return (self.directory / name).read_bytes()

    def listed(self, folder: str) -> list[str]:
        """The names in a folder; what a crash has left half-written is among them."""
        try:
            with os.scandir(self.directory / folder) as entries:
                return [entry.name for entry in entries]
        except FileNotFoundError:
            return []

    def make_durable(self, folder: str) -> None:
        """Syncs the folder, if it's there: a name in it can be seen before it's durable."""
        if (self.directory / folder).exists():
            sync(self.directory / folder)

    def put(self, name: str, content: bytes) -> None:
        """Write it beside its place, and rename it."""
        put_file(self.directory / name, content)

    @contextmanager
    def written(self, folder: str, name: str) -> Iterator[Writable]:
        """A file in a directory that no process reads."""
        temporary = self._temporary(folder)
        if not temporary.exists():
            temporary.mkdir()
        with unsynced_file(temporary / name) as file:
            yield file

    def sync(self, folder: str, names: Sequence[str]) -> None:
        """Syncs them; many at the same time, because the filesystem commits its own journal once for all of those."""
        paths = [self._temporary(folder) / name for name in names]
        try:
            wait_for_all(sync, paths)
        except OSError:  # they are written again, and take no room meanwhile
            for path in paths:
                path.unlink(missing_ok=True)
            raise

    def finish_folder(self, folder: str, names: frozenset[str]) -> None:
        """Give the directory its name, if it hasn't got it already."""
        temporary, path = self._temporary(folder), self.directory / folder
        if path.exists():
            sync(path.parent)
            return
        for there in self.listed(folder + TEMPORARY):
            if there not in names:
                (temporary / there).unlink()
        if names:
            sync(temporary)
            temporary.rename(path)
            sync(path.parent)
        elif temporary.exists():
            temporary.rmdir()

    def rename(self, name: str, other: str) -> None:
        """Renames it."""
        path = (self.directory / name).rename(self.directory / other)
        sync(path.parent)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.directory / name).unlink(missing_ok=True)

    def remove_folder(self, folder: str) -> None:
        """Remove a directory."""
        for path in (self.directory / folder, self._temporary(folder)):
            if path.exists():
                shutil.rmtree(path)

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of each file in a directory, and in each directory of it."""
        with os.scandir(self.directory / folder) as entries:
            return {
                entry.name: _size(entry.path) if entry.is_dir() else entry.stat().st_size for entry in entries
            }

    def reserve(self) -> bool:
        """Makes a file that takes room and holds nothing. Returns whether there was room for it."""
        path = self.directory / _RESERVE
        try:
            with path.open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVED)
        except OSError as error:
            path.unlink(missing_ok=True)
            if error.errno not in DISK_FULL:
                raise
            return False
        return True

    def release(self) -> None:
        """Removes the file that takes room."""
        (self.directory / _RESERVE).unlink(missing_ok=True)

    def _temporary(self, folder: str) -> Path:
        return self.directory / (folder + TEMPORARY)


class RemoteFiles:
    """In a store that shows a file when it's complete, and has no folders but in the names of files.

    A request may reach it whose answer doesn't come in time, and it may carry it out when we have long given up.
    """

    changes_late = True

    def __init__(self, filesystem: fs.FileSystem, root: str, shown: str) -> None:
        self.filesystem = filesystem
        self.shown = shown
        self._root = root.rstrip("/")

    def path(self, name: str) -> str:
        """The path of a file."""
        return f"{self._root}/{name}"

    def make(self, folders: Sequence[str]) -> None:  # noqa: ARG002 - there are none to make
        """Make the place, a bucket for example, where that's allowed."""
        self.filesystem.create_dir(self._root, recursive=True)

    def lock(self) -> None:
        """Nothing can be locked; an epoch is all that there is (`pipeline.journal.writer_epochs`)."""

    def read(self, name: str) -> bytes:
        """All of a file."""
        with self.filesystem.open_input_stream(self.path(name), compression=None) as file:
            content: bytes = file.read()
        return content

    def listed(self, folder: str) -> list[str]:
        """The names in a folder."""
        return [info.base_name for info in self._infos(folder, recursive=False)]

    def make_durable(self, folder: str) -> None:
        """Does nothing: what is listed is durable."""

    def put(self, name: str, content: bytes) -> None:
        """Put the object."""
        with self.filesystem.open_output_stream(self.path(name), compression=None) as file:
            file.write(content)

    @contextmanager
    def written(self, folder: str, name: str) -> Iterator[Writable]:
        """An object that no entry names yet."""
        with self.filesystem.open_output_stream(self.path(f"{folder}/{name}"), compression=None) as file:
            yield file

    def sync(self, folder: str, names: Sequence[str]) -> None:
        """Does nothing: an object is durable when it's complete."""

    def finish_folder(self, folder: str, names: frozenset[str]) -> None:
        """All are durable already."""
        for there in self.listed(folder):
            if there not in names:
                self.remove(f"{folder}/{there}")

    def rename(self, name: str, other: str) -> None:
        """Puts another object with its content, and removes it."""
        self.put(other, self.read(name))
        self.remove(name)

    def remove(self, name: str) -> None:
        """Remove an object."""
        try:
            self.filesystem.delete_file(self.path(name))
        except FileNotFoundError:
            return

    def remove_folder(self, folder: str) -> None:
        """Remove all objects whose names begin so."""
        try:
            self.filesystem.delete_dir(self.path(folder))
        except FileNotFoundError:
            return

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of each file in a folder, and in each folder of it."""
        found: dict[str, int] = {}
        begin = len(self.path(folder)) + 1
        for info in self._infos(folder, recursive=True):
            inner, _, name = info.path[begin:].partition("/")
            if name or info.is_file:
                found[inner] = found.get(inner, 0) + (info.size or 0)
        return found

    def reserve(self) -> bool:
        """A store isn't full."""
        return True

    def release(self) -> None:
        """Does nothing: there is no reserve."""

    def _infos(self, folder: str, recursive: bool) -> list[fs.FileInfo]:
        return list_folder(self.filesystem, self.path(folder), recursive)


# The kinds of pyarrow's filesystems whose stores promise what a journal needs: see the module's docstring.
_ATOMIC = ("s3", "gcs")


def open_files(location: str | Path) -> Files:
    """The files at a path or a URI, or behind the service at an address.

    Raises Definite for a URI that pyarrow can't make a filesystem of.
    """
    if isinstance(location, Path) or "://" not in location:
        return LocalFiles(Path(location))
    parts = urlsplit(location)
    if parts.scheme in ("http", "https") and not parts.username:
        return ServedFiles(location)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.username or parts.password:
        raise Definite(
            f"journal.path ({shown}): who may use it doesn't belong into a URI, which is shown; leave that to the "
            "environment or the machine's configuration, as AWS_ACCESS_KEY_ID"
        )
    try:
        filesystem, root = filesystem_at(location)
    except ValueError as error:
        raise Definite(
            f"journal.path ({shown}) can't be reached: {error}; give a local path, or a URI that pyarrow knows, as "
            "s3://bucket/folder"
        ) from error
    if isinstance(filesystem, fs.LocalFileSystem):
        return LocalFiles(Path(root))
    if filesystem.type_name not in _ATOMIC:
        raise Definite(
            f"journal.path ({shown}): a store of the kind {filesystem.type_name!r} isn't known to show files only when "
            f"they are whole; use a local path, or one of {', '.join(_ATOMIC)}"
        )
    return RemoteFiles(filesystem, root, shown)


def wait_for_all(do: Callable[[Of], object], each: Sequence[Of]) -> None:
    """Does it with each; with many at the same time, because each waits for the storage."""
    if len(each) < _MANY:
        for one in each:
            do(one)
        return
    with ThreadPoolExecutor(_MANY, "storage") as threads:
        list(threads.map(do, each))


# How object stores' errors name a missing right (pyarrow raises them as OSError without a number).
_REFUSED = (
    "ACCESS_DENIED",
    "NO_SUCH_BUCKET",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "HTTP 403",
)


@contextmanager
def journal_errors(shown: str) -> Iterator[None]:
    """Say in our terms what the filesystem refused."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case number if number in DISK_FULL:
                raise NoRoom(
                    f"no room was left for the journal in {shown} ({error.strerror}); make some "
                    '(docs/operations.md, "The disk is full")'
                ) from error
            case errno.EACCES | errno.EPERM | errno.EROFS | errno.ENOTDIR:
                raise _refusal(shown, error) from error
            case _ if any(words in str(error) for words in _REFUSED):
                raise _refusal(shown, error) from error
            case _:
                raise Transient(f"the journal in {shown} failed: {error}") from error


def _refusal(shown: str, error: OSError) -> Definite:
    return Definite(f"the journal in {shown} can't be read or written: {error}; see to its permissions")


def _size(directory: str) -> int:
    with os.scandir(directory) as entries:
        return sum(entry.stat().st_size for entry in entries)
