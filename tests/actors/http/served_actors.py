"""A served HTTP server, for tests: its supervisor runs tiny actors."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from actors.http.changes.readers import ChangesReaders
from actors.http.connections import ConnectionLimits
from actors.http.server import HttpServer
from actors.journal.recent_entries import RecentEntries
from actors.runtime.actor import Actor
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.runtime.recent_events import RecentEvents
from actors.runtime.supervisor import RestartLimits, Supervisor
from actors.signals.rest import SignalRest
from actors.status.applied_watch import AppliedWatch
from actors.status.status_board import StatusBoard
from pipeline.config.settings import (
    HttpSettings,
    JournalSettings,
    LakeSettings,
    Settings,
    SourceSettings,
)
from pipeline.errors import Backoff, Transient
from pipeline.messages.topology import ActorName as Name
from pipeline.messages.topology import Group, inbox
from pipeline.schema.table_filter import TableFilter
from tests.pipeline.builders import gtids

# Nothing listens at the source's port.
SHOP = Settings(
    "shop",
    TableFilter((r"shop\..*",)),
    SourceSettings("127.0.0.1", "tidemark", 1, server_id=7),
    JournalSettings("journal"),
    LakeSettings("lake"),
)


class Plain(Actor[Any]):
    """Does nothing, and says so."""

    def __init__(self, name: Name, bench: "Bench") -> None:
        super().__init__(bench.mailboxes[name], bench.metrics)
        self.name = name  # type: ignore[misc]
        self._bench = bench

    async def run(self) -> None:
        self._bench.has_begun(self.name)
        await super().run()

    async def handle(self, message: Any) -> None:
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        return self._bench.said.get(self.name, {})

    def not_ready(self) -> str | None:
        return self._bench.reasons.get(self.name)


class Bench:
    """A server with everything that it needs."""

    def __init__(
        self,
        address: Path,
        answer_within_s: float,
        settings: HttpSettings,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.address = address
        self.metrics = Metrics()
        self.mailboxes: dict[Name, Mailbox[Any]] = {name: Mailbox(inbox(name)) for name in Name}
        self.said: dict[Name, dict[str, Any]] = {}
        self.reasons: dict[Name, str] = {}
        self.fails: set[Group] = set()
        self.begun: set[Name] = set()
        self.all_begun = asyncio.Event()
        self.signals = SignalRest()
        self.supervisor = Supervisor(self.build, self.mailboxes, self.metrics, RestartLimits(Backoff(60, 60)))
        self.recent = RecentEvents()
        self.board = StatusBoard("shop", self.supervisor, self.mailboxes, self.metrics, self.recent)
        self.applied = AppliedWatch(SHOP, self.metrics)
        self.changes = ChangesReaders(
            replace(SHOP, journal=JournalSettings(str(address.with_name("journal")))),
            self.metrics,
            RecentEntries(),
        )
        self.server = HttpServer(
            settings,
            address,
            self.board,
            self.metrics,
            self.signals,
            self.applied,
            self.changes,
            answer_within_s,
            limits,
        )

    async def build(self, group: Group) -> tuple[Actor[Any], ...]:
        if group in self.fails:
            self.has_begun(*group.actors)
            raise Transient("Spark's JVM ended")
        return tuple(Plain(name, self) for name in group.actors)

    def has_begun(self, *names: Name) -> None:
        self.begun.update(names)
        if self.begun == set(Name):
            self.all_begun.set()

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        status, _, text = await self.ask("GET", path, headers)
        return status, text

    async def ask(
        self, method: str, path: str, headers: dict[str, str]
    ) -> tuple[int, Mapping[str, str], str]:
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, self.server.url + path, headers=headers) as answer,
        ):
            live = answer.content_type == "text/event-stream"  # which has no end
            text = (await answer.content.readuntil(b"\n\n")).decode() if live else await answer.text()
            return answer.status, answer.headers, text

    async def post(self, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": "application/json", **headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = self.server.url + "/signals"
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=data, headers=headers) as answer,
        ):
            return answer.status, await answer.json()


@asynccontextmanager
async def served(
    tmp_path: Path,
    *,
    fails: set[Group] | None = None,
    within_s: float = 5.0,
    settings: HttpSettings = HttpSettings(),  # noqa: B008 - it's frozen
    limits: ConnectionLimits | None = None,
) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path / "journal" / "http.json", within_s, settings, limits)
    bench.fails = fails or set()
    async with asyncio.timeout(60), bench.server:
        run = asyncio.create_task(bench.supervisor.run())
        try:
            await bench.all_begun.wait()
            yield bench
        finally:
            bench.supervisor.stop()
            await run


def applied_path(gtid_set: str, **more: str) -> str:
    return "/applied?" + urlencode({"gtid_set": str(gtids(gtid_set)), **more})
