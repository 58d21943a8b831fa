"""Converts the configuration of a Debezium MySQL connector to one of ours.

A property with the same meaning here is converted to our name for it. A report lists the others, one by one: those
without a purpose here, those that Tidemark doesn't support, and those that are left to do. A connector that hides data
from its readers isn't converted (`pipeline.config.debezium.properties`), unless `[kafka]` hides the same data. Then the
result has no `[lake]`, which would show all of it. A property's value may be a secret, so the report has none.

Source: Debezium 3.6's documentation, "MySQL connector configuration properties".
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import tomli_w

from pipeline.config.debezium.conversion import Conversion, Note, NoteKind, NotTakenOver, TomlValue, items_of
from pipeline.config.debezium.messages import login, messages
from pipeline.config.debezium.properties import (
    CONVERTERS,
    TRANSFORMATIONS,
    UNKNOWN_CLASS,
    Verdict,
    present_name,
    verdict,
)
from pipeline.config.debezium.protection_options import protected_columns, without_statements
from pipeline.config.debezium.tables import NotOurs, captured
from pipeline.config.settings import NAME, NAME_WORDS
from pipeline.gtid.gtid_set import GtidSet

CONNECTOR: Final = "io.debezium.connector.mysql.MySqlConnector"

_BEGINS_NOW: Final = (
    "without --offsets capture begins at the server's present; changes between the connector's stop and then are in no "
    "topic, and rows that were deleted meanwhile get no tombstone; stop the connector, and try again with its offsets"
)

_TLS_MODES: Final = {
    "disabled": "disabled",
    "required": "required",
    "verify_ca": "verify",
    "verify_identity": "verify",
}
_SNAPSHOT_MODES: Final = {
    "initial": "initial",
    "when_needed": "when_needed",
    "no_data": "no_data",
    "schema_only": "no_data",
    "never": "no_data",
    "recovery": "no_data",
    "schema_only_recovery": "no_data",
    "initial_only": "initial",
    "always": "initial",
}
_SNAPSHOTS_OTHERWISE: Final = {
    "initial_only": "the log is read after the snapshot",
    "always": "a table is snapshotted once; later snapshots are had by a signal",
    "custom": "there are no classes of one's own",
}


@dataclass(frozen=True, slots=True)
class TakenOver:
    """`text`: a configuration file; `notes`: all that it doesn't say."""

    text: str
    notes: tuple[Note, ...]

    def report(self) -> str:
        """The notes by their kinds, one a line."""
        return _listed(self.notes)


def take_over(
    given: Mapping[str, str], stopped: GtidSet | None = None, *, protect: bool = False
) -> TakenOver:
    """A configuration file for a connector with these properties. Raises NotTakenOver.

    `stopped`: what the connector has finished. Capture continues after it, without a snapshot. `protect`:
    columns are protected before the journal has them, so that the lake lacks what the topics lack.
    """
    work = Conversion({present_name(name): value for name, value in given.items()})
    prefix = _connector(work)
    _tables(work)
    _source(work)
    _tls(work)
    _snapshots(work)
    if stopped is not None:
        work.put("source", "begin_after", str(stopped))
        work.put("snapshot", "mode", "no_data")
    else:
        work.tell(NoteKind.TO_DO, "offsets", _BEGINS_NOW)
    brokers = work.properties.get("signal.kafka.bootstrap.servers")
    _signals(work, prefix)
    if protect:
        protected_columns(work)
    messages(work, prefix, brokers)
    without_statements(work)
    _classes(work, "transforms", TRANSFORMATIONS)
    _classes(work, "predicates", {})
    _classes(work, "converters", CONVERTERS)
    _classes(work, "post.processors", CONVERTERS)
    for name, value in sorted(work.properties.items()):
        work.judge(name, verdict(name), value)
    _places(work)
    withheld = [note for note in work.notes if note.kind is NoteKind.WITHHELD]
    if withheld:
        raise NotTakenOver(
            "the connector isn't taken over:\n"
            + _listed(withheld)
            + "\nremove them from the connector's JSON if all of that may be seen, and try again"
        )
    return TakenOver(_text(work.keys), tuple(work.notes))


def _connector(work: Conversion) -> str | None:
    """Put the pipeline's name; returns the topics' prefix."""
    if (kind := work.take("connector.class")) != CONNECTOR:
        raise NotTakenOver(f"connector.class is {kind or 'missing'}; only {CONNECTOR} is taken over")
    label, prefix = work.take("name"), work.take("topic.prefix")
    wanted = prefix or label or ""
    name = re.sub(r"[^a-z0-9_-]", "_", wanted.lower())
    if not NAME.fullmatch(name):
        work.tell(NoteKind.TO_DO, "topic.prefix", f"give `name`: {NAME_WORDS}")
        return prefix
    work.put("", "name", name)
    if name != prefix:
        work.tell(
            NoteKind.TO_DO, "topic.prefix", f"`name` is {name}, which is also the key of signals in Kafka now"
        )
    return prefix


def _tables(work: Conversion) -> None:
    databases, tables = work.take("database.include.list"), work.take("table.include.list")
    try:
        work.put("", "tables", captured(databases, tables))
    except NotOurs as error:
        raise NotTakenOver(f"{error.name}: {error}") from error


def _source(work: Conversion) -> None:
    for name, key in (("database.hostname", "host"), ("database.user", "user")):
        if value := work.take(name):
            work.put("source", key, value)
        else:
            work.tell(NoteKind.TO_DO, name, f"give source.{key}")
    if port := work.number("database.port"):
        work.put("source", "port", port)
    if server_id := work.number("database.server.id"):
        work.put("source", "server_id", server_id)
        why = "as long as that connector runs as well, give source.server_id another number"
        work.tell(NoteKind.TO_DO, "database.server.id", why)
    else:
        work.tell(
            NoteKind.TO_DO,
            "database.server.id",
            "give source.server_id, unique among all replicas of the server",
        )
    if work.take("include.query") == "true":
        work.put("source", "keep_statements", True)
    if (timeout_ms := work.number("connect.timeout.ms")) is not None:
        work.put("source", "connect_timeout_s", max(timeout_ms / 1000, 0.1))
    work.properties.pop("database.password", None)
    work.put("source", "password_file", "/run/secrets/mysql-password")
    work.tell(NoteKind.TO_DO, "database.password", "put it into the file that source.password_file names, or else "
              "remove that key and set TIDEMARK__SOURCE__PASSWORD; it isn't written here")  # fmt: skip


def _tls(work: Conversion) -> None:
    given = (work.take("database.ssl.mode") or "preferred").lower()
    if mode := _TLS_MODES.get(given):
        work.put("source.tls", "mode", mode)
    if given == "verify_ca":
        work.tell(
            NoteKind.OTHERWISE,
            "database.ssl.mode",
            "with the certificate the server's name is checked as well",
        )
    elif mode is None:
        why = (
            "Debezium connects without TLS where the server has none, and Tidemark doesn't: it checks the server's "
            "certificate and name; "
        )
        work.tell(NoteKind.OTHERWISE, "database.ssl.mode", why + "say otherwise with source.tls.mode")


def _snapshots(work: Conversion) -> None:
    mode = (work.take("snapshot.mode") or "initial").lower()
    data = (work.take("snapshot.mode.configuration.based.snapshot.data") or "false").lower()
    if mode == "configuration_based":
        mode = "initial" if data == "true" else "no_data"
    if why := _SNAPSHOTS_OTHERWISE.get(mode):
        work.tell(NoteKind.OTHERWISE, "snapshot.mode", why)
    ours = _SNAPSHOT_MODES.get(mode, "initial")
    only = work.take("snapshot.include.collection.list")
    if only and ours != "no_data":
        ours = "no_data"
        why = "snapshot.mode is no_data: begin the snapshot of just these tables by `tidemark signal FILE execute -t …`"
        work.tell(NoteKind.TO_DO, "snapshot.include.collection.list", why)
    work.put("snapshot", "mode", ours)
    if threads := work.number("snapshot.max.threads"):
        work.put("snapshot", "connections", min(threads, 256))


def _signals(work: Conversion, prefix: str | None) -> None:
    channels = items_of(work.take("signal.enabled.channels") or "source")
    table, file = work.take("signal.data.collection"), work.take("signal.file")
    topic, servers = work.take("signal.kafka.topic"), work.take("signal.kafka.bootstrap.servers")
    if "source" in channels and table:
        work.put("signals", "table", table)
    if "file" in channels:
        work.put("signals", "file", file or "file-signals.txt")
    if "jmx" in channels:
        work.tell(
            NoteKind.OTHERWISE,
            "signal.enabled.channels",
            "there's no JMX: signals are sent by `tidemark signal`",
        )
    if "kafka" in channels:
        work.put(
            "signals.kafka", "topic", topic or f"{prefix or work.keys.get('', {}).get('name', '')}-signal"
        )
        if servers:
            work.put("signals.kafka", "bootstrap_servers", items_of(servers))
        else:
            work.tell(
                NoteKind.TO_DO, "signal.kafka.bootstrap.servers", "give signals.kafka.bootstrap_servers"
            )
        login(work, "signals.kafka", "signal.consumer.")
    notified = items_of(work.take("notification.enabled.channels") or "")
    answers = work.take("notification.sink.topic.name")
    if "sink" in notified and answers:
        work.put("kafka", "notification_sink_topic_name", answers)
    if "jmx" in notified:
        work.tell(
            NoteKind.OTHERWISE, "notification.enabled.channels", "there's no JMX: see /status and the log"
        )


def _classes(work: Conversion, list_name: str, known: Mapping[str, Verdict]) -> None:
    """What's made of classes: those that a list names, each with its class and properties of its own."""
    family = f"{list_name}." if list_name in ("transforms", "predicates") else ""
    for label in items_of(work.properties.pop(list_name, "")):
        prefix = f"{family}{label}."
        own = {name: work.properties.pop(name) for name in list(work.properties) if name.startswith(prefix)}
        if list_name == "predicates":
            work.tell(NoteKind.POINTLESS, f"{prefix}type", "it's for a transformation")
            continue
        work.judge(f"{prefix}type", known.get(own.get(f"{prefix}type", ""), UNKNOWN_CLASS), "")


def _places(work: Conversion) -> None:
    """Where journal and lake are to be. There's no lake where it would show what topics don't."""
    work.put("journal", "path", "/var/lib/tidemark/journal")
    if not work.kept_from_topics:
        work.put("lake", "path", "/var/lib/tidemark/lake")
        why = "`tidemark setup` fetches the jars of Delta, which [lake] needs, or name your own"
        work.tell(NoteKind.TO_DO, "spark.jars", why)
        why = "say where they are to be; remove [lake] if topics are enough, or [kafka] if the lake is"
        work.tell(NoteKind.TO_DO, "journal.path, lake.path", why)
        return
    kept = ", ".join(sorted(work.kept_from_topics))
    work.tell(NoteKind.TO_DO, "journal.path", "say where it is to be")
    work.tell(
        NoteKind.TO_DO, "lake.path", f"add [lake] only if all may be seen there that topics lack by {kept}"
    )


def _text(keys: Mapping[str, Mapping[str, TomlValue]]) -> str:
    document: dict[str, Any] = {}
    for section, values in keys.items():
        table = document
        for name in filter(None, section.split(".")):
            table = table.setdefault(name, {})
        table.update(values)
    return tomli_w.dumps(document)


def _listed(notes: list[Note] | tuple[Note, ...]) -> str:
    def lines() -> Iterator[str]:
        for kind in NoteKind:
            if found := [note for note in notes if note.kind is kind]:
                yield f"{kind}:"
                yield from map(str, found)

    return "\n".join(lines())
