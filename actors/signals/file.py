"""Signals from a file: one JSON object a line, appended by any program that may write to it; answers go beside it.

    echo '{"id":"s1","type":"pause-snapshot"}' >> signals.jsonl
    tail -f signals.jsonl.answers
    {"line": "1f0c…", "id": "s1", "outcome": "accepted", "detail": "…"}

An answer names its line by a digest of the line's bytes. After a restart the file is read from its beginning, and lines
with an answer are skipped. So are repetitions of a line, whose id makes them the same signal. A line that was rejected
may be appended once more, once its cause is gone: its answer says how many such lines there were (`lines`). The file
may be cut off or replaced at any time. A line counts once its end has been written.

The progress of an accepted signal of this file (`running`, `done`, `failed`) is appended as it happens, by its id and
without a line. After a restart the present state may be appended once more.

What can't be appended, as on a full disk, is kept and tried again with each poll. If too much is kept, no further line
is taken. A restart forgets it, and reads those lines again. So an answer may come twice, which its id shows.

A file that can't be read delays this channel alone, which tries again with each poll. The status has the problem. While
the answers can't be read, no line is taken: it may have an answer.
"""

import asyncio
import hashlib
import json
import os
import stat
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import structlog

from actors.signals.channel import IncomingSignal, signal_state
from pipeline.errors import Transient
from pipeline.messages.signals import SignalAccepted, SignalAnswer
from pipeline.signals.outcomes import Outcome, outcomes_between
from pipeline.signals.signal import LONGEST_SIGNAL
from pipeline.snapshot.checkpoint import Checkpoint

log = structlog.get_logger()

POLL_S = 0.25

# With this many answers that can't be written, no further line is taken.
MOST_UNWRITTEN: Final = 1024

# Bytes read at once.
_PIECE = 1 << 20

# Bytes before the place reached by which the same content is recognized.
_KNOWN = 1 << 12


class SignalFile:
    """The channel over one file, which needn't exist yet."""

    name = "file"

    def __init__(self, path: Path, poll_s: float = POLL_S) -> None:
        self._path = path
        self._answers = path.with_name(path.name + ".answers")
        self._poll_s = poll_s
        # By their digests: lines that are accepted or under way, and how often each other one was rejected.
        self._seen: set[str] | None = None
        self._rejected: Counter[str] = Counter()
        # How often each line has come since the file's beginning.
        self._met: Counter[str] = Counter()
        self._lines: deque[bytes] = deque()
        self._file: tuple[int, int] | None = None  # device and inode
        self._offset = 0
        self._known = b""  # the last bytes before that
        self._rest = b""
        self._accepted: set[str] = set()
        self._unwritten: deque[Mapping[str, str | int]] = deque()
        self._writing = asyncio.Lock()
        self._fails = False
        self._problem: str | None = None
        self._notified: Checkpoint | None = None

    async def receive(self) -> IncomingSignal:
        """The next line that hasn't been answered."""
        while True:
            while not self._lines or len(self._unwritten) >= MOST_UNWRITTEN:
                await self._write()
                if not self._lines:
                    await self._read()
                if not self._lines or self._unwritten:
                    await asyncio.sleep(self._poll_s)
            line = self._lines.popleft()
            digest = hashlib.sha256(line).hexdigest()[:16]
            if line.strip() and self._is_new(digest):
                return IncomingSignal(line, self._answerer(digest))

    async def sealed(self, checkpoint: Checkpoint) -> None:
        """Append how far signals of this file have come."""
        if self._seen is None:
            return  # it isn't known yet which signals are of this file
        come = [state for state in outcomes_between(self._notified, checkpoint) if state.id in self._accepted]
        self._notified = checkpoint
        if come:
            await self._write(*(state.to_json() for state in come))

    def status(self) -> dict[str, Any]:
        """Which file it is, and what is the matter."""
        return {"path": str(self._path), "problem": self._problem}

    async def close(self) -> None:
        """Reports nothing: the next reader of the file reads an unanswered line again."""

    def _is_new(self, digest: str) -> bool:
        """Returns whether the next line, which has this digest, has no answer and gets none as another one's
        repetition."""
        assert self._seen is not None
        self._met[digest] += 1
        if self._met[digest] <= self._rejected[digest] or digest in self._seen:
            return False
        self._seen.add(digest)
        return True

    def _answerer(self, digest: str) -> Callable[[SignalAnswer], Awaitable[None]]:
        async def answer(given: SignalAnswer) -> None:
            record: dict[str, str | int] = {"line": digest, **signal_state(given).to_json()}
            if isinstance(given, SignalAccepted):
                self._accepted.add(given.id)
            elif self._seen is not None:
                # Those that have come meanwhile are this one's repetitions.
                record["lines"] = max(self._met[digest], self._rejected[digest] + 1)
                self._rejected[digest] = int(record["lines"])
                self._seen.discard(digest)
            await self._write(record)

        return answer

    async def _write(self, *records: Mapping[str, str | int]) -> None:
        """Appends these after those that couldn't be appended yet, or keeps them all."""
        self._unwritten.extend(records)
        async with self._writing:
            if not (rest := tuple(self._unwritten)):
                return
            try:
                await asyncio.to_thread(self._append, *rest)
            except (OSError, Transient) as error:
                if not self._fails:
                    log.warning(
                        "the answers to signals can't be written", file=str(self._answers), error=str(error)
                    )
                self._fails = True
                return
            self._fails = False
            for _ in rest:
                self._unwritten.popleft()

    async def _read(self) -> None:
        """Takes in the whole lines that were written since, and first of all the answers."""
        try:
            if self._seen is None:
                self._seen = await asyncio.to_thread(self._answered_lines)
            await asyncio.to_thread(self._read_lines)
        except (OSError, Transient) as error:
            if str(error) != self._problem:
                log.warning("the signals' file can't be read", file=str(self._path), error=str(error))
            self._problem = str(error)
        else:
            self._problem = None

    def _read_lines(self) -> None:
        try:
            with open_regular(self._path, os.O_RDONLY) as file:
                now = os.fstat(file.fileno())
                if (now.st_dev, now.st_ino) != self._file or not self._continues(file.fileno()):
                    self._file, self._offset = (now.st_dev, now.st_ino), 0
                    self._known, self._rest = b"", b""
                    self._met.clear()
                file.seek(self._offset)
                piece = file.read(_PIECE)
        except FileNotFoundError:
            return
        self._offset += len(piece)
        self._known = (self._known + piece)[-_KNOWN:]
        *lines, rest = (self._rest + piece).split(b"\n")
        self._lines.extend(lines)
        # Of a line that's too long, enough is kept for it to be refused as that.
        self._rest = rest[: LONGEST_SIGNAL + 1]

    def _continues(self, descriptor: int) -> bool:
        """Whether the file still has what was read last. A file that was cut may have grown beyond that place."""
        known = len(self._known)
        return os.pread(descriptor, known, self._offset - known) == self._known

    def _answered_lines(self) -> set[str]:
        """The digests of the lines that were accepted, or rejected by a version that didn't count them.

        Keeps how often others were rejected. An answer cut off by a crash is none.
        """
        seen: set[str] = set()
        try:
            with open_regular(self._answers, os.O_RDONLY) as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return seen
        for line in lines:
            try:
                answer = json.loads(line)
                if answer["outcome"] == Outcome.ACCEPTED:
                    self._accepted.add(answer["id"])
                    seen.add(answer["line"])
                elif "lines" in answer:
                    self._rejected[answer["line"]] = int(answer["lines"])
                else:
                    seen.add(answer["line"])
            except (ValueError, TypeError, KeyError):
                continue
        return seen

    def _append(self, *records: Mapping[str, str | int]) -> None:
        with open_regular(self._answers, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            if file.seek(0, os.SEEK_END) and not self._ends_whole(file.fileno()):
                file.write(b"\n")
            for record in records:
                file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _ends_whole(descriptor: int) -> bool:
        return os.pread(descriptor, 1, os.fstat(descriptor).st_size - 1) == b"\n"


def open_regular(path: Path, flags: int) -> BinaryIO:
    """Opens a file that neither leads elsewhere nor can hold a reader. Raises Transient if it is no such file.

    Whoever may write to the folder could otherwise have the service write to another file of its user, or wait for ever
    at a pipe.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Transient(
            f"signals.file: {path} can't be opened as a regular file: {error.strerror}"
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Transient(f"signals.file: {path} is no regular file; remove it")
    return os.fdopen(descriptor, "r+b" if flags & os.O_RDWR else "rb")
