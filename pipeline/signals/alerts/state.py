"""What has stopped, which alerts of it wait, and what a restart has to know (`pipeline.signals.alerts.step`)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import DROPPED, LEFT_OUT, reason_without_keys

LONGEST_REASON: Final = 1000  # in characters
# So much of a longer reason's end stays, where the remedy is.
LAST_OF_REASON: Final = 400

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - it's in UTC, and a text says so


class AlertKind(StrEnum):
    """What has stopped."""

    TABLE_STOPPED = "table-stopped"
    TOPIC_SET_ASIDE = "topic-set-aside"
    SNAPSHOT_FAILED = "snapshot-failed"
    PART_DOWN = "part-down"  # an actor isn't ready for long
    SERVICE_ENDED = "service-ended"


_WORDS: Final = {
    AlertKind.TABLE_STOPPED: "the table {subject} was stopped",
    AlertKind.TOPIC_SET_ASIDE: "the topic {subject} was set aside",
    AlertKind.SNAPSHOT_FAILED: "a snapshot of {subject} has failed",
    AlertKind.PART_DOWN: "{subject} isn't ready",
    AlertKind.SERVICE_ENDED: "the service has ended",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What has stopped (`subject`: a table, a topic, an actor or the pipeline), where, and why."""

    kind: AlertKind
    subject: str
    part: str
    reason: str

    @property
    def key(self) -> str:
        """Returns what two looks at the same trouble have in common: its reason may be worded otherwise."""
        return json.dumps([self.kind, self.subject, self.part])


@dataclass(frozen=True, slots=True)
class Alert:
    """A trouble that was first seen `at` (s since the epoch)."""

    trouble: Trouble
    at: float

    def document(self, pipeline: str) -> dict[str, str]:
        """Returns what the webhook gets. `text` is a line for people, as chats show it."""
        trouble, reason = self.trouble, self.trouble.reason
        if len(reason) > LONGEST_REASON:
            reason = f"{reason[: LONGEST_REASON - LAST_OF_REASON - 1]}…{reason[-LAST_OF_REASON:]}"
        said = _WORDS[trouble.kind].format(subject=trouble.subject)
        return {
            "id": sha256(json.dumps([pipeline, trouble.key, self.at]).encode()).hexdigest()[:16],
            "kind": trouble.kind.value,
            "pipeline": pipeline,
            "subject": trouble.subject,
            "part": trouble.part,
            "reason": reason,
            "at": f"{(_EPOCH + timedelta(seconds=int(self.at))).isoformat()}+00:00",
            "text": f"Tidemark {pipeline}: {said} ({trouble.part}): {reason}",
        }


def troubles_of(status: Mapping[str, Any]) -> Iterator[Trouble]:
    """Returns the troubles of tables and topics in the service's status (`GET /status`).

    A table that somebody has left out of the configuration, or has dropped, is none.
    """
    for table, reason in status["stopped"].items():
        if not reason.startswith(LEFT_OUT):
            yield Trouble(AlertKind.TABLE_STOPPED, table, "capture", reason)
    for table, delivery in status["actors"]["SparkSink"].get("tables", {}).items():
        if delivery["stopped"] and delivery["lasting"]:
            yield Trouble(AlertKind.TABLE_STOPPED, table, "lake", delivery["stopped"])
    for topic, reason in status["actors"].get("KafkaSink", {}).get("set_aside", {}).items():
        yield Trouble(AlertKind.TOPIC_SET_ASIDE, topic, "kafka", reason)
    for snapshot in status["snapshots"]:
        for table in snapshot["tables"]:
            if snapshot["verification"] or table["state"] != "failed":
                continue
            if not table["reason"].startswith((LEFT_OUT, DROPPED)):
                name = TableId(table["database"], table["table"])
                reason = reason_without_keys(table["reason"])
                yield Trouble(AlertKind.SNAPSHOT_FAILED, str(name), snapshot["id"], reason)


@dataclass(frozen=True, slots=True)
class State:
    """`seen`: by key, when a trouble that is or was an alert was there last. `waiting`: the alerts that the webhook
    hasn't taken, the oldest first. `tries`: how many were refused since one was taken. `next_at`: when the next one is
    posted. `posting`: the one that is under way. `down`: of each actor, since when and until when it wasn't ready.
    Times in s since the epoch.
    """

    seen: Mapping[str, float] = field(default_factory=dict)
    waiting: tuple[Alert, ...] = ()
    tries: int = 0
    next_at: float = 0.0
    posting: Alert | None = None
    down: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def to_json(state: State) -> dict[str, Any]:
    """Returns what a restart has to know."""
    waiting = [
        [each.trouble.kind, each.trouble.subject, each.trouble.part, each.trouble.reason, each.at]
        for each in state.waiting
    ]
    return {"seen": list(state.seen), "waiting": waiting}


def from_json(value: Mapping[str, Any], now: float) -> State:
    """Returns the state at a start, at which no trouble is gone yet.

    Raises ValueError, KeyError, TypeError or AttributeError for anything else than `to_json` made.
    """
    waiting = tuple(
        Alert(Trouble(AlertKind(kind), subject, part, reason), float(at))
        for kind, subject, part, reason, at in value["waiting"]
    )
    return State({str(key): now for key in value["seen"]}, waiting)


def interrupted(state: State) -> State:
    """Returns the state when an attempt to post was broken off: the alert still waits."""
    return replace(state, posting=None)
