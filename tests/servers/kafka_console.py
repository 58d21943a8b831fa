"""Kafka's own console consumer and producer, as its users run them."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.toolchain.kafka_broker import KafkaBroker

_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_PRODUCER: Final = "org.apache.kafka.tools.ConsoleProducer"
_FRUGAL: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_WITHIN_S: Final = 120


def _java(broker: KafkaBroker, main: str, *options: str) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={broker.folder / 'log4j2.xml'}"
    # The broker's archive has the clients' classes as well.
    classes = broker.parts.classes
    archive = [] if classes is None else [f"-XX:SharedArchiveFile={classes}"]
    java = [str(broker.parts.java_home / "bin" / "java"), *archive, *_FRUGAL, logging]
    return [*java, "-cp", f"{broker.parts.jars}/*", main, "--bootstrap-server", broker.address, *options]


class ConsoleConsumer:
    """What a console consumer has printed so far: the committed messages of a topic's only partition, with keys."""

    def __init__(self, printed: Path) -> None:
        self._printed = printed

    def lines(self) -> list[str]:
        """The whole lines: key, tab, value."""
        text = self._printed.read_text()
        return text[: text.rfind("\n") + 1].splitlines()

    def wait(self, messages: int) -> list[str]:
        """The lines, once there are so many."""
        deadline = time.monotonic() + _WITHIN_S
        while len(lines := self.lines()) < messages:
            assert time.monotonic() < deadline, f"{len(lines)} messages instead of {messages}"
            time.sleep(0.1)
        return lines


@contextmanager
def consuming(broker: KafkaBroker, topic: str, folder: Path) -> Iterator[ConsoleConsumer]:
    """A console consumer that runs as long as the context lasts. It names its partition, so it waits for no group."""
    printed = folder / f"{topic}.printed"
    options = ["--topic", topic, "--partition", "0", "--offset", "earliest"]
    options += ["--isolation-level", "read_committed", "--formatter-property", "print.key=true"]
    with printed.open("w") as out:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *_java(broker, _CONSUMER, *options)], stdout=out
        )
    try:
        yield ConsoleConsumer(printed)
    finally:
        process.terminate()
        process.wait()


def consumed(broker: KafkaBroker, topic: str, messages: int, folder: Path) -> list[str]:
    """A topic's first messages, as the console consumer prints them with keys."""
    with consuming(broker, topic, folder) as consumer:
        return consumer.wait(messages)[:messages]


def produce(broker: KafkaBroker, topic: str, lines: Sequence[str], separator: str) -> None:
    """Give lines to the console producer; what's before the separator is a message's key."""
    options = ["--topic", topic, "--reader-property", "parse.key=true"]
    options += ["--reader-property", f"key.separator={separator}"]
    text = "".join(f"{line}\n" for line in lines)
    told = subprocess.run(
        _java(broker, _PRODUCER, *options), input=text, text=True, capture_output=True, timeout=_WITHIN_S, check=False
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
