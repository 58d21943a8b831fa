"""The service as its users run it: a process of `tidemark run`, asked over HTTP and told by `tidemark signal`."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Protocol

from deploy.demo.topics import PARTITIONS, PREFIX
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts

# The first start after an install compiles the decoder, which takes minutes on a busy machine.
READY_WITHIN_S = 600.0
STOPPED_WITHIN_S = 90.0
POLL_S = 0.2

_TOPICS = f"""
[kafka]
bootstrap_servers = ["{{brokers}}"]
topic_prefix = "{PREFIX}"
partitions = {PARTITIONS}
"""


class Process(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code when it has ended. Raises TimeoutExpired if it hasn't within that time (s)."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, unless it has ended."""

    def kill(self) -> None:
        """Send it SIGKILL, unless it has ended."""


class Service:
    """One `tidemark run`, which may be killed and started again on the same configuration.

    `program`: what Python is to run instead of the command `tidemark`.
    """

    def __init__(
        self, config: Path, journal: Path, log: Path, program: tuple[str, ...] = ("-m", "actors")
    ) -> None:
        self.config = config
        self.log = log
        self.program = program
        self._address = journal / "http.json"
        self._process: Process | None = None

    def launch(self) -> None:
        """Start its process, and wait for nothing."""
        self._address.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            # The kernel kills it when the thread dies that starts it, however that happens.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, *self.program, "run", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self, probe: str = "/readyz") -> None:
        """Start it, and `await_ready`."""
        self.launch()
        self.await_ready(probe)

    def await_ready(self, probe: str = "/readyz") -> None:
        """Wait until the probe is answered with 200. Raises RuntimeError with its last words if it isn't."""
        deadline = time.monotonic() + READY_WITHIN_S
        while not self._answers(probe):
            self._must_run()
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the service isn't ready after {READY_WITHIN_S:.0f} s:\n{self.last_words()}"
                )
            time.sleep(POLL_S)

    @property
    def pid(self) -> int:
        """Of its process, which has been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        url: str = json.loads(self._address.read_text())["url"]
        return url

    @property
    def exit_code(self) -> int | None:
        """With what it has ended; None while it runs."""
        return None if self._process is None else self._process.poll()

    def status(self) -> dict[str, Any]:
        """What `/status` says now. Raises RuntimeError with its last words, if it has ended."""
        self._must_run()
        status = json.loads(self._get("/status"))
        assert isinstance(status, dict)
        return status

    def tell(self, *arguments: str) -> str:
        """Give a signal as an operator would: `tidemark signal CONFIG …`; returns what it printed."""
        command = [sys.executable, "-m", "actors", "signal", str(self.config), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the signal was refused: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def wait_for_lake(self, within_s: float) -> None:
        """Wait as a reader would until the lake shows all that the source has by now: `tidemark wait CONFIG`."""
        command = [sys.executable, "-m", "actors", "wait", str(self.config), "--timeout", str(within_s)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the lake doesn't show what the source has: {done.stdout}{done.stderr}")

    def verify(self, *arguments: str) -> tuple[int, str]:
        """Compare the lake with the source as an operator would: `tidemark verify CONFIG …`.

        Returns its exit code, and what it printed.
        """
        command = [sys.executable, "-m", "actors", "verify", str(self.config), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, f"{done.stdout}{done.stderr}".strip()

    def metrics(self) -> str:
        """What `/metrics` says now, as Prometheus reads it."""
        return self._get("/metrics").decode()

    def token(self) -> str:
        """The token that the service has made for signals over HTTP."""
        return self._address.with_name("http-token").read_text().strip()

    def kill(self) -> None:
        """End it as a power cut would: SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait(STOPPED_WITHIN_S)

    def wait(self, within_s: float) -> int:
        """Its exit code when it has ended. Raises TimeoutExpired if it hasn't within that time."""
        assert self._process is not None
        return self._process.wait(within_s)

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])

    def _must_run(self) -> None:
        if self.exit_code is not None:
            raise RuntimeError(f"the service ended with {self.exit_code}:\n{self.last_words()}")

    def _answers(self, probe: str) -> bool:
        try:
            self._get(probe)
        except (OSError, ValueError):  # no address yet, nobody listening, or 503
            return False
        return True

    def _get(self, path: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as answer:  # noqa: S310 - our own loopback
            body = answer.read()
        assert isinstance(body, bytes)
        return body


def write_config(
    path: Path, server: MysqlServer, account: Account, parts: Parts, folder: Path, brokers: str | None = None
) -> None:
    """The configuration file, as the README shows it, with this machine's paths and ports.

    `brokers`: those of Kafka, if there are to be topics as well.
    """
    password = folder / "password"
    password.write_text(account.password)
    password.chmod(0o600)
    jars = ", ".join(f'"{jar}"' for jar in parts.jars)
    path.write_text(f"""name = "shop"
tables = ["shop\\\\..*"]

[source]
host = "{server.host}"
port = {server.port}
user = "{account.user}"
password_file = "{password}"
server_id = {server.server_id % 4_000_000_000 + 1}
tls = {{ mode = "disabled" }}

[snapshot]
mode = "no_data"
chunk_rows = 25000
windows = 4
connections = 2

[journal]
path = "{folder}/journal"

[lake]
path = "{folder}/lake"
merge_after_s = 30

[spark]
master = "local[2]"
driver_memory = "2g"
jars = [{jars}]
{_TOPICS.format(brokers=brokers) if brokers else ""}""")
