"""A real browser, and what has to hold of every page in it: nothing in its console, nothing from elsewhere."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

from deploy.toolchain.parts import locate

# It has no sandbox in a container, fetches no updates, and draws the same everywhere.
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

WITHIN_MS = 60_000


@asynccontextmanager
async def launched() -> AsyncIterator[Browser]:
    """A browser."""
    program = locate().browser
    assert program is not None, "there's no browser yet: run `make test`, or the toolchain's `setup --tests`"
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=program, args=list(OPTIONS))
        try:
            yield opened
        finally:
            await opened.close()


@dataclass  # without slots: playwright keeps its wrappers of the methods in it
class Seen:
    """What a page did that it shouldn't have."""

    url: str
    complaints: list[str] = field(default_factory=list)

    def console(self, message: ConsoleMessage) -> None:
        """Whatever a page says there that's more than information is a complaint."""
        lost = "net::ERR" in message.text or "Failed to load resource" in message.text
        if message.type in ("error", "warning") and not lost:
            self.complaints.append(f"console: {message.text}")

    def error(self, error: Exception) -> None:
        """An exception that no code caught."""
        self.complaints.append(f"uncaught: {error}")

    def request(self, request: Request) -> None:
        """Everything comes from the service."""
        if not request.url.startswith((self.url, "blob:" + self.url)):
            self.complaints.append(f"request: {request.url}")


@asynccontextmanager
async def page(opened: Browser, url: str, **context: Any) -> AsyncIterator[Page]:
    """A page for this address, in a context of its own; what it does wrong fails the test at the end."""
    private = await opened.new_context(**{"viewport": {"width": 1440, "height": 1000}, **context})
    private.set_default_timeout(WITHIN_MS)
    seen = Seen(url)
    try:
        shown = await private.new_page()
        shown.on("console", seen.console)
        shown.on("pageerror", seen.error)
        shown.on("request", seen.request)
        yield shown
    finally:
        await private.close()
    assert seen.complaints == []
