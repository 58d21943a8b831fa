"""A real Debezium that sends its messages to a real Kafka, until it's stopped or killed."""

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.parts import Parts
from tests.servers.debezium_java import java
from tests.servers.debezium_messages import written_properties

_SENT: Final = re.compile(r"SENT (\d+)\n")
_LONGEST_S: Final = 120


class Debezium:
    """One embedded engine in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._sent = 0
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self, messages: int) -> None:
        """Wait until so many messages have been sent."""
        assert self.has_sent(messages, _LONGEST_S), self._errors.read_text()[-5000:]

    def has_sent(self, messages: int, within_s: float) -> bool:
        """Whether so many messages have been sent, within that time."""
        with self._told:
            self._told.wait_for(lambda: self._sent >= messages or self._ended, within_s)
            return self._sent >= messages

    @property
    def sent(self) -> int:
        """How many messages have been sent."""
        return self._sent

    def stop(self) -> None:
        """SIGTERM: it ends its batch and stores its offset."""
        self._process.terminate()
        assert self._process.wait(_LONGEST_S) == 143, self._errors.read_text()[-5000:]

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def _ended(self) -> bool:
        return self._process.poll() is not None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (sent := _SENT.fullmatch(line)) is not None:
                with self._told:
                    self._sent = int(sent[1])
                    self._told.notify_all()
        with self._told:
            self._told.notify_all()


@contextmanager
def running_debezium(
    parts: Parts, broker: KafkaBroker, connector: Mapping[str, str], folder: Path
) -> Iterator[Debezium]:
    """Debezium with a connector's properties, beside those that only Kafka Connect's worker would have."""
    settings = {
        "name": "connector",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "topics.brokers": broker.address,
        **connector,
    }
    properties, errors = written_properties(folder, settings), folder / "debezium.log"
    with errors.open("w") as told:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *java(parts, "ToTopics"), str(properties)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=told,
        )
    running = Debezium(process, errors)
    try:
        yield running
    finally:
        running.kill()
