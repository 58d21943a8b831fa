"""The service with broken steps, many times over: its modules are imported once, and each service is a fork.

    python -m tests.chaos.forks

reads a line for each service: its arguments and the file of its log, as JSON. It answers with the process's id, and at
the process's end with its exit code.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, NoReturn

from actors.service import warm_up
from deploy.demo.service import Service
from tests.chaos import broken

_PR_SET_PDEATHSIG = 1  # prctl(2)


class Fork:
    """One of the processes, as `subprocess.Popen` has it."""

    def __init__(self, answers: IO[bytes]) -> None:
        self._answers = answers
        self.pid = int(answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self.returncode = int(self._answers.readline())
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code when it has ended. Raises TimeoutExpired if it hasn't within that time (s)."""
        if self.returncode is None and not select.select([self._answers], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a fork of the service", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)


class ForkedService(Service):
    """A service whose processes are forks. `program`: what `tests.chaos.broken` takes before `run`."""

    def __init__(self, config: Path, journal: Path, log: Path) -> None:
        super().__init__(config, journal, log, ())
        command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tests.chaos.forks"]
        self._forking = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def launch(self) -> None:
        """Start its process, and wait for nothing."""
        self._address.unlink(missing_ok=True)
        line = json.dumps([[*self.program, "run", str(self.config)], str(self.log)])
        assert self._forking.stdin is not None and self._forking.stdout is not None
        self._forking.stdin.write(f"{line}\n".encode())
        self._process = Fork(self._forking.stdout)

    def close(self) -> None:
        """End all of its processes."""
        self.kill()
        self._forking.communicate()


def main() -> None:
    """Fork for each line."""
    warm_up.import_all()
    parent = os.getpid()
    for line in sys.stdin:
        arguments, log = json.loads(line)
        if not (pid := os.fork()):
            _be_the_service(arguments, log, parent)
        _answer(pid)
        _answer(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _answer(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _be_the_service(arguments: list[str], log: str, parent: int) -> NoReturn:
    """Run it in this process, which dies with its parent."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
        os.dup2(file, number)
    sys.argv = ["broken", *arguments]
    broken.main()
    os._exit(0)


if __name__ == "__main__":
    main()
