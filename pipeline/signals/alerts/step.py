"""Which alerts a webhook gets, and when: something of capture or delivery has stopped.

A *trouble* is seen in the service's status as long as it lasts, and is one alert. A part of the service that isn't
ready is a trouble once that has lasted for `DOWN_S`; what a retry mends in the meantime is none.

**At least once.** An alert waits until the webhook has taken it, and its id is the same each time. `to_json` has what
waits and what was posted, so a restart continues with both. A trouble that was posted is not posted again, until it was
gone for `GONE_S`. Statuses are incomplete while the service starts, so it isn't forgotten sooner.

**Bounded.** Alerts wait in their order. The oldest is given up if `MOST` wait, or if it has waited for `KEEP_S`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, assert_never

from pipeline.errors import Backoff

# All in s, but for the numbers of alerts and of characters.
DOWN_S: Final = 120.0
GONE_S: Final = 300.0
KEEP_S: Final = 86_400.0
MOST: Final = 100
LONGEST_REASON: Final = 1000
POST_BACKOFF: Final = Backoff(1.0, 60.0)


_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - it's in UTC, and a text says so


class AlertKind(StrEnum):
    """What has stopped."""

    TABLE_STOPPED = "table-stopped"
    SNAPSHOT_FAILED = "snapshot-failed"
    PART_DOWN = "part-down"  # an actor isn't ready for long
    SERVICE_ENDED = "service-ended"


_WORDS: Final = {
    AlertKind.TABLE_STOPPED: "the table {subject} was stopped",
    AlertKind.SNAPSHOT_FAILED: "a snapshot of {subject} has failed",
    AlertKind.PART_DOWN: "{subject} isn't ready",
    AlertKind.SERVICE_ENDED: "the service has ended",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """What has stopped (`subject`: a table, an actor or the pipeline), where, and why."""

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
            reason = f"{reason[: LONGEST_REASON - 1]}…"
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


@dataclass(frozen=True, slots=True)
class StatusSeen:
    """A look at the service: its troubles, and of each actor that isn't ready the reason."""

    troubles: tuple[Trouble, ...]
    down: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServiceEnded:
    """The service has ended for this reason, and not because it was told to."""

    reason: str


@dataclass(frozen=True, slots=True)
class AlertTaken:
    """The webhook has taken the alert that was posted."""


@dataclass(frozen=True, slots=True)
class AlertRefused:
    """It hasn't."""


Fact = StatusSeen | ServiceEnded | AlertTaken | AlertRefused


@dataclass(frozen=True, slots=True)
class PostAlert:
    """Post this alert."""

    alert: Alert


@dataclass(frozen=True, slots=True)
class KeepAlerts:
    """Store the state, so that a restart has it."""


@dataclass(frozen=True, slots=True)
class ReportLost:
    """Log that this alert is given up."""

    alert: Alert


Order = PostAlert | KeepAlerts | ReportLost


@dataclass(frozen=True, slots=True)
class State:
    """`seen`: by key, when a trouble that is or was an alert was there last. `waiting`: the alerts that the webhook
    hasn't taken, the oldest first. `tries`: how often the first one was refused. `next_at`: when it is posted again.
    `down`: of each actor, since when and until when it wasn't ready. Times in s since the epoch.
    """

    seen: Mapping[str, float] = field(default_factory=dict)
    waiting: tuple[Alert, ...] = ()
    tries: int = 0
    next_at: float = 0.0
    posting: bool = False
    down: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def step(state: State, fact: Fact, now: float) -> tuple[State, tuple[Order, ...]]:
    """Returns the state after a fact, and the orders that follow; `now` in s since the epoch."""
    match fact:
        case StatusSeen(troubles, down):
            after = _see(state, troubles, down, now)
        case ServiceEnded(reason):
            ended = Trouble(AlertKind.SERVICE_ENDED, "service", "service", reason)
            after = replace(state, waiting=(*state.waiting, Alert(ended, now)), next_at=now)
        case AlertTaken():
            after = replace(state, waiting=state.waiting[1:], tries=0, next_at=now, posting=False)
        case AlertRefused():
            tries = state.tries + 1
            after = replace(state, tries=tries, next_at=now + POST_BACKOFF.pause_s(tries), posting=False)
        case _:
            assert_never(fact)
    after, lost = _bounded(after, now)
    orders: tuple[Order, ...] = tuple(map(ReportLost, lost))
    if (after.waiting, after.seen.keys()) != (state.waiting, state.seen.keys()):
        orders = (*orders, KeepAlerts())
    if after.waiting and not after.posting and after.next_at <= now:
        return replace(after, posting=True), (*orders, PostAlert(after.waiting[0]))
    return after, orders


def _see(state: State, troubles: tuple[Trouble, ...], down: Mapping[str, str], now: float) -> State:
    spells = {name: spell for name, spell in state.down.items() if now - spell[1] < DOWN_S}
    spells |= {name: (spells.get(name, (now, now))[0], now) for name in down}
    lasting = (
        Trouble(AlertKind.PART_DOWN, name, name, reason)
        for name, reason in down.items()
        if now - spells[name][0] >= DOWN_S
    )
    found = (*troubles, *lasting)
    new = {each.key: Alert(each, now) for each in found if each.key not in state.seen}
    seen = {key: at for key, at in state.seen.items() if now - at < GONE_S} | {
        each.key: now for each in found
    }
    return replace(state, seen=seen, waiting=(*state.waiting, *new.values()), down=spells)


def _bounded(state: State, now: float) -> tuple[State, tuple[Alert, ...]]:
    """Returns the state without the alerts that are given up, and these. One that is being posted stays."""
    first = state.waiting[:1] if state.posting else ()
    rest = state.waiting[len(first) :]
    kept = tuple(alert for alert in rest if now - alert.at < KEEP_S)[-MOST:]
    lost = tuple(alert for alert in rest if alert not in kept)
    return replace(state, waiting=(*first, *kept)), lost


def troubles_of(status: Mapping[str, Any]) -> Iterator[Trouble]:
    """Returns the troubles of tables in the service's status (`GET /status`)."""
    for table, reason in status["stopped"].items():
        yield Trouble(AlertKind.TABLE_STOPPED, table, "capture", reason)
    for table, told in status["actors"]["SparkSink"].get("tables", {}).items():
        if told["stopped"]:
            yield Trouble(AlertKind.TABLE_STOPPED, table, "lake", told["stopped"])
    for snapshot in status["snapshots"]:
        for table in snapshot["tables"]:
            if table["state"] == "failed":
                name = f"{table['database']}.{table['table']}"
                yield Trouble(AlertKind.SNAPSHOT_FAILED, name, snapshot["id"], table["reason"])


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
    return replace(state, posting=False)
