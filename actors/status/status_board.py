"""The service's reports about itself: `/status`, `/readyz` and the others.

Each actor reports its own part (`Actor.status`, `Actor.not_ready`). This module combines them, and adds what needs
several looks. That is the rate of snapshots (`snapshot_rate`), the maps of their ranges (`range_progress`), how long
windows have been open, and the last minutes (`history`). A follower waits for the next look.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from actors.runtime.actor import StatusJson
from actors.runtime.mailbox import Mailbox
from actors.runtime.measuring import contain_errors, value_or
from actors.runtime.metrics import Metrics
from actors.runtime.recent_events import RecentEvents
from actors.runtime.supervisor import LifeState, Supervisor
from actors.signal_listener import SignalListener
from actors.status import table_status
from actors.status.history import Counts, PointHistory, Undelivered
from actors.status.range_progress import RangeMaps
from actors.status.snapshot_rate import TableRates
from pipeline import metrics as catalogue
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from pipeline.signals.outcomes import SignalState

STATUS_EVERY_S = 1.0


_UNTOLD: Final = "it can't report whether it's ready; the log has the reason"


class StatusBoard:
    """Puts together what the actors say."""

    def __init__(
        self,
        name: str,
        supervisor: Supervisor,
        mailboxes: Mapping[Name, Mailbox[Any]],
        metrics: Metrics,
        recent: RecentEvents,
    ) -> None:
        self.name = name
        self.recent = recent
        self._supervisor = supervisor
        self._mailboxes = mailboxes
        self._metrics = metrics
        self._rates = TableRates()
        self._maps = RangeMaps()
        self._history = PointHistory()
        self._undelivered = Undelivered()
        self._waits_s = 0.0
        self._windows: dict[str, float] = {}  # when the window of each chunk was first seen (s, monotonic)
        self._looked = asyncio.Event()
        self.looks = 0

    async def run(self) -> None:
        """Looks at the service now and then, until cancelled."""
        while True:
            self.look(time.monotonic(), time.time())
            await asyncio.sleep(STATUS_EVERY_S)

    def look(self, now: float, at: float) -> None:
        """Look at it: `now` by a clock that doesn't go back, `at` since the epoch (both s)."""
        said = self._reports()
        capture = said.get(Name.WATERMARK_COORDINATOR, {})
        snapshots = capture.get("snapshots", [])
        self._rates.look(now, snapshots)
        self._maps.look(snapshots)
        self._windows = {w["chunk"]: self._windows.get(w["chunk"], now) for w in capture.get("windows", ())}
        self._look_at_delivery(now, at, said)
        self._measure(capture)
        self.looks += 1
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    async def next_look(self) -> None:
        """Wait until it has been looked at again."""
        await self._looked.wait()

    def not_ready(self) -> dict[str, str]:
        """By actor, why the service isn't ready; empty if it is."""
        reasons = {}
        for name, state in self._supervisor.states.items():
            if state is LifeState.ABSENT:
                continue
            if state is not LifeState.RUNNING:
                reasons[name.value] = self._supervisor.failures.get(name) or f"it's {state}"
            elif reason := self._not_ready(name):
                reasons[name.value] = reason
        return reasons

    def _not_ready(self, name: Name) -> str | None:
        untold: str | None = _UNTOLD
        return value_or(f"{name.value}.not_ready", self._supervisor.actors[name].not_ready, untold)

    def status(self) -> StatusJson:
        """All of it, as JSON values; of each actor what it says itself, and its state, mailbox and failures."""
        return self._status(self._reports())

    def _status(self, said: Mapping[Name, StatusJson]) -> StatusJson:
        capture, delivery = said.get(Name.WATERMARK_COORDINATOR, {}), said.get(Name.SPARK_SINK, {})
        selector = said.get(Name.CHUNK_SELECTOR, {})
        return {
            "name": self.name,
            "ready": not self.not_ready(),
            "position": capture.get("position"),
            "lag_seconds": self._metrics.value(catalogue.SOURCE_LAG),
            "paused": capture.get("paused", False),
            "busy": capture.get("busy") or selector.get("waits"),
            "no_room": said.get(Name.JOURNAL_WRITER, {}).get("no_room"),
            "snapshots": self._snapshots(said),
            "windows": capture.get("windows", []),
            "stopped": capture.get("stopped", {}),
            "keyless": capture.get("keyless", []),
            "consumers": said.get(Name.JOURNAL_WRITER, {}).get("consumers", {}),
            "late": delivery.get("late", []),
            "rebuilding": _rebuilding(delivery),
            "delivered_position": delivery.get("position"),
            "freshness_seconds": delivery.get("freshness_seconds"),
            "actors": {name.value: {**_once(said.get(name, {})), **self._life(name)} for name in Name},
        }

    def position(self) -> StatusJson:
        """How far the log has come in here, and from here into the lake."""
        said = self._reports()
        journal, delivery = said.get(Name.JOURNAL_WRITER, {}), said.get(Name.SPARK_SINK, {})
        return {
            "position": said.get(Name.WATERMARK_COORDINATOR, {}).get("position"),
            "source": said.get(Name.BINLOG_READER, {}).get("source"),
            "log": said.get(Name.BINLOG_READER, {}).get("log"),
            "sealed_position": journal.get("position"),
            "sealed_segment": journal.get("segment", 0),
            "delivered_position": delivery.get("position"),
            "delivered_segment": delivery.get("segment", 0),
        }

    def freshness(self) -> StatusJson:
        """How old what can be read is, and how that was in the last minutes."""
        return {
            "lag_seconds": self._metrics.value(catalogue.SOURCE_LAG),
            "freshness_seconds": self._report(Name.SPARK_SINK).get("freshness_seconds"),
            "undelivered_seconds": round(self._waits_s, 1),
            "history": self.history(),
        }

    def history(self) -> list[StatusJson]:
        """Each second of the last minutes."""
        return self._history.points()

    def last_point(self) -> StatusJson | None:
        """The newest second of the history."""
        return self._history.last()

    def snapshots(self) -> list[StatusJson]:
        """The snapshots and verifications under way and the last that have ended, the oldest first; no keys."""
        return self._snapshots(self._reports())

    def _snapshots(self, said: Mapping[Name, StatusJson]) -> list[StatusJson]:
        return [
            {**snapshot, "tables": [_without_keys(table) for table in snapshot["tables"]]}
            for snapshot in self._with_progress(said)
        ]

    def _with_progress(self, said: Mapping[Name, StatusJson]) -> list[StatusJson]:
        """Returns the snapshots with their rates, and the verifications with their results too."""
        snapshots = self._rates.with_rates(said.get(Name.WATERMARK_COORDINATOR, {}))
        return table_status.with_results(snapshots, said.get(Name.SPARK_SINK, {}).get("verifications", {}))

    def tables(self) -> list[StatusJson]:
        """Each captured table with its snapshot, its verification and its part of the lake."""
        return self._tables(self._reports())

    def _tables(self, said: Mapping[Name, StatusJson]) -> list[StatusJson]:
        capture, delivery = said.get(Name.WATERMARK_COORDINATOR, {}), said.get(Name.SPARK_SINK, {})
        return table_status.table_statuses(capture, delivery, self._with_progress(said), self._maps)

    def shown(self) -> tuple[StatusJson, list[StatusJson]]:
        """What the page shows of this moment: an overview of bounded size, and each captured table."""
        said = self._reports()
        return self._overview(said), self._tables(said)

    def _overview(self, said: Mapping[Name, StatusJson]) -> StatusJson:
        """What one looks at first: state, position, windows, journal and actors."""
        status, reasons, now = self._status(said), self.not_ready(), time.monotonic()
        reader, journal = (status["actors"][name.value] for name in (Name.BINLOG_READER, Name.JOURNAL_WRITER))
        kept = ("ready", "position", "delivered_position", "lag_seconds", "freshness_seconds", "paused")
        return {
            **{key: status[key] for key in kept},
            "undelivered_seconds": round(self._waits_s, 1),
            "reasons": reasons,
            "busy": status["busy"],
            "no_room": status["no_room"],
            "set_aside": _set_aside(said.get(Name.KAFKA_SINK, {})),
            "source": reader.get("source"),
            "log": reader.get("log"),
            "windows": [
                {
                    **{key: window[key] for key in ("snapshot", "table", "range", "state", "rows")},
                    "age_seconds": round(now - self._windows.get(window["chunk"], now), 1),
                }
                for window in status["windows"]
            ],
            "journal": {"segment": journal.get("segment", 0), "bytes": journal.get("bytes", 0)},
            "consumers": status["consumers"],
            "actors": {name.value: self._life(name) for name in Name},
        }

    def signal(self, id_: str) -> SignalState | None:
        """How far a signal has come, None if it's unknown."""
        listener = self._supervisor.actors.get(Name.SIGNAL_LISTENER)
        return listener.signal(id_) if isinstance(listener, SignalListener) else None

    def signals(self) -> list[StatusJson]:
        """How far the last signals have come, the newest last."""
        told: list[StatusJson] = self._report(Name.SIGNAL_LISTENER).get("signals", [])
        return told

    def _reports(self) -> dict[Name, StatusJson]:
        """What each actor says of itself."""
        return {name: self._report(name) for name in self._supervisor.actors}

    def _report(self, name: Name) -> StatusJson:
        """What an actor says of itself; one that isn't there, or fails to, says nothing."""
        nothing: StatusJson = {}
        actor = self._supervisor.actors.get(name)
        return nothing if actor is None else value_or(f"{name.value}.status", actor.status, nothing)

    def _life(self, name: Name) -> StatusJson:
        mailbox = self._mailboxes[name]
        return {
            "state": self._supervisor.states[name].value,
            "last_failure": self._supervisor.failures.get(name),
            "restarts": int(self._metrics.value(catalogue.RESTARTS, actor=name)),
            "mailbox": {"depth": mailbox.depth, "capacity": mailbox.capacity},
            "progress_at": self._metrics.value(catalogue.PROGRESS, actor=name) or None,
        }

    def _look_at_delivery(self, now: float, at: float, said: Mapping[Name, StatusJson]) -> None:
        journal, delivery = said.get(Name.JOURNAL_WRITER, {}), said.get(Name.SPARK_SINK, {})
        self._waits_s = self._undelivered.look(now, journal.get("segment", 0), delivery.get("segment", 0))
        fresh = delivery.get("freshness_seconds")
        counts = Counts(
            self._metrics.total(catalogue.TRANSACTIONS),
            self._metrics.total(catalogue.ROWS_READ),
            self._metrics.total(catalogue.SNAPSHOT_ROWS),
        )
        lag = self._metrics.value(catalogue.SOURCE_LAG)
        if self._waits_s:  # what waits is at least so old, however fresh the last batch was
            fresh = max(fresh or 0.0, self._waits_s)
        self._history.look(now, at, lag, fresh, counts)

    @contain_errors
    def _measure(self, capture: StatusJson) -> None:
        left: dict[tuple[str, ...], float] = {
            (str(TableId(table["database"], table["table"])),): table["left_seconds"]
            for snapshot in self._rates.with_rates(capture)
            if not snapshot.get("verification")
            for table in snapshot["tables"]
            if table["left_seconds"] is not None
        }
        self._metrics.replace(catalogue.SNAPSHOT_LEFT, left)


def _once(said: StatusJson) -> StatusJson:
    """Returns an actor's report, without what the service's own report has, and without keys there."""
    return {key: value for key, value in said.items() if key not in ("snapshots", "verifications")}


def _set_aside(topics: StatusJson) -> str | None:
    """Returns which topics are set aside, as one line; None if none is."""
    aside: Mapping[str, str] = topics.get("set_aside", {})
    if not aside:
        return None
    topic = next(iter(aside))
    if len(aside) == 1:
        return f"the topic {topic} is set aside: {aside[topic]}"
    return f"the topic {topic} and {len(aside) - 1} more are set aside: `tidemark status` has the reasons"


def _rebuilding(delivery: StatusJson) -> dict[str, float]:
    """The tables whose newest mirror readers don't have yet, and since when (s since the epoch)."""
    tables: dict[str, StatusJson] = delivery.get("tables", {})
    since = {name: told.get("rebuilding_since") for name, told in tables.items()}
    return {name: at for name, at in since.items() if at is not None}


def _without_keys(table: StatusJson) -> StatusJson:
    """Keys are values of rows, so the report has a table's progress without them (`/tables` has a map)."""
    return {key: value for key, value in table.items() if key not in ("to_go", "request")}
