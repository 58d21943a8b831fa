"""Posts alerts to a webhook, beside everything else: nothing waits for it, and its failures stop nothing.

`pipeline.signals.alerts.step` decides. An attempt takes `POST_S` at most, and the last attempts of a service that ends
take `END_S` together. What the webhook hasn't taken by then is posted by the next start.

The address may be a secret, so no log has more of it than its host.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

import aiohttp
import structlog

from actors.runtime.filesystem import put_file
from actors.runtime.measuring import contain_errors
from actors.runtime.secret_files import current_secret
from pipeline.config.settings import AlertSettings
from pipeline.signals.alerts import state as alert_state
from pipeline.signals.alerts import step as alerts
from pipeline.signals.alerts.state import Alert, State, interrupted, troubles_of

log = structlog.get_logger()

LOOK_EVERY_S: Final = 2.0
POST_S: Final = 10.0
END_S: Final = 5.0


class AlertWebhook:
    """Looks at the service, and posts what is wrong.

    `status` and `not_ready`: what the service says of itself. `file`: where the state is kept.
    """

    def __init__(
        self,
        settings: AlertSettings,
        pipeline: str,
        file: Path,
        status: Callable[[], Mapping[str, Any]],
        not_ready: Callable[[], Mapping[str, str]],
    ) -> None:
        self._settings = settings
        self._pipeline = pipeline
        self._file = file
        self._status = status
        self._not_ready = not_ready
        self._state = _kept(file)
        self._refused = False

    async def run(self) -> None:
        """Looks now and then, until cancelled."""
        self._state = interrupted(self._state)
        async with aiohttp.ClientSession() as session:
            while True:
                down = self._not_ready()
                await self._take_in(alerts.StatusSeen(tuple(troubles_of(self._status())), down), session)
                await asyncio.sleep(LOOK_EVERY_S)

    async def end(self, reason: str) -> None:
        """Posts that the service has ended, and what still waits."""
        self._state = interrupted(self._state)
        try:
            async with asyncio.timeout(END_S), aiohttp.ClientSession() as session:
                await self._take_in(alerts.ServiceEnded(reason), session)
        except TimeoutError:
            log.warning("the webhook of alerts hasn't answered in time; the next start posts what is left")

    async def _take_in(self, fact: alerts.Fact, session: aiohttp.ClientSession) -> None:
        """Takes a fact in, and performs what follows until nothing does."""
        facts = [fact]
        while facts:
            self._state, orders = alerts.step(self._state, facts.pop(), time.time())
            for order in orders:
                match order:
                    case alerts.PostAlert(alert):
                        taken = await self._post(alert.document(self._pipeline), session)
                        facts.append(alerts.AlertTaken() if taken else alerts.AlertRefused())
                    case alerts.KeepAlerts():
                        await asyncio.to_thread(self._keep)
                    case alerts.ReportLost(alert):
                        self._report_lost(alert)
                    case _:
                        assert_never(order)

    async def _post(self, document: Mapping[str, str], session: aiohttp.ClientSession) -> bool:
        host = "?"
        try:
            address = await asyncio.to_thread(current_secret, self._settings.webhook)
            host = urlsplit(address).hostname or "?"
            limit = aiohttp.ClientTimeout(total=POST_S)
            async with session.post(address, json=document, timeout=limit, allow_redirects=False) as answer:
                why = "" if answer.ok and answer.status < 300 else f"it answered {answer.status}"
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = type(error).__name__  # whose text may have the address
        self._report(why, host)
        return not why

    @contain_errors
    def _report(self, why: str, host: str) -> None:
        if why and not self._refused:
            log.warning("the webhook didn't take an alert; it's posted again", host=host, reason=why)
        elif self._refused and not why:
            log.info("the webhook takes alerts again", host=host)
        self._refused = bool(why)

    @contain_errors
    def _report_lost(self, alert: Alert) -> None:
        log.warning("an alert is given up", alert=alert.document(self._pipeline)["text"])

    def _keep(self) -> None:
        try:
            put_file(self._file, json.dumps(alert_state.to_json(self._state)).encode())
        except OSError as error:
            log.warning("the alerts can't be kept: a restart may post them again", reason=str(error))


def _kept(file: Path) -> State:
    """Returns the state that an earlier run has kept, or an empty one."""
    try:
        return alert_state.from_json(json.loads(file.read_bytes()), time.time())
    except FileNotFoundError:
        return State()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning(
            "the kept alerts can't be read: they may be posted again", file=str(file), reason=str(error)
        )
        return State()
