"""A server of one's own as a process: started until it answers, stopped or killed, and started again on its data.

What it's called, how it's begun and how it answers is the subclass's. None outlives its parent (`children`).
"""

import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from deploy.toolchain import children
from deploy.toolchain.cache import ToolchainError

READY_WITHIN: Final = 60.0  # seconds; recovery after a kill included
STOPPED_WITHIN: Final = 60.0  # seconds

_LOOK_EVERY: Final = 0.02  # seconds
_LAST_WORDS: Final = 15  # lines


class ServerProcess(ABC):
    """`start`, `stop` or `kill`, and again on the same data; as a context manager, for a while.

    Leaving the context kills the server and removes its `data`; the `log` stays.
    """

    what: ClassVar[str]
    program: ClassVar[str]

    def __init__(self, data: Path, log: Path) -> None:
        self.data = data
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        return self._running().pid

    def start(self) -> None:
        """Start the server and return when it answers; raises `ToolchainError` with its last words."""
        if self._process is not None:
            raise ToolchainError(f"this {self.what} runs already")
        if not self.data.exists():
            self._make_data()
        self._process = children.start(self._command(), self.log)
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop the server as its owner would: SIGTERM, and all data written."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server as a crash would: SIGKILL."""
        self._end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.data)

    @abstractmethod
    def _make_data(self) -> None:
        """Make what it keeps, before its first start."""

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """The program and its arguments."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers by now; one that is still starting may listen, and say nothing."""

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise ToolchainError(f"this {self.what} isn't running")
        return self._process

    def _wait_until_it_answers(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + READY_WITHIN
        while not self._answers():
            if process.poll() is not None:
                raise ToolchainError(f"{self.program} ended at its start:\n{self._last_words()}")
            if time.monotonic() > deadline:
                raise ToolchainError(f"{self.program} doesn't answer:\n{self._last_words()}")
            time.sleep(_LOOK_EVERY)

    def _end(self, how: signal.Signals) -> None:
        process = self._running()
        self._process = None
        process.send_signal(how)
        try:
            process.wait(STOPPED_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ToolchainError(f"{self.program} didn't stop on {how.name}:\n{self._last_words()}") from None

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_WORDS:])
