"""Where a path leads to, how a file appears whole and stays, and how a filesystem says that it's full.

The journal, the lake and the service's own files build on these alone.

Source for what must be synced and when: POSIX `fsync` and `rename`; a new name is durable once its directory is.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
from pyarrow import fs

# Errors of a full filesystem, or of a full quota of its user.
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# There can't be a link: another filesystem, one without links, a file of another user, too many links.
NO_LINK: Final = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
)

TEMPORARY: Final = ".tmp"

# Who may read and write a new file, before the umask.
_MODE: Final = 0o666


def filesystem_at(uri: str) -> tuple[fs.FileSystem, str]:
    """The filesystem that a URI of pyarrow's leads to, and the path there. Raises ValueError where there's none."""
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ImportError) as error:
        raise ValueError(str(error)) from error
    return filesystem, path


def list_folder(filesystem: fs.FileSystem, folder: str, recursive: bool = False) -> list[fs.FileInfo]:
    """What is in a folder; nothing if it isn't there."""
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
    try:
        found: list[fs.FileInfo] = filesystem.get_file_info(selector)
    except FileNotFoundError:
        # Arrow lists the folder, and asks whether it exists if that fails. It reports the failure if the folder has
        # appeared in between. It's there now.
        found = filesystem.get_file_info(selector)
    return found


def sync(path: str | os.PathLike[str]) -> None:
    """Make a file's content, or the names in a directory, durable (POSIX `fsync`)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, content: bytes, mode: int = _MODE, *, durable: bool) -> os.stat_result:
    """Writes a file, and returns what the filesystem has of it. The file is gone where it couldn't be written to the
    end, so that it takes no room.

    A thread waits for the interpreter after each call of the system's. `Path.open` makes more of them.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if durable:
            os.fsync(descriptor)
        return os.fstat(descriptor)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


@contextmanager
def unsynced_file(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which is for the caller to make durable; gone as that of `write_file`."""
    try:
        with path.open("wb") as file:
            yield file
    except OSError:
        path.unlink(missing_ok=True)
        raise


def put_file(path: Path, content: bytes, mode: int = _MODE) -> None:
    """Writes a file that appears completely, durably, in place of the old one; its `mode` is as the umask leaves it."""
    temporary = path.with_name(path.name + TEMPORARY)
    write_file(temporary, content, mode, durable=True)
    temporary.rename(path)
    sync(path.parent)
