"""The log of one Delta table, which this process reads and writes without the JVM where it can.

`pipeline.lake.files.delta_commit` has the format, and says which commits may be written. This is done here:

- A commit appears at once, completely and durably, or not at all. A file that was synced gets its name by `link`, which
  fails if the name is taken. So of two writers of one version one fails. Then the other's commit is read and judged.
- Before a commit gets its name, all earlier ones are made durable with their files. Spark syncs none of its own, and a
  durable commit needs each one before it.
- Delta's own store for local disks looks whether the name is free, and renames a file to it a moment later. Delta holds
  a lock of the table for all of that. So the name is given under the same lock, unless Delta can't be committing to the
  table (`actors.lake.threads.tables_at_work`). A JVM that isn't ours has a lock of its
  own, and must not commit at the same moment: it may rename its file to the name that was just given. So each commit of
  this process's own is looked at once more before the next one. If it has become another one, that is an error. A file
  beside the log remembers it, until somebody removes the table's folder.
- Who knows a version finds the newest one by its successors' names. If the known version's commit isn't the same file
  any more, others have cleaned the log, and an old version's name may be free again. So then the folder is listed.
- The checksum appears after the commit. Delta takes one that is missing or torn for none.
- A kill may leave a file that never got its name. It lies in the table's folder, where VACUUM removes it.

A filesystem without links, and an object store, leave all commits to Delta.

Source: POSIX `link`, `rename` and `fsync`; delta-io/delta, `LocalLogStore`,
`OptimisticTransaction.lockCommitIfEnabled`.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from uuid import uuid4

from pyarrow import fs

from actors.lake.filesystem import lake_filesystem
from actors.lake.transaction_log.delta_log import COMMIT, LOG, newest_checkpoint
from actors.runtime.filesystem import NO_LINK, TEMPORARY, put_file, sync, write_file
from pipeline.errors import Transient
from pipeline.lake.files.delta_commit import (
    BlindAppend,
    CommitStamp,
    Conflict,
    LogEnd,
    NewTable,
    alter_text,
    altered,
    can_be_made,
    checkpoint_due,
    checksum_text,
    commit_text,
    created,
    creation_text,
    following,
    hindrance,
    log_end,
    takes_alter,
    takes_append,
)
from pipeline.lake.tables.maintenance import TableSize

# How the name of a checkpoint of any kind begins.
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.")

# In a table's folder: has the version that another writer has written over. VACUUM passes over names with a `_`.
_MARKER = "_tidemark_overwritten"

_OVERWRITTEN = (
    "another Spark has written over version {version} of {folder}, and what that version had is lost; let no other "
    "Spark commit to the table while the service runs; stop the service, remove the table's folder, and start again, "
    "so that its mirror is filled again"
)

# No other process names files like this, and no other thread gets the number.
_PROCESS = uuid4().hex
_NUMBERS = count()

# Keeps the JVM from committing to the table.
CommitLock = Callable[[], AbstractContextManager[None]]

# Makes all commits before a version of the table at a path durable.
SyncEarlier = Callable[[str, int], object]


def no_sync(_path: str, _version: int) -> None:
    """Leaves all commits as they are."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A version, and what tells its commit's file from any other of that name; None if there is none.

    `digest`: of the commit, if this process has made it.
    """

    version: int
    identity: tuple[int, int] | None
    digest: bytes | None = None


class OwnLog:
    """The log of the table at a path, as far as it can be read and written without the JVM."""

    def __init__(self, path: str, sync_earlier: SyncEarlier) -> None:
        self._path = path
        self._sync_earlier = sync_earlier
        filesystem, folder = lake_filesystem(path)
        self._folder = Path(folder, LOG) if isinstance(filesystem, fs.LocalFileSystem) else None
        self._log = f"{folder}/{LOG}"
        self._known = _Known(-1, None)
        # The last checksum that was read or written, and its file's identity.
        self._sums: tuple[tuple[int, int], LogEnd] | None = None
        self._has_links = self._folder is not None

    @property
    def on_disk(self) -> bool:
        """Returns whether the log is on a disk."""
        return self._folder is not None

    def version(self) -> int | None:
        """Returns the newest version; -1 if there is no table, None if its log isn't on a disk, or has no commits.

        Raises Transient if another writer has written over a commit of this process, or of one before it that saw so.
        """
        if self._folder is None:
            return None
        known = self._known
        if known.version < 0 or not self._is_there(known):
            self._refuse_overwritten()
            names = self._names()
            newest = max((int(found[1]) for found in map(COMMIT.fullmatch, names) if found), default=-1)
            if newest < 0 and any(map(_CHECKPOINT.match, names)):
                return None
            known = _Known(newest, _identity(self._commit(newest)))
        while (identity := _identity(self._commit(known.version + 1))) is not None:
            known = _Known(known.version + 1, identity)
        self._known = known
        return known.version

    def newest(self) -> LogEnd | None:
        """Returns the newest version; None if there is none, or if its checksum is of no use."""
        version = self.version()
        return None if version is None or version < 0 else self._checked(version)

    def size(self) -> TableSize | None:
        """Returns the size of the newest version; None if there is none, or if its log has what is unknown here."""
        end = self.newest()
        if end is None:
            return None
        names = self._names()
        after, whole = newest_checkpoint(names, end.version)
        if not whole and any(map(_CHECKPOINT.match, names)):  # of another kind
            return None
        hidden = end.checksum.get("numDeletedRecordsOpt") or 0
        return TableSize(end.checksum["numFiles"], hidden, end.version - after)

    def end(self) -> LogEnd | None:
        """Returns the newest version if an append may follow it here, else None."""
        end = self.newest() if self._has_links else None
        return end if end is not None and takes_append(end) and not checkpoint_due(end) else None

    def append(self, end: LogEnd, append: BlindAppend, application: str, lock: CommitLock) -> int | None:
        """Commits after `end`, and returns the version; None if this filesystem has no links. `lock`: of the table, in
        the JVM.

        Raises Conflict if another writer's commit hinders it, OSError if the filesystem does, and Transient as
        `version`.
        """
        text = commit_text(append, end.version)
        made = self._committed(text, end, application, lock)
        if made is None:
            return None
        before = end if made.version == end.version + 1 else self._checked(made.version - 1)
        self._reached(made, None if before is None else following(before, append))
        return made.version

    def alter(
        self, end: LogEnd, schema: str, properties: Mapping[str, str], stamp: CommitStamp, lock: CommitLock
    ) -> int | None:
        """Sets properties and columns after `end`, and returns the version; None if Delta has to do it.

        Raises as `append`.
        """
        if not takes_alter(end, properties):
            return None
        after = altered(end, schema, properties, stamp)
        made = self._committed(alter_text(after, properties, stamp), end, None, lock)
        if made is None:
            return None
        self._reached(made, after if made.version == after.version else None)
        return made.version

    def create(self, table: NewTable, stamp: CommitStamp) -> bool:
        """Makes the table. Returns False if Delta has to do it, or if there is one."""
        if not self._has_links or self.version() != -1 or not can_be_made(table):
            return False
        self._make_folder()
        first = created(table, stamp)
        text = creation_text(first, table, stamp)
        with self._written(first.version, text) as (written, made):
            if not self._named(written, first.version, nullcontext):
                return False
        self._reached(made, first)
        return True

    def _committed(self, text: str, end: LogEnd, application: str | None, lock: CommitLock) -> _Known | None:
        """Makes a text the next commit after `end` that is free, unless those between hinder it."""
        version = end.version + 1
        with self._written(version, text) as (written, made):
            self._sync_earlier(self._path, version)
            while not (named := self._named(written, version, lock)):
                if named is None:
                    return None
                with Path(self._commit(version)).open("rb") as other:
                    if why := hindrance(other, application):
                        raise Conflict(f"{why}, in version {version} of {self._folder}")
                version += 1
                self._sync_earlier(self._path, version)
        return replace(made, version=version)

    def _is_there(self, known: _Known) -> bool:
        """Returns whether a known version's commit is the same file. Raises Transient if it was made here and has
        become another one."""
        path = self._commit(known.version)
        if _identity(path) == known.identity:
            return True
        if known.digest is not None:
            with suppress(FileNotFoundError):
                if sha256(Path(path).read_bytes()).digest() != known.digest:
                    self._mark_overwritten(known.version)
                    raise Transient(_OVERWRITTEN.format(version=known.version, folder=self._folder))
        return False

    def _mark_overwritten(self, version: int) -> None:
        """Lets each later process know of it, if the filesystem takes that."""
        with suppress(OSError):
            put_file(self._marker(), str(version).encode())

    def _refuse_overwritten(self) -> None:
        """Raises Transient if an earlier process saw that a version was written over."""
        with suppress(FileNotFoundError):
            raise Transient(_OVERWRITTEN.format(version=self._marker().read_text(), folder=self._folder))

    def _reached(self, made: _Known, end: LogEnd | None) -> None:
        """Remembers a version that was made here, and writes its checksum if that is known.

        Raises Transient if it was written over, or the version before it.
        """
        self._is_there(self._known)  # it may have been written over since this append began
        self._known = made
        if self._is_there(made) and end is not None:
            self._put_checksum(end)

    def _make_folder(self) -> None:
        """Makes the log's folder, and each new folder's name durable."""
        assert self._folder is not None
        new = [folder for folder in (self._folder, *self._folder.parents) if not folder.exists()]
        self._folder.mkdir(parents=True, exist_ok=True)
        for folder in new:
            sync(folder.parent)

    @contextmanager
    def _written(self, version: int, text: str) -> Iterator[tuple[Path, _Known]]:
        """A file beside the log, until the block ends, and the version that it becomes by its link. Another writer's
        may take its name right after that."""
        path, content = self._beside(), text.encode()
        there = write_file(path, content, durable=True)
        try:
            yield path, _Known(version, _identity_of(there), sha256(content).digest())
        finally:
            path.unlink(missing_ok=True)

    def _named(self, written: Path, version: int, lock: CommitLock) -> bool | None:
        """Makes a file the commit of a version. Returns False if there is one, and None if there can be no link."""
        with lock():
            try:
                os.link(written, self._commit(version))
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in NO_LINK:
                    raise
                self._has_links = False
                return None
        sync(Path(self._log))
        return True

    def _names(self) -> list[str]:
        assert self._folder is not None
        with suppress(FileNotFoundError):
            return [path.name for path in self._folder.iterdir()]
        return []

    def _checked(self, version: int) -> LogEnd | None:
        path, known = self._checksum(version), self._sums
        identity = _identity(path)
        if known is not None and known[0] == identity and known[1].version == version:
            return known[1]
        with suppress(FileNotFoundError):
            end = log_end(version, Path(path).read_bytes())
            self._sums = None if end is None or identity is None else (identity, end)
            return end
        return None

    def _put_checksum(self, end: LogEnd) -> None:
        """Writes a checksum, if the filesystem takes it: the commit was made, and needs none."""
        beside = self._beside()
        try:
            there = write_file(beside, checksum_text(end).encode(), durable=False)
            beside.rename(self._checksum(end.version))
        except OSError:
            beside.unlink(missing_ok=True)
            return
        self._sums = _identity_of(there), end

    def _marker(self) -> Path:
        assert self._folder is not None
        return self._folder.parent / _MARKER

    def _beside(self) -> Path:
        """Returns the path of a file that isn't there yet. VACUUM knows none of its name."""
        assert self._folder is not None
        return self._folder.parent / f"{_PROCESS}{next(_NUMBERS)}{TEMPORARY}"

    def _commit(self, version: int) -> str:
        return f"{self._log}/{version:020}.json"

    def _checksum(self, version: int) -> str:
        return f"{self._log}/{version:020}.crc"


def _identity(path: str) -> tuple[int, int] | None:
    """Returns what tells a file from any other of its name; None if there is none."""
    try:
        return _identity_of(Path(path).stat())
    except FileNotFoundError:
        return None


def _identity_of(there: os.stat_result) -> tuple[int, int]:
    return there.st_ino, there.st_mtime_ns
