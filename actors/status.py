"""What the service says of itself: `/status` and `/readyz`.

Each actor tells its own part (`Actor.status`, `Actor.not_ready`); here they are put together, with the pace
of snapshots (`pace`), which takes looking more than once.
"""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from actors.mailbox import Mailbox
from actors.metrics import Metrics
from actors.pace import Paces
from actors.signal_listener import SignalListener
from actors.supervisor import State, Supervisor
from pipeline import metrics as catalogue
from pipeline.signal_states import SignalState
from pipeline.topology import Actor as Name

LOOK_EVERY_S = 1.0


class StatusBoard:
    """Puts together what the actors say."""

    def __init__(
        self, name: str, supervisor: Supervisor, mailboxes: Mapping[Name, Mailbox[Any]], metrics: Metrics
    ) -> None:
        self._name = name
        self._supervisor = supervisor
        self._mailboxes = mailboxes
        self._metrics = metrics
        self._paces = Paces()

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
        selector = said.get(Name.CHUNK_SELECTOR, {})
        return {
            "name": self._name,
            "ready": not self.not_ready(),
            "position": capture.get("position"),
            "lag_seconds": self._metrics.value(catalogue.SOURCE_LAG),
            "paused": capture.get("paused", False),
            "busy": capture.get("busy") or selector.get("waits"),
            "no_room": said.get(Name.JOURNAL_WRITER, {}).get("no_room"),
            "snapshots": self._paces.told(capture),
            "windows": capture.get("windows", []),
            "stopped": capture.get("stopped", {}),
            "keyless": capture.get("keyless", []),
            "consumers": said.get(Name.JOURNAL_WRITER, {}).get("consumers", {}),
            "late": delivery.get("late", []),
            "delivered_position": delivery.get("position"),
            "freshness_seconds": delivery.get("freshness_seconds"),
            "actors": {name.value: {**said.get(name, {}), **self._life(name)} for name in Name},
        }

    def signal(self, id_: str) -> SignalState | None:
        """How far a signal has come, None if it's unknown."""
        listener = self._supervisor.actors.get(Name.SIGNAL_LISTENER)
        return listener.signal(id_) if isinstance(listener, SignalListener) else None

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
        capture = coordinator.status() if coordinator is not None else {}
        self._paces.look(now, capture.get("snapshots", []))
        self._metrics.forget(catalogue.SNAPSHOT_LEFT)
        for snapshot in self._paces.told(capture):
            for table in snapshot["tables"]:
                if table["left_seconds"] is not None:
                    name = f"{table['database']}.{table['table']}"
                    self._metrics.set(catalogue.SNAPSHOT_LEFT, table["left_seconds"], table=name)
