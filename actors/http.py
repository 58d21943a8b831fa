"""The service over HTTP, on loopback.

    GET  /livez     200 while the event loop turns
    GET  /readyz    200 while the log is streaming and Spark is up, else 503 and the reasons; lag is no reason
    GET  /metrics   Prometheus' text format
    GET  /status    position, lag, actors, snapshots, journal and lake as JSON
    POST /signals   a signal in Debezium's JSON; waits for its answer
                    200 accepted, 409 rejected, 422 not a signal, 503 not answered: send it again with the
                    same id
    GET  /signals/{id}   how far the signal has come, by whichever channel it came; 404 if it's unknown

Errors are JSON with the one key `error`. Nothing is authenticated, so that only loopback is listened on,
requests have to name it as their host, and a signal has to say that it's JSON: a web page in somebody's
browser can do neither (DNS rebinding, cross-site requests).
"""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog
from aiohttp import web

from actors.metrics import Metrics
from actors.signal_rest import SignalRest, Unanswered
from actors.status import StatusBoard
from pipeline import metrics as catalogue
from pipeline.errors import Definite
from pipeline.messages import SignalAccepted
from pipeline.settings import HttpSettings
from pipeline.signals import LONGEST, MalformedSignal, parse

log = structlog.get_logger()

# How long a request waits for the answer to its signal, in seconds.
ANSWER_WITHIN_S = 30.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    """Serves while it's entered (`async with`); `url` is where."""

    def __init__(
        self,
        settings: HttpSettings,
        address_file: Path,
        board: StatusBoard,
        metrics: Metrics,
        signals: SignalRest,
        answer_within_s: float = ANSWER_WITHIN_S,
    ) -> None:
        self.url = ""
        self._settings = settings
        self._address_file = address_file
        self._board = board
        self._metrics = metrics
        self._signals = signals
        self._answer_within_s = answer_within_s
        app = web.Application(client_max_size=LONGEST, middlewares=[_errors_as_json, _loopback_only])
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics_text)
        app.router.add_get("/status", self._status)
        app.router.add_post("/signals", self._signal)
        app.router.add_get("/signals/{id}", self._signal_state)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)

    async def __aenter__(self) -> "HttpServer":
        await self._runner.setup()
        where = self._settings
        try:
            await web.TCPSite(self._runner, where.host, where.port).start()
        except OSError as error:
            await self._runner.cleanup()
            raise Definite(
                f"http: {where.host}:{where.port} can't be listened on ({error.strerror}); set http.port to a free "
                "one, or to 0"
            ) from error
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        _write_address(self._address_file, self.url)
        log.info("listening", url=self.url)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._address_file.unlink(missing_ok=True)
        await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        reasons = self._board.not_ready()
        return web.json_response({"ready": not reasons, "reasons": reasons}, status=503 if reasons else 200)

    async def _metrics_text(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _status(self, _: web.Request) -> web.Response:
        return web.json_response(self._board.status())

    async def _signal(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return _error(415, "say that it's JSON: Content-Type: application/json")
        body = await request.read()
        try:
            parse(body, default_id="given on arrival")
        except MalformedSignal as error:
            self._metrics.count(catalogue.SIGNALS, channel=self._signals.name, outcome="malformed")
            return _error(422, str(error))
        try:
            answer = await self._signals.ask(body, self._answer_within_s)
        except Unanswered as error:
            return _error(503, f"{error}; send it again with the same id")
        if isinstance(answer, SignalAccepted):
            return web.json_response({"id": answer.id, "outcome": "accepted", "detail": answer.detail})
        return web.json_response({"id": answer.id, "outcome": "rejected", "error": answer.reason}, status=409)

    async def _signal_state(self, request: web.Request) -> web.Response:
        state = self._board.signal(request.match_info["id"])
        return _error(404, "no such signal is known") if state is None else web.json_response(state.to_json())


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPRequestEntityTooLarge:
        return _error(413, f"the body is longer than {LONGEST} bytes")
    except web.HTTPException as error:
        return _error(error.status, error.reason)
    except Exception:  # whatever it was, a client learns no more than that
        log.exception("request failed", path=request.path)
        return _error(500, "internal error; the service's log has the story")


@web.middleware
async def _loopback_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.url.host not in ("127.0.0.1", "localhost", "::1"):
        return _error(403, "the request has to name a loopback address as its host")
    return await handler(request)


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


def _write_address(path: Path, url: str) -> None:
    """Say where this service listens, so that the command line finds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps({"url": url, "pid": os.getpid()}) + "\n", encoding="utf-8")
    temporary.replace(path)
