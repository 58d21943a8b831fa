"""The HTTP server before a service that runs in the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from actors.http.server import HttpServer
from actors.runtime.recent_events import RecentEvents
from actors.status.status_board import StatusBoard
from pipeline.config.settings import HttpSettings
from tests.servers.service import Running


@dataclass(frozen=True, slots=True)
class Web:
    """The address of the service, and its status board."""

    url: str
    board: StatusBoard


@asynccontextmanager
async def web(
    service: Running, settings: HttpSettings, folder: Path, *, looking: bool = False
) -> AsyncIterator[Web]:
    """The service's HTTP server; `looking`: the board looks by itself, as it does in a real service."""
    recent = RecentEvents()
    before = structlog.get_config()["processors"]
    structlog.configure(processors=[structlog.stdlib.add_log_level, _named, recent, *before])
    assembly = service.assembly
    board = StatusBoard("shop", service.supervisor, assembly.mailboxes, assembly.metrics, recent)
    server = HttpServer(
        settings,
        folder / "http.json",
        board,
        assembly.metrics,
        assembly.requests,
        assembly.applied,
        assembly.changes,
    )
    async with server:
        looks = asyncio.create_task(board.run()) if looking else None
        try:
            yield Web(server.url, board)
        finally:
            structlog.configure(processors=before)
            if looks is not None:
                looks.cancel()
                await asyncio.wait({looks})


def _named(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The logger's name, which this test's logging hasn't."""
    return {"logger": "actors.test", **event}
