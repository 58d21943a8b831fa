"""Signals from a file: one JSON object a line, appended by any program that may write to it; answers go beside it.

    echo '{"id":"s1","type":"pause-snapshot"}' >> signals.jsonl
    tail -f signals.jsonl.answers
    {"line": "1f0c…", "id": "s1", "outcome": "accepted", "detail": "…"}

An answer names its line by a digest of the line's bytes. Lines with an answer are skipped. So are repetitions of a
line, whose id makes them the same signal. A line that was rejected may be appended once more, once its cause is gone:
its answer says how many such lines there were (`lines`). The file may be cut off or replaced at any time. A line counts
once its end has been written.

Once all lines have their answers, the place reached is put into a third file (`.place`). A start continues there, if
the file still has the same bytes before it. From the place on, only the answers to new lines are looked up. So neither
memory nor a start takes more the longer the file is. Without the place, the file is read from its beginning, and so are
all answers.

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
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
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

# Of so many accepted signals, the last ones, the progress is reported, and of those that the checkpoint has.
MOST_ACCEPTED: Final = 1000

# With this many answers that can't be written, no further line is taken.
MOST_UNWRITTEN: Final = 1024

# Bytes read at once.
_PIECE = 1 << 20

# Bytes before the place reached by which the same content is recognized.
_KNOWN = 1 << 12


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the answers say of lines, by their digests.

    `seen`: those that were accepted, or rejected by a version that didn't count them. `rejected`: how often others
    were. `before`: how often until the place. `accepted`: the ids, in their order.
    """

    seen: set[str] = field(default_factory=set)
    rejected: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, None] = field(default_factory=dict)

    def add(self, answer: Mapping[str, Any], *, before: bool) -> None:
        """Takes an answer in; `before`: it stands before the place. Raises ValueError, TypeError or KeyError if it's
        none.
        """
        digest = answer["line"]
        if answer["outcome"] == Outcome.ACCEPTED:
            self.accepted[answer["id"]] = None
            self.seen.add(digest)
        elif "lines" in answer:
            self.rejected[digest] = int(answer["lines"])
            if before:
                self.before[digest] = self.rejected[digest]
        else:
            self.seen.add(digest)


class SignalFile:
    """The channel over one file, which needn't exist yet."""

    name = "file"

    def __init__(self, path: Path, poll_s: float = POLL_S) -> None:
        self._path = path
        self._answers = path.with_name(path.name + ".answers")
        self._place = path.with_name(path.name + ".place")
        self._poll_s = poll_s
        # By their digests: lines that are accepted or under way, and how often each other one was rejected.
        self._seen: set[str] = set()
        self._rejected: Counter[str] = Counter()
        # How often each line has come since the file's beginning. Since the place, of those that have come after it.
        self._met: Counter[str] = Counter()
        # The bytes of the answers to all lines before the place; None if the reading has begun at the file's beginning.
        self._settled: int | None = None
        self._has_all_answers = False
        self._new_lines: list[bytes] = []  # whose answers aren't looked up yet
        self._lines: deque[bytes] = deque()
        self._under_way = 0
        self._file: tuple[int, int] | None = None  # device and inode
        self._offset = 0
        self._known = b""  # the last bytes before that
        self._rest = b""
        self._accepted: dict[str, None] = {}  # the last one is the last
        self._has_begun = False
        self._has_accepted = False
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
                if not (self._lines or self._new_lines or self._unwritten or self._under_way or self._rest):
                    await self._settle()
                if not self._lines or self._unwritten:
                    await asyncio.sleep(self._poll_s)
            line = self._lines.popleft()
            digest = _digest(line)
            if line.strip() and self._is_new(digest):
                self._under_way += 1
                return IncomingSignal(line, self._answerer(digest))

    async def sealed(self, checkpoint: Checkpoint) -> None:
        """Append how far signals of this file have come."""
        if not self._has_accepted:
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
        self._met[digest] += 1
        if self._met[digest] <= self._rejected[digest] or digest in self._seen:
            return False
        self._seen.add(digest)
        return True

    def _answerer(self, digest: str) -> Callable[[SignalAnswer], Awaitable[None]]:
        async def answer(given: SignalAnswer) -> None:
            record: dict[str, str | int] = {"line": digest, **signal_state(given).to_json()}
            self._under_way -= 1
            if isinstance(given, SignalAccepted):
                self._accepted[given.id] = None
            else:
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
                self._warn_unwritten(self._answers, error)
                return
            self._fails = False
            for _ in rest:
                self._unwritten.popleft()

    def _warn_unwritten(self, file: Path, error: Exception) -> None:
        if not self._fails:
            log.warning("the answers to signals can't be written", file=str(file), error=str(error))
        self._fails = True

    async def _read(self) -> None:
        """Takes in the whole lines that were written since, and first of all the answers."""
        try:
            if not self._has_begun:
                await asyncio.to_thread(self._find_place)
                self._has_begun = True
            if not self._new_lines:
                self._new_lines = await asyncio.to_thread(self._read_lines)
            await self._look_up_answers()
            self._has_accepted = True
            self._lines.extend(self._new_lines)
            self._new_lines = []
        except (OSError, Transient) as error:
            if str(error) != self._problem:
                log.warning("the signals' file can't be read", file=str(self._path), error=str(error))
            self._problem = str(error)
        else:
            self._problem = None

    def _read_lines(self) -> list[bytes]:
        """Returns the next whole lines, from the beginning of a file that isn't the one before any more."""
        try:
            with open_regular(self._path, os.O_RDONLY) as file:
                now = os.fstat(file.fileno())
                if (now.st_dev, now.st_ino) != self._file or not self._continues(file.fileno()):
                    self._file, self._offset = (now.st_dev, now.st_ino), 0
                    self._known, self._rest = b"", b""
                    self._met.clear()
                    self._settled, self._has_all_answers = None, False
                file.seek(self._offset)
                piece = file.read(_PIECE)
        except FileNotFoundError:
            return []
        self._offset += len(piece)
        self._known = (self._known + piece)[-_KNOWN:]
        *lines, rest = (self._rest + piece).split(b"\n")
        # Of a line that's too long, enough is kept for it to be refused as that.
        self._rest = rest[: LONGEST_SIGNAL + 1]
        return lines

    async def _look_up_answers(self) -> None:
        """Takes in the answers to the new lines. All of them, where the reading has begun at the file's beginning."""
        digests = None
        if self._settled is not None:
            digests = set(map(_digest, self._new_lines)) - self._met.keys()
        if not digests and (digests is not None or self._has_all_answers):
            return
        found = await asyncio.to_thread(self._find_answers, digests)
        self._seen |= found.seen
        self._rejected |= found.rejected
        self._accepted = {**found.accepted, **self._accepted}
        self._met.update({digest: found.before[digest] for digest in digests or ()})
        self._has_all_answers = digests is None

    def _find_answers(self, digests: Set[str] | None) -> _Answers:
        """Returns what the answers say of these lines, or of all. An answer cut off by a crash is none."""
        found = _Answers()
        try:
            file = open_regular(self._answers, os.O_RDONLY)
        except FileNotFoundError:
            return found
        settled, end = self._settled or 0, 0
        with file:
            for line in file:
                end += len(line)
                with suppress(ValueError, TypeError, KeyError):
                    answer = json.loads(line)
                    if digests is None or answer["line"] in digests:
                        found.add(answer, before=end <= settled)
        return found

    async def _settle(self) -> None:
        """Remembers the place reached, and forgets the lines before it: all have their answers."""
        if self._problem is not None or not (self._met or self._has_all_answers):
            return
        if self._notified is not None:
            kept = {*list(self._accepted)[-MOST_ACCEPTED:], *(each.id for each in self._notified.snapshots)}
            self._accepted = {id_: None for id_ in self._accepted if id_ in kept}
        try:
            self._settled = await asyncio.to_thread(self._put_place, tuple(self._accepted))
        except (OSError, Transient) as error:
            self._warn_unwritten(self._place, error)
            return
        for known in (self._seen, self._met, self._rejected):
            known.clear()
        self._has_all_answers = False

    def _put_place(self, accepted: Sequence[str]) -> int:
        """Returns the bytes of the answers. A place cut off by a crash is none."""
        try:
            answered = self._answers.stat().st_size
        except FileNotFoundError:
            answered = 0
        # One that stayed would also be found in a file that was emptied, and begins with the same lines again.
        if self._offset or self._place.exists():
            place = {
                "offset": self._offset,
                "before": _digest(self._known),
                "answered": answered,
                "accepted": accepted,
            }
            with open_regular(self._place, os.O_RDWR | os.O_CREAT) as file:
                file.truncate()
                file.write(json.dumps(place).encode())
                file.flush()
                os.fsync(file.fileno())
        return answered

    def _find_place(self) -> None:
        """Continues at the place that was put last, if the file still has the same bytes before it."""
        try:
            with open_regular(self._place, os.O_RDONLY) as file:
                place = json.loads(file.read())
            offset, answered, before = int(place["offset"]), int(place["answered"]), place["before"]
            self._accepted = dict.fromkeys(place["accepted"])
            with open_regular(self._path, os.O_RDONLY) as file:
                known = os.pread(file.fileno(), min(offset, _KNOWN), max(0, offset - _KNOWN))
                status = os.fstat(file.fileno())
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return
        if len(known) == min(offset, _KNOWN) and _digest(known) == before:
            self._file, self._offset, self._known = (status.st_dev, status.st_ino), offset, known
            self._settled = answered

    def _continues(self, descriptor: int) -> bool:
        """Whether the file still has what was read last. A file that was cut may have grown beyond that place."""
        known = len(self._known)
        return os.pread(descriptor, known, self._offset - known) == self._known

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


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


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
