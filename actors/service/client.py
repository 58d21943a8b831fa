"""The command line's side of HTTP: finds the running service of a configuration and asks it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp

from actors.http.certificate import command_line_context
from actors.runtime.secret_files import read_secret
from actors.runtime.state_folder import local_folder
from pipeline.config.settings import Settings
from pipeline.errors import Definite, Transient
from pipeline.journal.request_parameters import LONGEST_WAIT_S

# A signal is answered once it's durable; the service itself stops waiting a little earlier.
SIGNAL_PATIENCE_S = 40.0


class NotRunning(Definite):
    """No service of this configuration answers."""


def address_file(settings: Settings) -> Path:
    """Where the running service says where it listens."""
    return local_folder(settings.journal.path, settings.name) / "http.json"


def token_file(settings: Settings) -> Path:
    """Where the token is that the service makes for itself on loopback, if the configuration has none."""
    return address_file(settings).with_name("http-token")


def get(settings: Settings, path: str) -> dict[str, Any]:
    """Returns the JSON of a GET. Raises NotRunning, or Transient if the service failed to answer."""
    status, value = asyncio.run(_ask(settings, "GET", path, None))
    if status != HTTPStatus.OK:
        raise Transient(f"the service of {settings.name} failed to answer: {value.get('error', status)}")
    return value


def post(settings: Settings, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Returns the status and JSON of a POST. Raises NotRunning."""
    return asyncio.run(_ask(settings, "POST", path, body))


def wait_applied(
    settings: Settings, parameters: Mapping[str, str], timeout_s: float
) -> tuple[int, dict[str, Any]]:
    """Returns the status and JSON of GET /applied, which answers after `timeout_s` at the latest. Raises NotRunning."""
    path = f"/applied?{urlencode({**parameters, 'timeout_s': timeout_s})}"
    # A longer time is refused at once.
    patience_s = min(timeout_s, LONGEST_WAIT_S) + SIGNAL_PATIENCE_S
    return asyncio.run(_ask(settings, "GET", path, None, patience_s))


async def follow_changes(settings: Settings, parameters: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Returns the bytes of GET /changes as they come. Raises NotRunning, Definite if the service refuses, or Transient
    if the answer breaks off."""
    timeout = aiohttp.ClientTimeout(total=None, sock_read=SIGNAL_PATIENCE_S)
    async with (
        _reaching(settings, timeout) as session,
        session.get("/changes", params=parameters) as answer,
    ):
        if answer.status != HTTPStatus.OK:
            said = (await answer.json()).get("error", answer.status)
            raise (Transient if answer.status >= HTTPStatus.TOO_MANY_REQUESTS else Definite)(said)
        try:
            async for data in answer.content.iter_any():
                yield data
        except aiohttp.ClientPayloadError as error:
            raise Transient(f"the service of {settings.name} sends no more changes") from error


@asynccontextmanager
async def _reaching(
    settings: Settings, patience: aiohttp.ClientTimeout
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session with the service, with what it wants to be shown. Raises NotRunning for what fails within."""
    try:
        url = json.loads(address_file(settings).read_text(encoding="utf-8"))["url"]
        token = settings.http.token.value or settings.http.read_token.value or _made_token(settings)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        tls = settings.http.tls
        connector = aiohttp.TCPConnector(ssl=True if tls is None else command_line_context(tls))
        async with aiohttp.ClientSession(
            url, timeout=patience, headers=headers, connector=connector
        ) as session:
            yield session
    except FileNotFoundError as error:
        raise NotRunning(
            f"the service of {settings.name} isn't running; start it with `tidemark run`"
        ) from error
    # Another program may have taken the port of a service that was killed.
    except (OSError, aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise NotRunning(
            f"the service of {settings.name} doesn't answer ({error}); start it with `tidemark run`"
        ) from error


async def _ask(
    settings: Settings,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    patience_s: float = SIGNAL_PATIENCE_S,
) -> tuple[int, dict[str, Any]]:
    timeout = aiohttp.ClientTimeout(patience_s)
    async with (
        _reaching(settings, timeout) as session,
        session.request(method, path, json=body) as answer,
    ):
        value = await answer.json()
        if not isinstance(value, dict):
            raise ValueError(f"{answer.url} gives something else")
        return answer.status, value


def _made_token(settings: Settings) -> str:
    try:
        return read_secret(token_file(settings)).value
    except OSError:
        return ""  # there's none, or it's another user's
