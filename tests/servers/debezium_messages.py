"""The messages that a real Debezium would send to Kafka, of a part of a server's log."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.messages.topic_records import Records
from tests.servers.debezium_java import run_java

PREFIX = "dbserver1"


@dataclass(frozen=True)
class Message:
    """A message, as text; a tombstone's value is None."""

    topic: str
    key: str | None
    value: str | None
    headers: tuple[tuple[str | None, str | None], ...]
    partition: int | None = None
    at_ms: int | None = None


@dataclass(frozen=True)
class LogStart:
    """Where a server's log is read from."""

    file: str
    position: int
    gtids: str


def log_end(server: MysqlServer) -> LogStart:
    """The present end of a server's log."""
    file, position, *_, gtids = server.sql("SHOW BINARY LOG STATUS")[0]
    return LogStart(file, position, gtids.replace("\n", ""))


def debezium_messages(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart, folder: Path,
    options: Mapping[str, str] | None = None,
) -> list[Message]:  # fmt: skip
    """Debezium's messages of the log after `start`, up to the first one of `marker.end`. `options` are its own."""
    return debezium_variants(parts, server, account, start, "marker.end", folder, options, {"plain": {}})[
        "plain"
    ]


def debezium_variants(
    parts: Parts, server: MysqlServer, account: Account, start: LogStart | None, last: str, folder: Path,
    options: Mapping[str, str] | None, variants: Mapping[str, Mapping[str, str]],
) -> dict[str, list[Message]]:  # fmt: skip
    """The same messages by variants: of each its name, and its properties. Without a start Debezium takes a snapshot.

    These are `transforms`, `transforms.*`, `converter`, `headers` and `nulls`.
    """
    settings = {
        "name": "messages",
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "topic.prefix": PREFIX,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": account.user,
        "database.password": account.password,
        "database.server.id": "4711",
        "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": "true",
        "snapshot.mode": "initial" if start is None else "recovery",
        "snapshot.locking.mode": "none",
        "include.schema.changes": "false",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "60000",
        "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "converter.schemas.enable": "false",
        "errors.max.retries": "0",
        "messages.last": f"{PREFIX}.{last}",
        "messages.variants": ",".join(variants),
        **(options or {}),
        **{f"{name}.{key}": value for name, said in variants.items() for key, value in said.items()},
    }
    if start is not None:
        place = {"file": start.file, "position": str(start.position), "gtids": start.gtids}
        settings |= {f"messages.{name}": text for name, text in place.items()}
    found: dict[str, list[Message]] = {name: [] for name in variants}
    for variant, message in _printed(parts, "Messages", written_properties(folder, settings)):
        found[variant].append(message)
    return found


def read_again(
    parts: Parts, messages: Iterable[Message], folder: Path, transformation: Mapping[str, str]
) -> list[Message]:
    """Messages with schemas, as Kafka Connect reads them, transforms them and writes them again.

    `transformation`: the properties of one, among them `type`; none, if it's empty.
    """
    lines = folder / "messages"
    lines.write_text("".join(f"{_line(message)}\n" for message in messages))
    properties = written_properties(folder, transformation)
    return [message for _, message in _printed(parts, "Read", properties, lines)]


def written_properties(folder: Path, settings: Mapping[str, str]) -> Path:
    """A file of Java's properties."""
    path = folder / "messages.properties"
    escaped = {key: value.replace("\\", "\\\\") for key, value in settings.items()}
    path.write_text("".join(f"{key}={value}\n" for key, value in escaped.items()))
    return path


def _printed(parts: Parts, program: str, *arguments: Path) -> Iterator[tuple[str, Message]]:
    """The messages that a program prints, each with its variant."""
    ran = run_java(parts, program, *map(str, arguments))
    assert ran.returncode == 0, ran.stderr[-5000:]
    lines = (line.split("\t") for line in ran.stdout.splitlines() if line.startswith("MESSAGE\t"))
    for _, variant, topic, partition, time, key, value, *rest in lines:
        headers = tuple(zip(map(_text, rest[::2]), map(_text, rest[1::2]), strict=True))
        place = None if partition == "-" else int(partition)
        at_ms = None if time == "-" else int(time)
        yield variant, Message(topic, _text(key), _text(value), headers, place, at_ms)


def _line(message: Message) -> str:
    texts = [message.key, message.value, *(text for header in message.headers for text in header)]
    coded = ("-" if text is None else base64.b64encode(text.encode()).decode() for text in texts)
    return "\t".join(("ours", message.topic, "-", "-", *coded))


def printed(records: Records) -> tuple[list[str | None], list[str | None]]:
    """Our keys and values as `Messages.java` prints Debezium's, in Avro too."""
    keys, values, schemas = records.keys.to_pylist(), records.values.to_pylist(), records.schemas
    if schemas is None:
        return keys, values
    texts = [avro_text(each) for each in schemas.values]
    of = [0] * len(values) if schemas.of is None else schemas.of.tolist()
    shown = [_shown(texts[which], value) for which, value in zip(of, values, strict=True)]
    return [_shown(avro_text(schemas.key), key) for key in keys], shown


def _shown(schema: str, message: bytes | None) -> str | None:
    return None if message is None else f"{schema}\n{base64.b64encode(message).decode()}"


def _text(encoded: str) -> str | None:
    return None if encoded == "-" else base64.b64decode(encoded).decode()
