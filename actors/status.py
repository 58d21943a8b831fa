"""What the service says of itself: `/status` and `/readyz`.

Each actor tells its own part (`Actor.status`, `Actor.not_ready`); here they are put together, with the pace
of snapshots, which takes looking more than once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from actors.mailbox import Mailbox
from actors.metrics import Metrics
from actors.supervisor import State, Supervisor
from pipeline import metrics as catalogue
from pipeline.topology import Actor as Name

LOOK_EVERY_S = 1.0
PACE_OVER_S = 30.0


class Pace:
    """How fast a count grows: rows a second over the last PACE_OVER_S seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def look(self, now: float, count: int) -> None:
        """The count at a moment (s, any clock that doesn't go back)."""
        self._seen.append((now, count))
        while len(self._seen) > 2 and now - self._seen[1][0] >= PACE_OVER_S:
            self._seen.popleft()

    def per_second(self) -> float | None:
        """None before there's been time enough to tell."""
        if len(self._seen) < 2 or self._seen[-1][0] <= self._seen[0][0]:
            return None
        (since, first), (now, last) = self._seen[0], self._seen[-1]
        return (last - first) / (now - since)


class StatusBoard:
    """Puts together what the actors say."""

    def __init__(
        self, name: str, supervisor: Supervisor, mailboxes: Mapping[Name, Mailbox[Any]], metrics: Metrics
    ) -> None:
        self._name = name
        self._supervisor = supervisor
        self._mailboxes = mailboxes
        self._metrics = metrics
        self._paces: dict[tuple[str, str], Pace] = {}

    async def run(self) -> None:
        """Look at the snapshots' progress now and then, for ever."""
        while True:
            self._look(time.monotonic())
            await asyncio.sleep(LOOK_EVERY_S)

    def not_ready(self) -> dict[str, str]:
        """By actor, why the service isn't ready; empty if it is."""
        reasons = {}
        for name, state in self._supervisor.states.items():
            if state is not State.RUNNING:
                reasons[name.value] = self._supervisor.failures.get(name) or f"it's {state}"
            elif reason := self._supervisor.actors[name].not_ready():
                reasons[name.value] = reason
        return reasons

    def status(self) -> dict[str, Any]:
        """All of it, as JSON values; of each actor what it says itself, and its state, mailbox and failures."""
        said = {name: actor.status() for name, actor in self._supervisor.actors.items()}
        capture, delivery = said.get(Name.WATERMARK_COORDINATOR, {}), said.get(Name.SPARK_SINK, {})
        return {
            "name": self._name,
            "ready": not self.not_ready(),
            "position": capture.get("position"),
            "lag_seconds": self._metrics.value(catalogue.SOURCE_LAG),
            "paused": capture.get("paused", False),
            "snapshots": [self._snapshot(snapshot) for snapshot in capture.get("snapshots", [])],
            "windows": capture.get("windows", []),
            "stopped": capture.get("stopped", {}),
            "delivered_position": delivery.get("position"),
            "freshness_seconds": delivery.get("freshness_seconds"),
            "actors": {name.value: {**said.get(name, {}), **self._life(name)} for name in Name},
        }

    def _life(self, name: Name) -> dict[str, Any]:
        mailbox = self._mailboxes[name]
        return {
            "state": self._supervisor.states[name].value,
            "last_failure": self._supervisor.failures.get(name),
            "restarts": int(self._metrics.value(catalogue.RESTARTS, actor=name)),
            "mailbox": {"depth": mailbox.depth, "capacity": mailbox.capacity},
            "progress_at": self._metrics.value(catalogue.PROGRESS, actor=name) or None,
        }

    def _look(self, now: float) -> None:
        coordinator = self._supervisor.actors.get(Name.WATERMARK_COORDINATOR)
        running: dict[tuple[str, str], Pace] = {}
        for snapshot in coordinator.status()["snapshots"] if coordinator is not None else ():
            for table in snapshot["tables"]:
                if table["state"] == "chunking":
                    key = _key(snapshot, table)
                    running[key] = self._paces.get(key, Pace())
                    running[key].look(now, table["rows"] + table["given_up"])
        self._paces = running

    def _snapshot(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        return {**snapshot, "tables": [self._table(snapshot, table) for table in snapshot["tables"]]}

    def _table(self, snapshot: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
        pace = self._paces.get(_key(snapshot, table))
        speed = pace.per_second() if pace is not None else None
        if not speed:
            return table
        left = max(0, table["expected"] - table["rows"] - table["given_up"])
        return {**table, "rows_per_second": round(speed, 1), "left_seconds": round(left / speed, 1)}


def _key(snapshot: dict[str, Any], table: dict[str, Any]) -> tuple[str, str]:
    return snapshot["id"], f"{table['database']}.{table['table']}"
