"""What a power cut takes from the journal and the lake: what this process hasn't made durable there.

A kernel writes files back when it likes. So what a program may count on is what it has synced (POSIX `fsync`): a file's
content, and a name once the directory that has it is synced. Here everything else is lost, also what Spark's JVM has
written and this process hasn't synced. Of a lake's log only checkpoints and the end are lost, as far back as its last
durable commit.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from unittest.mock import patch

from actors.lake.transaction_log.delta_log import COMMIT, LOG

# A file's or a directory's identity: its device, its inode.
_Identity = tuple[int, int]


class Power:
    """What is durable of the files that this process writes."""

    def __init__(self) -> None:
        # How many bytes of a file are durable, and which names in a directory.
        self._bytes: dict[_Identity, int] = {}
        self._names: dict[_Identity, set[str]] = {}
        # Threads sync one directory at the same time, and the later listing has to stand.
        self._noting = Lock()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is synced meanwhile."""
        sync = os.fsync

        def fsync(descriptor: int) -> None:
            sync(descriptor)
            with self._noting:
                self._note(descriptor)

        with patch.object(os, "fsync", fsync):
            yield

    def note_all(self, folder: Path) -> None:
        """Take all that is in a folder for durable: somebody has copied it there, and waited."""
        for inside, folders, files in os.walk(folder):
            self._names[_identity(Path(inside))] = {*folders, *files}
            for name in files:
                path = Path(inside, name)
                self._bytes[_identity(path)] = path.stat().st_size

    def _note(self, descriptor: int) -> None:
        told = os.fstat(descriptor)
        if stat.S_ISDIR(told.st_mode):
            self._names[told.st_dev, told.st_ino] = set(os.listdir(descriptor))
        else:
            self._bytes[told.st_dev, told.st_ino] = told.st_size

    def cut(self, journal: Path, lake: Path) -> list[Path]:
        """Take what isn't durable, while nothing writes. Returns what is gone, or lacks its end."""
        gone = list(self._cut(journal))
        for log in sorted(lake.rglob(LOG)):
            gone += self._cut_log(log)
            gone += self._cut_checkpoints(log)
            gone += self._cut(log.parent, kept=LOG)
        return gone

    def _cut(self, folder: Path, kept: str | None = None) -> Iterator[Path]:
        durable = self._durable_names(folder)
        for path in sorted(folder.iterdir()):
            if path.name == kept:
                continue
            if path.name not in durable:
                yield path
                _remove(path)
            elif path.is_dir():
                yield from self._cut(path)
            elif (size := self._durable_bytes(path)) < path.stat().st_size:
                yield path
                os.truncate(path, size)

    def _cut_log(self, log: Path) -> Iterator[Path]:
        durable = self._durable_names(log)
        commits = sorted(path for path in log.iterdir() if COMMIT.fullmatch(path.name))
        while commits and (commits[-1].name not in durable or not self._durable_bytes(commits[-1])):
            last = commits.pop()
            for path in log.glob(f"*{last.stem}*"):  # its checksum and its checkpoint as well
                yield path
                _remove(path)

    def _cut_checkpoints(self, log: Path) -> Iterator[Path]:
        for path in (*log.glob("*.checkpoint*"), *log.glob("_last_checkpoint")):
            if self._durable_bytes(path) < path.stat().st_size:
                yield path
                os.truncate(path, self._durable_bytes(path))

    def _durable_names(self, folder: Path) -> set[str]:
        return self._names.get(_identity(folder), set())

    def _durable_bytes(self, path: Path) -> int:
        return self._bytes.get(_identity(path), 0)


def _identity(path: Path) -> _Identity:
    told = path.stat()
    return told.st_dev, told.st_ino


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
