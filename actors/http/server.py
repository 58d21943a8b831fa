"""The service over HTTP: the page, its state, metrics, and signals. `actors.http.routes` defines the routes.

Errors are JSON with the one key `error`, and reveal no internals. `actors.http.access` says who may do what.

A signal waits for its answer. A request for `/applied` waits until transactions have been applied
(`actors.status.applied_watch`). A request for `/changes` reads the journal from a place on
(`actors.http.changes.readers`). `/translate` and `/bootstrap` say where to begin.
"""

import asyncio
import json
import math
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from actors.http import routes as api
from actors.http import static_files
from actors.http.access import HEADERS, Access, Allowance, Guard, TokenBucket
from actors.http.answer_memory import AnswerMemory, NoRoomForAnswer, SharedAnswer
from actors.http.certificate import ServedCertificate
from actors.http.changes.readers import (
    STALLED_S,
    ChangesReaders,
    ReaderStream,
    ServiceStops,
)
from actors.http.connections import (
    ClientLeft,
    Connection,
    ConnectionLimits,
    Connections,
    listening_remedy,
    while_client_waits,
)
from actors.http.databus_relay import DatabusRelay
from actors.http.error_answers import Handler, changes_refusal, error_answer, refusing, unread_journal
from actors.http.event_stream import FOLLOWER_PATIENCE_S, Followers, TooManyFollowers
from actors.http.journal_files import JournalFiles
from actors.http.shared_report import JsonReport, SharedReport, shared_json
from actors.http.tls_listener import TlsListener
from actors.runtime.filesystem import DISK_FULL, put_file
from actors.runtime.metrics import Metrics
from actors.runtime.state_folder import unwritable_file
from actors.signals.rest import SignalRest, Unanswered
from actors.status.applied_watch import MOST_WAITERS, AppliedWatch, TooManyWait, WaitEnded
from actors.status.status_board import StatusBoard
from pipeline import metrics as catalogue
from pipeline.config.settings import HttpSettings
from pipeline.errors import Definite, Transient
from pipeline.journal.applied.query import (
    COUNTED_BYTES,
    NeverApplied,
    NotYetApplied,
    parse_applied_query,
)
from pipeline.journal.changes.bootstrap import parse_bootstrap
from pipeline.journal.changes.key_filter import WrongKeyFilter
from pipeline.journal.changes.place import PlaceGone
from pipeline.journal.changes.query import parse_changes_query
from pipeline.journal.changes.translation import parse_translated_place
from pipeline.journal.request_parameters import MalformedRequest, check_once
from pipeline.kafka.databus.window_scn import first_window
from pipeline.messages.signals import SignalAccepted
from pipeline.signals.signal import LONGEST_SIGNAL, MalformedSignal, parse_signal

log = structlog.get_logger()

# How long a request waits for the answer to its signal, in seconds.
ANSWER_WITHIN_S = 30.0

# How long the body of a request may take, in seconds.
BODY_WITHIN_S: Final = 10.0

# How often the connections that have been idle for too long are looked for, in seconds, and room for the address' file.
_LOOK_EVERY_S: Final = 1.0

# Those that have come and are not accepted yet wait in the kernel.
_BACKLOG: Final = 512

# How many requests may come at once, and how many more each second, by what they need: capture has the same thread.
LIMITS: Final = {Access.READ: Allowance(200, 50.0), Access.CONTROL: Allowance(30, 5.0)}

# As many may wait at once as there's room for, and each takes part of a millisecond of that thread.
WAITS_PER_S: Final = 500.0

# Parameters are parsed in that thread, GTID sets above all: they take up to 0.8 µs a byte. So a request with many bytes
# of them counts as several, and no more bytes come each second than these.
PARAMETER_BYTES_PER_S: Final = WAITS_PER_S * COUNTED_BYTES

# Whoever else asks for too much must not keep Prometheus from what its alerts go by.
SCRAPES: Final = Allowance(200, 50.0)

# Parts of the journal's files for Spark, which asks for more of them than anybody else asks for anything.
FILES: Final = Allowance(200, 100.0)

# What is answered to who may not, asks for what there isn't, or asks too often.
_REFUSALS: Final = frozenset({400, 401, 403, 404, 405, 429})

# The answer to a request, once its headers are on their way.
_BEGUN: Final = web.RequestKey("begun", web.StreamResponse)

_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - names of addresses, and how one reaches them


class TokenReplaced(Definite):
    """The token with which an answer began isn't valid any more."""


class HttpServer:
    """Serves while it's entered (`async with`); `url` is where."""

    def __init__(
        self,
        settings: HttpSettings,
        address_file: Path,
        board: StatusBoard,
        metrics: Metrics,
        signals: SignalRest,
        applied: AppliedWatch,
        changes: ChangesReaders,
        answer_within_s: float = ANSWER_WITHIN_S,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.url = ""
        self._settings = settings
        self._address_file = address_file
        self._board = board
        self._metrics = metrics
        # With a thousand tables it takes a quarter of a second, for which nothing else may wait.
        self._metrics_report = SharedReport(partial(asyncio.to_thread, metrics.text))
        self._signals = signals
        self._of_signals: tuple[SharedReport[JsonReport], ...] = ()
        self._applied = applied
        self._changes = changes
        self._memory = AnswerMemory()
        self._databus = DatabusRelay(changes, metrics, self._memory)
        self._journal_files = JournalFiles(changes, self._memory)
        self._answer_within_s = answer_within_s
        self._guard = Guard(settings)
        self._buckets = {access: TokenBucket(allowed) for access, allowed in LIMITS.items()}
        files = TokenBucket(FILES)
        self._own_buckets = {
            "metrics": TokenBucket(SCRAPES),
            "applied": TokenBucket(Allowance(MOST_WAITERS, WAITS_PER_S)),
            "journal_names": files,
            "journal_file": files,
        }
        self._bucket_of: dict[web.AbstractResource | None, TokenBucket] = {}
        self._live = Followers(board, controlled=self._guard.controlled)
        self._files = static_files.load_files()
        app = web.Application(client_max_size=LONGEST_SIGNAL, middlewares=[self._serve])
        self._access: dict[web.AbstractResource | None, dict[str, Access]] = {}
        self._route(app)
        app.on_response_prepare.append(_say_headers)
        app.on_shutdown.append(self._end)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        self._limits = limits or ConnectionLimits.of_process()
        self._certificate = None if settings.tls is None else ServedCertificate(settings.tls)
        if self._certificate is None:
            metrics.set(catalogue.CERTIFICATE_END, math.nan)
        else:
            metrics.watch(catalogue.CERTIFICATE_END, self._certificate.ends_at)
        self._connections: Connections | None = None
        self._listening: asyncio.Server | TlsListener | None = None
        self._looking: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "HttpServer":
        await self._runner.setup()
        assert self._runner.server is not None
        connections = self._connections = Connections(self._runner.server, self._limits)
        where = self._settings
        try:
            self._listening = await self._listen(connections)
        except OSError as error:
            await self._runner.cleanup()
            raise Definite(
                f"http: {where.host}:{where.port} can't be listened on ({error.strerror}); {listening_remedy(error)}"
            ) from error
        self._looking.add(asyncio.create_task(_cut_idle(connections)))
        host, port = self._listening.sockets[0].getsockname()[:2]
        host = _ANYWHERE.get(host, host)
        scheme = "http" if self._certificate is None else "https"
        self.url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        try:
            told = _write_address(self._address_file, self.url)
        except Definite:
            await self._stop_serving()
            raise
        log.info("listening", url=self.url)
        if not told:
            log.warning("there is no room to say where the service listens", file=str(self._address_file))
            self._looking.add(asyncio.create_task(_write_address_later(self._address_file, self.url)))
        return self

    async def __aexit__(self, *_: object) -> None:
        _remove_address(self._address_file, self.url)
        await self._stop_serving()

    async def _stop_serving(self) -> None:
        for looking in self._looking:
            looking.cancel()
        if isinstance(self._listening, TlsListener):
            await self._listening.close()
        elif self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()
        if self._connections is not None:
            self._connections.cut_all()
        await asyncio.gather(*self._looking, return_exceptions=True)

    async def _listen(self, connections: Connections) -> asyncio.Server | TlsListener:
        host, port = self._settings.host, self._settings.port
        if self._certificate is not None:
            return await TlsListener.listen(connections, self._certificate, host, port, _BACKLOG)
        return await asyncio.get_running_loop().create_server(connections, host, port, backlog=_BACKLOG)

    def _route(self, app: web.Application) -> None:
        """Have each route of the definition answered."""
        board = self._board
        snapshots = shared_json(lambda: {"snapshots": board.snapshots()})
        tables = shared_json(lambda: {"tables": board.tables()})
        status, signals = shared_json(board.status), shared_json(lambda: {"signals": board.signals()})
        self._of_signals = (snapshots, tables, status, signals)
        handlers: dict[str, Handler] = {
            "page": self._page,
            "file": self._file,
            "openapi": self._openapi,
            "livez": self._livez,
            "readyz": self._readyz,
            "metrics": self._metrics_text,
            "status": _answer_with(status),
            "position": _answer_with(shared_json(board.position)),
            "freshness": _answer_with(shared_json(board.freshness)),
            "snapshots": _answer_with(snapshots),
            "snapshot": _answer_with_one(snapshots, "snapshots", "id"),
            "tables": _answer_with(tables),
            "table": _answer_with_one(tables, "tables", "table"),
            "events": _answer_with(shared_json(lambda: {"events": board.recent.last()})),
            "live": self._follow,
            "signals": _answer_with(signals),
            "signal_state": self._signal_state,
            "signal": self._signal,
            "applied": self._wait_applied,
            "changes": refusing(self._follow_changes),
            "translate": refusing(self._translate),
            "bootstrap": refusing(self._bootstrap),
            **self._databus.handlers(),
            **self._journal_files.handlers(),
        }
        for route in api.ROUTES:
            for method in route.methods:
                self._add_route(app, method, route, handlers[route.name])

    def _add_route(self, app: web.Application, method: str, route: api.Route, handler: Handler) -> None:
        added = app.router.add_route(method, route.path, handler)
        self._access.setdefault(added.resource, {})[method] = route.access
        if (bucket := self._own_buckets.get(route.name)) is not None:
            self._bucket_of[added.resource] = bucket

    @web.middleware
    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers a request. It cuts the connection of a client that takes no answer, or gets too many refusals."""
        connections = self._connections
        assert connections is not None
        with connections.at_work(request):
            answer = await self._answered_safely(request, handler)
            refused = answer.status in _REFUSALS
            try:
                if refused and not connections.refusals.take():
                    raise TimeoutError
                async with asyncio.timeout(FOLLOWER_PATIENCE_S):
                    await self._memory.send(request, answer)
            except ConnectionError:
                pass  # the client has gone
            except TimeoutError:
                _cut(request)
            return answer

    async def _answered_safely(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who may come in, and turn errors into answers."""
        # A path without a route is refused like one with a route, so that they look the same without a token.
        resource = request.match_info.route.resource
        access = self._access.get(resource, {}).get(request.method, Access.READ)
        try:
            host = request.url.host
        except ValueError:
            return error_answer(400, "the Host header names no host")
        refusal = self._guard.refusal(access, host, request.headers)
        if refusal is not None:
            challenge = {"WWW-Authenticate": 'Bearer realm="tidemark"'} if refusal.status == 401 else {}
            return error_answer(refusal.status, refusal.reason, challenge)
        bucket = self._bucket_of.get(resource) or self._buckets.get(access)
        if bucket is not None and not bucket.take(_count(request, bucket)):
            return error_answer(429, "too many requests at once", {"Retry-After": "1"})
        try:
            check_once([name for name, _ in request.query.items()])
            answer = await handler(request)
            self._memory.check_room(answer)
            return answer
        except (MalformedRequest, NoRoomForAnswer) as error:
            return changes_refusal(error)
        except web.HTTPRequestEntityTooLarge:
            return error_answer(413, f"the body is longer than {LONGEST_SIGNAL} bytes")
        except web.HTTPMethodNotAllowed as error:
            return error_answer(error.status, error.reason, {"Allow": error.headers["Allow"]})
        except web.HTTPException as error:
            return error_answer(error.status, error.reason)
        except Exception:  # a client learns nothing more of any error
            log.exception("request failed", path=request.path)
            begun: web.StreamResponse | None = request.get(_BEGUN)
            if begun is not None:
                # Another answer would be a part of this one. It has no proper end, so no client takes it for complete.
                _cut(request)
                return begun
            return error_answer(500, "internal error; the service's log has the story")

    async def _end(self, _: web.Application) -> None:
        self._live.end()
        self._changes.end()
        await self._applied.close()

    async def _page(self, _: web.Request) -> web.Response:
        return self._static(static_files.PAGE)

    async def _file(self, request: web.Request) -> web.Response:
        return self._static(request.match_info["file"])

    def _static(self, name: str) -> web.Response:
        file = self._files.get(name)
        if file is None:
            return error_answer(404, "there's no such file")
        return SharedAnswer(
            body=file.body, headers={"Content-Type": file.content_type, "Cache-Control": "no-cache"}
        )

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.Response(text=api.openapi_text(), content_type="application/json")

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        reasons = self._board.not_ready()
        told = reasons if self._guard.may_read(request.headers) else {}
        return web.json_response({"ready": not reasons, "reasons": told}, status=503 if reasons else 200)

    async def _metrics_text(self, _: web.Request) -> web.Response:
        return SharedAnswer(
            body=await self._metrics_report.get(), headers={"Content-Type": "text/plain; version=0.0.4"}
        )

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        try:
            with self._live.follower() as follower:
                answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await answer.prepare(request)
                try:
                    await _write(answer, await follower.begin())
                    while await self._live.next_look():
                        self._check_token(request)
                        await _write(answer, follower.step())
                except (ConnectionError, TimeoutError, TokenReplaced):
                    pass  # the follower has gone, or takes nothing any more, or may have no more
                return answer
        except TooManyFollowers as error:
            return error_answer(429, str(error), {"Retry-After": "5"})

    async def _wait_applied(self, request: web.Request) -> web.Response:
        answer = await self._applied_answer(request)
        await answer.prepare(request)
        # An answer wakes a program, which may take this processor. So all that one delivery answers are made before the
        # first of them is written, in the loop's next turn.
        await asyncio.sleep(0)
        return answer

    async def _applied_answer(self, request: web.Request) -> web.Response:
        try:
            query = parse_applied_query(request.query, self._applied.there)
            answer = await while_client_waits(request, self._applied.wait(query))
        except TooManyWait as error:
            return error_answer(429, str(error), {"Retry-After": "1"})
        except (WaitEnded, ClientLeft) as error:
            return error_answer(503, str(error))
        if isinstance(answer, NeverApplied):
            return error_answer(409, answer.reason)
        reached = {
            "through": query.through.value,
            "position": str(answer.reached.position),
            "segment": answer.reached.segment,
            "scn": answer.reached.scn,
        }
        if isinstance(answer, NotYetApplied):
            told = {"error": answer.reason, "missing": str(answer.missing), **reached}
            return web.json_response(told, status=504)
        return web.json_response({**reached, "tables": {str(t): at for t, at in answer.read_at.items()}})

    async def _follow_changes(self, request: web.Request) -> web.StreamResponse:
        query = parse_changes_query(request.query)
        with self._changes.admit():
            stream = await self._changes.open(query)
            return await self._send_changes(request, stream)

    async def _translate(self, request: web.Request) -> web.Response:
        found = await self._changes.translate(parse_translated_place(request.query))
        return web.json_response(
            {
                "scn": found.scn,
                "gtid_set": None if found.gtid_set is None else found.gtid_set.on_one_line,
                "beyond": found.beyond.on_one_line,
                "checkpoint": str(found.checkpoint),
                "databus_scn": first_window(found.checkpoint.journal) + found.scn,
            }
        )

    async def _bootstrap(self, request: web.Request) -> web.Response:
        place, checkpoint = await self._changes.bootstrap(parse_bootstrap(request.query))
        return web.json_response(
            {
                "checkpoint": str(checkpoint),
                "scn": place.reached.scn,
                "databus_scn": first_window(checkpoint.journal) + place.reached.scn,
                "position": str(place.reached.position),
                "segment": place.reached.segment,
                "tables": {str(table): at for table, at in place.read_at.items()},
            }
        )

    async def _send_changes(self, request: web.Request, stream: ReaderStream) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": stream.form.content_type})
        await answer.prepare(request)
        try:
            async with asyncio.timeout(STALLED_S) as patience:
                due = 0.0
                async for data in self._changes.follow(stream):
                    # Each part would be too often to look at a token's file and for a timer.
                    if (now := asyncio.get_running_loop().time()) > due:
                        due = now + _LOOK_EVERY_S
                        patience.reschedule(now + STALLED_S)
                        self._check_token(request)
                    await answer.write(data)
        except (ConnectionError, TimeoutError):
            _cut(request)  # the reader has gone, or takes nothing any more
        except (Definite, Transient) as error:
            named = isinstance(error, PlaceGone | WrongKeyFilter | ServiceStops | TokenReplaced)
            said = str(error) if named else unread_journal(error)
            # The answer has no proper end then, so no client takes it for complete.
            with suppress(ConnectionError, TimeoutError):
                await _write(answer, stream.form.error(said), FOLLOWER_PATIENCE_S)
            _close(request)
        return answer

    def _check_token(self, request: web.Request) -> None:
        """Raises TokenReplaced if a request that was let in to read wouldn't be any more."""
        if self._guard.refusal(Access.READ, request.url.host, request.headers) is not None:
            raise TokenReplaced(
                "the token isn't valid any more: continue with the new one, from the last checkpoint"
            )

    async def _signal(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            return error_answer(415, "say that it's JSON: Content-Type: application/json")
        try:
            async with asyncio.timeout(BODY_WITHIN_S):
                body = await request.read()
        except TimeoutError:
            return error_answer(
                408, f"the body didn't come within {BODY_WITHIN_S:.0f} s", {"Connection": "close"}
            )
        except (ConnectionError, web.RequestPayloadError):
            return error_answer(400, "the body didn't come as a whole")
        try:
            parse_signal(body, default_id="given on arrival")
        except MalformedSignal as error:
            self._metrics.count(catalogue.SIGNALS, channel=self._signals.name, outcome="malformed")
            return error_answer(422, str(error))
        try:
            answer = await self._signals.ask(body, self._answer_within_s)
        except Unanswered as error:
            return error_answer(503, f"{error}; send it again with the same id")
        for report in self._of_signals:
            report.expire()
        if isinstance(answer, SignalAccepted):
            return web.json_response({"id": answer.id, "outcome": "accepted", "detail": answer.detail})
        return web.json_response({"id": answer.id, "outcome": "rejected", "error": answer.reason}, status=409)

    async def _signal_state(self, request: web.Request) -> web.Response:
        state = self._board.signal(request.match_info["id"])
        return (
            error_answer(404, "no such signal is known")
            if state is None
            else web.json_response(state.to_json())
        )


def _answer_with(shared: SharedReport[JsonReport]) -> Handler:
    """Answers with the report."""

    async def handle(_: web.Request) -> web.Response:
        text = (await shared.get()).text
        return SharedAnswer(body=text, headers={"Content-Type": "application/json; charset=utf-8"})

    return handle


def _answer_with_one(shared: SharedReport[JsonReport], listed: str, key: str) -> Handler:
    """Answers with the last item of the report's list that has the name in the path."""

    async def handle(request: web.Request) -> web.Response:
        name, told = request.match_info[key], (await shared.get()).told
        found = next((each for each in reversed(told[listed]) if each[key] == name), None)
        return error_answer(404, f"no such {key} is known") if found is None else web.json_response(found)

    return handle


def _count(request: web.Request, bucket: TokenBucket) -> float:
    """Returns as how many requests this one counts."""
    return max(1.0, len(request.raw_path) * bucket.per_s / PARAMETER_BYTES_PER_S)


def _cut(request: web.Request) -> None:
    """Ends the connection of a request at once."""
    if isinstance(request.protocol, Connection):
        request.protocol.cut()


def _close(request: web.Request) -> None:
    """Ends the connection of a request once what was written has been sent."""
    if request.transport is not None:
        request.transport.close()


async def _write(answer: web.StreamResponse, message: bytes, within_s: float = FOLLOWER_PATIENCE_S) -> None:
    async with asyncio.timeout(within_s):
        await answer.write(message)


async def _cut_idle(connections: Connections) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        connections.cut_idle()


async def _say_headers(request: web.Request, answer: web.StreamResponse) -> None:
    request[_BEGUN] = answer
    answer.headers["Server"] = "tidemark"  # instead of what aiohttp says, which names versions
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)


def _write_address(path: Path, url: str) -> bool:
    """Says where this service listens, so that the command line finds it. Returns whether there was room. Raises
    Definite."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        put_file(path, _address(url))
    except OSError as error:
        if error.errno in DISK_FULL:
            return False
        raise unwritable_file(path, error) from error
    return True


async def _write_address_later(path: Path, url: str) -> None:
    """Says it once there is room. The service makes some: it removes what all consumers have."""
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        if _write_address(path, url):
            return


def _remove_address(path: Path, url: str) -> None:
    """Says so no more, unless a newer service does: on a journal in an object store it begins before the older one has
    ended."""
    with suppress(FileNotFoundError):
        if path.read_bytes() == _address(url):
            path.unlink()


def _address(url: str) -> bytes:
    return json.dumps({"url": url, "pid": os.getpid()}).encode() + b"\n"
