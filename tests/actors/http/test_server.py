"""The HTTP server, with a real client over loopback; its supervisor runs tiny actors."""

import asyncio
import json
import re
import resource
import socket
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import aiohttp
import pytest
from structlog.testing import capture_logs

from actors.http import shared_report, static_files
from actors.http.access import HEADERS, Access, Allowance, TokenBucket
from actors.http.connections import LONGEST_LINE
from actors.http.routes import ROUTES, Route
from actors.http.server import LIMITS, WAITS_PER_S, HttpServer
from actors.http.shared_report import SHARED_FOR
from actors.runtime.actor import Sender
from actors.runtime.mailbox import Mailbox
from actors.signal_listener import SignalListener
from actors.signals.rest import SignalRest
from actors.status import applied_watch
from pipeline import metrics as catalogue
from pipeline.config.settings import (
    HttpSettings,
    Secret,
)
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.applied.progress import Through
from pipeline.journal.applied.query import COUNTED_BYTES, Applied
from pipeline.messages.journal import CheckpointSealed
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.messages.topology import EDGES, GROUPS, inbox
from pipeline.messages.topology import ActorName as Name
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.signals.signal import LONGEST_SIGNAL, parse_signal
from pipeline.snapshot.checkpoint import Checkpoint
from tests.actors.http.served_actors import Plain, applied_path, served
from tests.pipeline.builders import gtids
from tests.pipeline.journal.applied.progress import delivered, query, sealed
from tests.servers.awaiting import until

PAUSE = {"id": "p", "type": "pause-snapshot"}


async def test_it_says_where_it_listens_until_it_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        assert json.loads(bench.address.read_text())["url"] == bench.server.url
        assert bench.server.url.startswith("http://127.0.0.1:")
    assert not bench.address.exists()


async def test_a_newer_service_is_still_found_when_the_one_before_it_ends(tmp_path: Path) -> None:
    """On a journal in an object store the newer one begins first, and fences off the older one."""
    async with AsyncExitStack() as older:
        await older.enter_async_context(served(tmp_path))
        async with served(tmp_path) as newer:
            await older.aclose()
            assert json.loads(newer.address.read_text())["url"] == newer.server.url


@contextmanager
def full_disk() -> Iterator[None]:
    """As one looks to what writes a file: the kernel takes no byte of it. What is logged is kept in memory."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with capture_logs():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_a_service_on_a_full_disk_serves_and_is_found_once_there_is_room(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        with full_disk():
            bench = await running.enter_async_context(served(tmp_path))
            assert (await bench.get("/livez"))[0] == HTTPStatus.OK
            assert list(bench.address.parent.iterdir()) == []
        await until(bench.address.exists, "it says where it listens")
        assert json.loads(bench.address.read_text())["url"] == bench.server.url
    assert not bench.address.exists()


async def test_a_folder_that_takes_no_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "journal" / "http.json").mkdir(parents=True)
    with pytest.raises(Definite, match=r"http\.json can't be written \(.+\); let the service's user write"):
        async with served(tmp_path):
            pass


async def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        port = int(bench.server.url.rpartition(":")[2])
        other = HttpServer(
            HttpSettings(port=port),
            tmp_path / "http.json",
            bench.board,
            bench.metrics,
            SignalRest(),
            bench.applied,
            bench.changes,
        )
        with pytest.raises(Definite, match=f"127.0.0.1:{port} can't be listened on"):
            await other.__aenter__()


@pytest.mark.parametrize("host", ["192.0.2.1", "nowhere.invalid"])
async def test_a_host_that_is_not_of_this_machine_is_said_to_be_none(host: str, tmp_path: Path) -> None:
    http = HttpSettings(host=host, token=Secret("a" * 32))
    with pytest.raises(
        Definite, match=rf"http: {host}:0 can't be .*; set http\.host to an address of this machine"
    ):
        async with served(tmp_path, settings=http):
            pass


async def test_livez_and_metrics(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.metrics.count(catalogue.TRANSACTIONS, 17)
        assert await bench.get("/livez") == (200, "alive\n")
        status, text = await bench.get("/metrics")
        assert status == 200
        assert "tidemark_transactions_total 17.0" in text


async def test_readyz_names_who_is_not_ready(tmp_path: Path) -> None:
    async with served(tmp_path, fails={GROUPS[1]}) as bench:
        bench.reasons[Name.BINLOG_READER] = "it isn't connected"
        status, text = await bench.get("/readyz")
        assert status == 503
        assert json.loads(text)["reasons"] == {
            "BinlogReader": "it isn't connected",
            "SparkSink": "delivery: Spark's JVM ended",
        }


async def test_readyz_when_all_is_well(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.metrics.set(catalogue.SOURCE_LAG, 3600)
        assert (await bench.get("/readyz"))[0] == 200


async def test_status_puts_together_what_the_actors_say(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        table = {
            "database": "shop",
            "table": "orders",
            "state": "chunking",
            "rows": 100,
            "given_up": 0,
            "expected": 600,
            "ranges": 4,
            "ranges_done": 1,
            "to_go": [{"number": 1, "done": ["geheim"], "end": ["z"]}],
            "request": {"condition": None, "keys": [["geheim"]]},
        }
        verified = {**table, "table": "verified"}
        filtered = {"condition": "name = 'geheim'", "keys": []}
        ended = {**table, "table": "items", "state": "completed", "request": filtered}
        bench.said[Name.WATERMARK_COORDINATOR] = {
            "position": "uuid:1-5",
            "snapshots": [
                {"id": "s1", "tables": [table, ended]},
                {"id": "v1", "verification": {"since": 7}, "tables": [verified]},
            ],
            "windows": [{"chunk": "s1/shop.orders/7", "snapshot": "s1", "table": "shop.orders", "range": 0}],
            "busy": "65 threads run on the source",
        }
        bench.said[Name.SPARK_SINK] = {"position": "uuid:1-4", "freshness_seconds": 0.5, "verifications": {}}
        bench.said[Name.JOURNAL_WRITER] = {"no_room": "its quota is reached"}
        bench.board.look(10.0, 1000.0)
        table["rows"] = verified["rows"] = 200
        bench.board.look(15.0, 1005.0)
        text = (await bench.get("/status"))[1]
        assert "geheim" not in text
        status = json.loads(text)
        assert (status["name"], status["position"], status["delivered_position"]) == (
            "shop",
            "uuid:1-5",
            "uuid:1-4",
        )
        seen, _ = status["snapshots"][0]["tables"]
        assert (seen["rows_per_second"], seen["left_seconds"], seen["windows"]) == (20.0, 20.0, 1)
        assert bench.metrics.value(catalogue.SNAPSHOT_LEFT, table="shop.orders") == 20.0
        assert status["snapshots"][1]["tables"][0]["left_seconds"] == 20.0
        assert not bench.metrics.value(catalogue.SNAPSHOT_LEFT, table="shop.verified")
        assert "verifications" not in status["actors"]["SparkSink"], "the snapshots have the results"
        assert status["busy"] == "65 threads run on the source"
        assert status["no_room"] == "its quota is reached"
        reader = status["actors"]["BinlogReader"]
        assert (reader["state"], reader["restarts"]) == ("running", 0)
        assert reader["mailbox"] == {"depth": 0, "capacity": bench.mailboxes[Name.BINLOG_READER].capacity}


async def test_a_signal_is_accepted_or_rejected(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        asking = asyncio.create_task(bench.post(PAUSE))
        arrived = await bench.signals.receive()
        await arrived.answer(SignalAccepted("p", "paused"))
        assert await asking == (200, {"id": "p", "outcome": "accepted", "detail": "paused"})
        asking = asyncio.create_task(bench.post({"type": "resume-snapshot"}))
        arrived = await bench.signals.receive()
        signal = parse_signal(arrived.text, arrived.default_id)
        await arrived.answer(SignalRejected(signal.id, "nothing is paused"))
        assert await asking == (409, {"id": signal.id, "outcome": "rejected", "error": "nothing is paused"})


@pytest.mark.parametrize(
    "answer",
    [SignalAccepted("p", "paused"), SignalRejected("p", "it's paused already")],
    ids=["accepted", "rejected"],
)
async def test_no_report_denies_what_a_signal_was_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: SignalAccepted | SignalRejected
) -> None:
    monkeypatch.setattr(shared_report, "SHARED_FOR", 10**12)
    paths = ("/status", "/tables/shop.a", "/snapshots/s", "/signals")
    async with served(tmp_path) as bench:

        async def told() -> list[tuple[int, Any]]:
            answers = [
                (status, json.loads(text)) for status, text in [await bench.get(path) for path in paths]
            ]
            return [(answers[0][0], answers[0][1]["paused"]), *answers[1:3], (200, answers[3][1]["signals"])]

        before = await told()
        assert (before[0], [each[0] for each in before], before[3]) == (
            (200, False),
            [200, 404, 404, 200],
            (200, []),
        )
        asking = asyncio.create_task(bench.post(PAUSE))
        arrived = await bench.signals.receive()
        bench.said[Name.WATERMARK_COORDINATOR] = {
            "paused": True,
            "captured": ["shop.a"],
            "snapshots": [{"id": "s", "tables": []}],
        }
        bench.said[Name.SIGNAL_LISTENER] = {"signals": [{"id": "p"}]}
        assert await told() == before
        await arrived.answer(answer)
        await asking
        after = await told()
        assert (after[0], [each[0] for each in after], after[3]) == (
            (200, True),
            [200] * 4,
            (200, [{"id": "p"}]),
        )


@pytest.mark.parametrize(
    ("body", "headers", "status", "error"),
    [
        (b"{", {}, 422, "JSON"),
        ({"type": "explode"}, {}, 422, "no signal of the type 'explode'"),
        ({"type": "pause-snapshot", "id": 7}, {}, 422, "isn't printable"),
        (b" " * (LONGEST_SIGNAL + 1), {}, 413, "longer than"),
        (PAUSE, {"Content-Type": "text/plain"}, 415, "Content-Type"),
        (PAUSE, {"Host": "evil.example"}, 403, "loopback"),
        (PAUSE, {"Host": "localhost:x"}, 400, "the Host header names no host"),
    ],
)
async def test_what_is_no_signal_is_refused_at_the_door(
    tmp_path: Path, body: Any, headers: dict[str, str], status: int, error: str
) -> None:
    async with served(tmp_path) as bench:
        got, answer = await bench.post(body, **headers)
        assert got == status
        assert error in answer["error"]


async def test_a_signal_without_an_answer(tmp_path: Path) -> None:
    async with served(tmp_path, within_s=0.01) as bench:
        status, answer = await bench.post(PAUSE)
        assert status == 503
        assert "send it again with the same id" in answer["error"]


async def test_how_far_a_signal_has_come_can_be_asked(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        edge = next(edge for edge in EDGES if edge.sender is Name.SIGNAL_LISTENER)
        to_coordinator = Sender[Any](edge, bench.mailboxes[Name.WATERMARK_COORDINATOR])
        mailbox: Mailbox[Any] = Mailbox(inbox(Name.SIGNAL_LISTENER))
        listener = SignalListener(mailbox, bench.metrics, to_coordinator, ())
        bench.supervisor.actors[Name.SIGNAL_LISTENER] = listener
        row = SignalState("a/b ä", Outcome.REJECTED, "no such table")
        await listener.handle(CheckpointSealed(Checkpoint(GtidSet()), (row,)))
        status, text = await bench.get("/signals/a%2Fb%20%C3%A4")
        assert (status, json.loads(text)) == (
            200,
            {"id": "a/b ä", "outcome": "rejected", "reason": "no such table"},
        )
        status, text = await bench.get("/signals/other")
        assert (status, json.loads(text)) == (404, {"error": "no such signal is known"})


async def test_errors_tell_nothing_of_the_inside(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.said[Name.SPARK_SINK] = {"odd": {1, 2}}  # no JSON
        status, text = await bench.get("/status")
        assert status == 500
        assert json.loads(text) == {"error": "internal error; the service's log has the story"}
        assert (await bench.get("/nowhere"))[0] == 404
        async with aiohttp.ClientSession() as session, session.post(f"{bench.server.url}/status") as answer:
            assert (answer.status, await answer.json()) == (405, {"error": "Method Not Allowed"})


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("POST", "/status", "GET"), ("PUT", "/signals", "GET,POST"), ("PUT", "/livez", "GET,HEAD")],
)
async def test_a_method_that_a_path_does_not_have_comes_with_those_that_it_has(
    tmp_path: Path, method: str, path: str, allow: str
) -> None:
    """As RFC 9110 has it (section 15.5.6)."""
    async with served(tmp_path) as bench:
        status, headers, _ = await bench.ask(method, path, {})
        assert (status, headers["Allow"]) == (405, allow)


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if route.access is Access.OPEN], ids=lambda route: route.name
)
async def test_head_of_what_is_open_is_get_without_its_body(tmp_path: Path, route: Route) -> None:
    """A second request in the same connection finds no byte of a body before its answer."""
    async with served(tmp_path, settings=WHERE["beyond"]) as bench:
        path = route.path.replace("{file}", "page.js")
        host, port = urlsplit(bench.server.url).netloc.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        found = []
        for method in ("HEAD", "GET", "HEAD"):
            writer.write(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            told = dict(header.split(": ") for header in headers if header)
            body = await reader.readexactly(int(told["Content-Length"])) if method == "GET" else None
            assert body != b""
            found.append((first, told.pop("Date") != "", told))
        writer.close()
        assert found[0] == found[1] == found[2]


ALL, READ, WRONG = "a" * 32, "b" * 32, "c" * 32
WHERE = {
    "loopback": HttpSettings(),
    "loopback with tokens": HttpSettings("127.0.0.1", 0, Secret(ALL), Secret(READ)),
    "beyond": HttpSettings("0.0.0.0", 0, Secret(ALL), Secret(READ)),
}


def allowed(where: str, access: Access, token: str | None) -> int:
    """The refusal that's due, or 200."""
    free = access is Access.OPEN or where == "loopback" or (access is Access.READ and where != "beyond")
    if free or token == ALL:
        return 200
    return 401 if token in (None, WRONG) else 200 if access is Access.READ else 403


@pytest.mark.parametrize("where", WHERE)
async def test_every_route_with_every_token(tmp_path: Path, where: str) -> None:
    async with served(tmp_path, settings=WHERE[where], within_s=0.01) as bench:
        for route in ROUTES:
            for token in (None, WRONG, READ, ALL):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                path = re.sub(r"{\w+}", "x", route.path)
                status, answered, text = await bench.ask(route.method, path, headers)
                wanted = allowed(where, route.access, token)
                asked = f"{where}: {route.method} {route.path} with {token}"
                if wanted == 200:
                    assert status not in (401, 403, 500), asked
                    continue
                assert status == wanted, asked
                assert list(json.loads(text)) == ["error"], asked
                assert ("WWW-Authenticate" in answered) == (status == 401), asked
        assert (await bench.get("/nowhere"))[0] == (401 if where == "beyond" else 404)


async def test_probes_tell_strangers_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, settings=WHERE["beyond"]) as bench:
        bench.reasons[Name.BINLOG_READER] = "db-7.internal refuses us"
        bench.said[Name.WATERMARK_COORDINATOR] = {"position": "uuid:1-5"}
        assert await bench.get("/livez", Host="10.1.2.3:8321") == (200, "alive\n")
        status, text = await bench.get("/readyz", Host="10.1.2.3:8321")
        assert (status, json.loads(text)) == (503, {"ready": False, "reasons": {}})
        _, text = await bench.get("/readyz", Authorization=f"Bearer {READ}")
        assert json.loads(text)["reasons"] == {"BinlogReader": "db-7.internal refuses us"}
        for path in ("/", "/openapi.json", "/page/page.js"):
            text = (await bench.get(path))[1]
            assert "uuid:1-5" not in text and "internal refuses" not in text


async def test_every_answer_tells_browsers_to_be_careful(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        for path in ("/", "/page/page.css", "/status", "/live", "/nowhere"):
            _, headers, _ = await bench.ask("GET", path, {"Origin": "https://evil.example"})
            assert HEADERS.keys() <= headers.keys()
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert not any(header.lower().startswith("access-control") for header in headers)
        assert (await bench.ask("OPTIONS", "/signals", {"Origin": "https://evil.example"}))[0] == 405


async def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        names = ["", *(f"page/{name}" for name in static_files.load_files())]
        assert {"page/page.js", "page/page.css", "page/icon.svg"} < set(names)
        for name in names:
            _, headers, text = await bench.ask("GET", f"/{name}", {})
            assert headers["Content-Type"].split(";")[0] in text_types()
            assert "innerHTML" not in text
            links = set(re.findall(r"https?://[^\s\"']+", text))
            assert links <= {"http://www.w3.org/2000/svg"}, name
        assert (await bench.get("/page/..%2Fhttp.py"))[0] == 404


def text_types() -> set[str]:
    return {"text/html", "text/css", "text/javascript", "image/svg+xml"}


async def test_too_many_requests_at_once_are_told_to_wait(tmp_path: Path) -> None:
    """Each kind by itself, and never the probes: who asks too often doesn't get the service killed."""
    async with served(tmp_path, within_s=0.001) as bench:
        bench.server._buckets = {access: TokenBucket(Allowance(3, 1e-9)) for access in LIMITS}
        told = [(await bench.post({"type": "explode"}))[0] for _ in range(5)]
        assert told == [422, 422, 422, 429, 429]
        told = [
            (await bench.get(path))[0] for path in ("/status", "/position", "/nowhere", "/tables", "/live")
        ]
        assert told == [200, 200, 404, 429, 429]
        assert [(await bench.get("/livez"))[0] for _ in range(5)] == [200] * 5
        # Else a client that polls too often would be an alert of Prometheus: it couldn't scrape the service.
        assert (await bench.get("/metrics"))[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/status", "/position", "/freshness", "/snapshots", "/snapshots/s", "/tables", "/tables/t", "/metrics"],
)
async def test_a_report_takes_a_small_part_of_the_time_however_many_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """The thread that makes it also captures."""
    took: list[float] = []

    def of_very_many_tables(_: object) -> Any:
        began = monotonic()
        while monotonic() < began + 0.01:
            pass
        took.append(monotonic() - began)
        return b"" if path == "/metrics" else {}

    async with served(tmp_path) as bench:
        monkeypatch.setattr(Plain, "status", of_very_many_tables)
        monkeypatch.setattr(
            bench.server._metrics_report, "_make", partial(asyncio.to_thread, of_very_many_tables, 0)
        )
        began = monotonic()
        for _ in range(3):
            told = await asyncio.gather(*(bench.get(path) for _ in range(30)))
            assert {status for status, _ in told} <= {200, 404}
        of_all = path.split("/")[1] in ("status", "position", "snapshots", "tables")
        reports = len(bench.supervisor.actors) if of_all else 1
        assert sum(took) <= (monotonic() - began) / SHARED_FOR + max(took) * reports


async def test_what_is_asked_for_by_name(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.said[Name.WATERMARK_COORDINATOR] = {"captured": ['shop.<img src=x onerror="x">', "shop.a/b"]}
        for name in ("shop.a/b", 'shop.<img src=x onerror="x">'):
            status, text = await bench.get(f"/tables/{quote(name, safe='')}")
            assert (status, json.loads(text)["table"]) == (200, name)
        for path in ("/tables/shop.other", "/snapshots/other", "/page/other"):
            status, text = await bench.get(path)
            assert (status, list(json.loads(text))) == (404, ["error"])


async def test_it_is_reached_by_loopback_where_it_listens_everywhere(tmp_path: Path) -> None:
    async with served(tmp_path, settings=WHERE["beyond"]) as bench:
        assert json.loads(bench.address.read_text())["url"].startswith("http://127.0.0.1:")


async def test_who_waits_is_answered_by_what_is_reported(tmp_path: Path) -> None:
    orders = {"tables": "shop.orders"}
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        bench.applied.consumer_reached(Through.LAKE, delivered(4, "a:1-7"))
        status, text = await bench.get(applied_path("a:6", **orders))
        place = {"through": "lake", "position": str(gtids("a:1-7")), "segment": 4, "scn": 40}
        assert (status, json.loads(text)) == (200, {**place, "tables": {"shop.orders": {"changelog": 4}}})
        status, text = await bench.get(applied_path("a:6:8", timeout_s="0", **orders))
        missing = str(gtids("a:8"))
        error = f"the lake hasn't reached {missing}"
        assert (status, json.loads(text)) == (504, {"error": error, "missing": missing, **place})
        assert (await bench.get(applied_path("a:6", tables="other.t")))[0] == 409
        gaps = ":".join(map(str, range(20_001, 26_001, 2)))
        assert (await bench.get(applied_path(f"a:{gaps}", timeout_s="0")))[0] == 504
        status, text = await bench.get("/applied?gtid_set=" + "9" * LONGEST_LINE)
        assert (status, f"longer than {LONGEST_LINE} bytes" in text) == (414, True), text
        assert (await bench.get(applied_path("a:6", through="kafka")))[0] == 400
        waits = asyncio.create_task(bench.get(applied_path("a:8", **orders)))
        await until(lambda: bench.metrics.value(catalogue.WAITS), "it waits")
        bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        status, text = await waits
        assert (status, json.loads(text)["segment"]) == (200, 5)
        ended = {
            outcome: bench.metrics.value(catalogue.WAITED, consumer="lake", outcome=outcome)
            for outcome in ("applied", "timeout", "never")
        }
        assert ended == {"applied": 2, "timeout": 2, "never": 1}


async def test_who_leaves_waits_no_more(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        url = bench.server.url + applied_path("a:8", timeout_s="600")
        async with aiohttp.ClientSession() as session:
            waits = asyncio.create_task(session.get(url))
            await until(lambda: bench.metrics.value(catalogue.WAITS), "it waits")
            waits.cancel()
            await until(lambda: not bench.metrics.value(catalogue.WAITS), "it waits no more")
        bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        assert (await bench.get(applied_path("a:8", tables="shop.orders")))[0] == 200


async def test_who_leaves_as_the_answer_comes_is_left_out(tmp_path: Path) -> None:
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        leaving, staying = (asyncio.create_task(bench.applied.wait(query("a:8"))) for _ in range(2))
        await asyncio.sleep(0)
        leaving.cancel()
        bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        assert isinstance(await staying, Applied)
        with pytest.raises(asyncio.CancelledError):
            await leaving


async def test_all_that_a_delivery_answers_is_made_in_one_turn_and_written_in_the_next(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        address = urlsplit(bench.server.url)
        clients = [socket.create_connection((address.hostname, address.port)) for _ in range(16)]
        for client in clients:
            client.setblocking(False)
            client.send(f"GET {applied_path('a:8')} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await until(lambda: bench.metrics.value(catalogue.WAITS) == 16, "all of them wait")
        bench.applied.consumer_reached(Through.LAKE, delivered(5, "a:1-9"))
        await asyncio.sleep(0)
        for client in clients:
            with pytest.raises(BlockingIOError):
                client.recv(16)
        await asyncio.sleep(0)
        for client in clients:
            assert client.recv(16).startswith(b"HTTP/1.1 200 OK")
            client.close()


LARGE_SET = "a:" + ":".join(map(str, range(20_001, 30_001, 2)))


async def test_a_large_gtid_set_counts_as_several_requests(tmp_path: Path) -> None:
    """Its transactions are parsed in the thread that captures."""
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        (applied,) = (each for each in bench.server._bucket_of if "applied" in str(each))
        bench.server._bucket_of[applied] = TokenBucket(Allowance(100, WAITS_PER_S), lambda: 0.0)
        large, small = (applied_path(each, timeout_s="0") for each in (LARGE_SET, "a:8"))
        assert [(await bench.get(large))[0] for _ in range(2)] == [504, 429]
        left = 100 - int(len(unquote(large)) / COUNTED_BYTES) - 1
        assert [(await bench.get(small))[0] for _ in range(left + 1)] == [504] * left + [429]
        bench.server._buckets[Access.READ] = TokenBucket(LIMITS[Access.READ]._replace(burst=10), lambda: 0.0)
        translated = f"/translate?since={gtids(LARGE_SET).on_one_line}"
        assert [(await bench.get(path))[0] for path in [translated] * 2 + ["/events"] * 3] == [
            *(503, 429),
            *(200, 200, 429),
        ]


async def test_a_large_gtid_set_counts_as_several_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied_watch, "MOST_WAITERS", 100)
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        waits = asyncio.create_task(bench.get(applied_path(LARGE_SET)))
        await until(lambda: bench.metrics.value(catalogue.WAITS), "it waits")
        assert (await bench.get(applied_path(LARGE_SET, timeout_s="0")))[0] == 429
        assert (await bench.get(applied_path("a:8", timeout_s="0")))[0] == 504
        bench.applied.journal_progressed(sealed(6, LARGE_SET))
        bench.applied.consumer_reached(Through.LAKE, delivered(6, LARGE_SET))
        assert (await waits)[0] == 200
        assert (await bench.get(applied_path("a:8", timeout_s="0")))[0] == 504


async def test_no_more_wait_than_there_is_room_for_and_the_end_lets_them_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied_watch, "MOST_WAITERS", 1)
    async with served(tmp_path) as bench:
        bench.applied.journal_progressed(sealed(5, "a:1-9"))
        waits = asyncio.create_task(bench.get(applied_path("a:8")))
        await until(lambda: bench.metrics.value(catalogue.WAITS), "it waits")
        status, text = await bench.get(applied_path("a:7"))
        assert (status, json.loads(text)) == (429, {"error": "as many wait already as there's room for"})
    status, text = await waits
    assert (status, json.loads(text)) == (503, {"error": "the service is stopping"})
