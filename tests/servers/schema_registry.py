"""A real schema registry, a reader by its schemas, and a door before it, with TLS, that may be shut for a while."""

import asyncio
import io
import json
import ssl
import urllib.request
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import fastavro
import pytest
from aiohttp import web

from deploy.toolchain.parts import Parts
from deploy.toolchain.schema_registry import SchemaRegistryServer
from pipeline.config.secret import Secret

__all__ = ["schema_registry"]

_USER: Final = "tidemark"
_PASSWORD: Final = "sesame"
# The settings of a client that the `door` lets in.
LOGIN: Final[dict[str, Any]] = {
    "schema_registry_username": _USER,
    "schema_registry_password": Secret(_PASSWORD),
}


@pytest.fixture(scope="session")
def schema_registry(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistryServer]:
    """One registry for the whole session. Leave it running."""
    assert parts.schema_registry is not None, "run `make setup-tests`"
    with SchemaRegistryServer(parts.schema_registry, tmp_path_factory.mktemp("registry")) as server:
        yield server


async def asked(url: str, method: str = "GET", body: dict[str, Any] | None = None) -> Any:
    """What a registry answers."""
    async with aiohttp.ClientSession() as session, session.request(method, url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json(content_type=None)


class AvroReader:
    """Reads messages as any consumer does: by the schema that the registry has for the id in the message."""

    def __init__(self, registry: SchemaRegistryServer) -> None:
        self._registry = registry
        self._schemas: dict[int, Any] = {}

    def read(self, message: bytes) -> Any:
        """What a key or a value says."""
        assert message[0] == 0
        number = int.from_bytes(message[1:5], "big")
        if number not in self._schemas:
            self._schemas[number] = fastavro.parse_schema(json.loads(self._schema(number)))
        stream = io.BytesIO(message[5:])
        read = fastavro.schemaless_reader(stream, self._schemas[number], None)
        assert stream.read() == b""
        return read

    def _schema(self, number: int) -> str:
        url = f"{self._registry.url}/schemas/ids/{number}"
        with urllib.request.urlopen(url) as answer:
            told: str = json.load(answer)["schema"]
        return told


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer of something that is no registry, or one that fails."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Door:
    """Where the registry is found by https. `statuses`: what the next requests get instead of its answers.

    Requests whose path has `fails` in it get `failure`, if it isn't empty. A failure that is None is cut off. No
    request gets an answer while `answers` is clear.
    """

    url: str = ""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    statuses: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    fails: str = ""
    failure: Failure | None = field(default_factory=lambda: Failure(500, b'{"message": "no room for it"}'))


@asynccontextmanager
async def door(registry: SchemaRegistryServer, certificate: Path) -> AsyncIterator[Door]:
    """A door at 127.0.0.1 with this certificate and its key."""
    opened, login = Door(), "Basic " + b64encode(f"{_USER}:{_PASSWORD}".encode()).decode()

    async def passed(request: web.Request) -> web.StreamResponse:
        opened.requests.append(f"{request.method} {request.path}")
        await opened.answers.wait()
        if request.headers.get("Authorization") != login:
            return web.Response(status=401)
        if opened.statuses:
            return web.Response(status=opened.statuses.pop(0), text=json.dumps({"message": "not now"}))
        if opened.fails and opened.fails in request.path:
            return await _failed(request, opened.failure)
        url = registry.url + request.path
        headers = {"Content-Type": request.headers["Content-Type"]}
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, data=await request.read(), headers=headers) as answer,
        ):
            return web.Response(
                status=answer.status, body=await answer.read(), content_type="application/json"
            )

    opened.answers.set()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", passed)
    runner = web.AppRunner(application)
    await runner.setup()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        opened.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        yield opened
    finally:
        await runner.cleanup()


async def _failed(request: web.Request, failure: Failure | None) -> web.StreamResponse:
    if failure is not None:
        return web.Response(status=failure.status, body=failure.body, headers=failure.headers)
    cut = web.StreamResponse(headers={"Content-Length": "100"})
    await cut.prepare(request)
    await cut.write(b'{"id": 1')
    assert request.transport is not None
    request.transport.abort()
    return cut
