"""A client of Databus' pulls a real journal's events from its checkpoint, with schemas that it gets beside them."""

import asyncio
import base64
import io
import json
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import fastavro
import pytest

from actors.http import databus_relay
from actors.http.changes import journal_tap, segment_changes
from actors.http.routes import ROUTES
from pipeline import metrics as catalogue
from pipeline.kafka.databus.event_page import EventPage
from pipeline.kafka.databus.window_scn import first_window
from pipeline.snapshot.checkpoint import Ready
from tests.actors.http.changes.journals import WIDER, Tapped, tapped
from tests.actors.http.test_routes import conforms
from tests.pipeline.kafka.databus.windows import Windows
from tests.pipeline.lake.stream.entries import ORDERS
from tests.servers.awaiting import WITHIN_S


async def asked(tap: Tapped, path: str, **parameters: str) -> tuple[int, Any, bytes]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{tap.url}{path}", params=parameters) as answer,
    ):
        assert int(answer.headers["x-dbus-req-id"]) > 0 and int(answer.headers["x-dbus-req-latency"]) >= 0
        return answer.status, answer.headers, await answer.read()


async def told(tap: Tapped, path: str, name: str = "", **parameters: str) -> Any:
    status, _, body = await asked(tap, path + name, **parameters)
    assert status == 200, body
    answer = json.loads(body)
    [schema] = [route.answers[200].schema for route in ROUTES if route.path.partition("{")[0] == path]
    conforms(schema or "", answer)
    return answer


async def pull(tap: Tapped, output: str, size: int = 4000, **more: str) -> Windows:
    """Pulls until nothing comes."""
    windows = Windows()
    sources = ",".join(str(each["id"]) for each in await told(tap, "/sources"))
    for _ in range(1000):
        status, headers, body = await asked(
            tap,
            "/stream",
            sources=sources,
            checkPoint=windows.checkpoint,
            size=str(size),
            output=output,
            **more,
        )
        assert status == 200, body
        assert "x-dbus-pending-event-size" not in headers
        if not windows.take(body, binary=output == "binary"):
            return windows
    raise AssertionError("it has no end")


def begin(tap: Tapped) -> int:
    """The SCN of the window before all others."""
    return first_window(tap.history.store.identity.id)


def counted(tap: Tapped, windows: Windows) -> list[int]:
    """The windows that a client has, as the journal counts them."""
    return [scn - begin(tap) for scn in windows.whole]


async def written(tap: Tapped) -> None:
    """Segments in which a table gets a column, between transactions of both tables."""
    for n in range(3):
        tap.commit(4, rows=6)
        if n == 1:
            tap.history.restart(tap.orders, WIDER, Ready)
            tap.history.transaction((tap.orders, "c", (7, "ö", Decimal("1.50"))), (tap.items, "c", (8,)))
            tap.seal()
            tap.history.restart(tap.orders, WIDER, Ready)
            break
        tap.seal()
    tap.history.transaction((tap.orders, "d", (7, None, None)))
    tap.seal()


async def test_each_event_comes_once_and_its_schema_is_registered(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        await written(tap)
        lines = [line for line in await tap.lines() if "row" in line]
        schemas = {each["schemaId"]: each["schema"] for each in await told(tap, "/register")}
        windows = await pull(tap, "json")
        events = [event for window in windows.whole.values() for event in window]
        assert [event["sequence"] for event in events] == [begin(tap) + line["scn"] for line in lines]
        assert counted(tap, windows) == list(range(1, lines[-1]["scn"] + 1))
        for event, line in zip(events, lines, strict=True):
            schema = fastavro.parse_schema(json.loads(schemas[event["schemaId"]]))
            row = fastavro.schemaless_reader(io.BytesIO(base64.b64decode(event["value"])), schema, None)
            assert isinstance(row, dict)
            shown = {name: str(v) if isinstance(v, Decimal) else v for name, v in row.items()}
            assert shown == line["row"]
            assert event["opcode"] == ("DELETE" if line["op"] == "d" else "UPSERT")


async def test_an_avro_reader_has_the_same_rows_and_transactions_come_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_changes, "READ_ROWS", 3)
    monkeypatch.setattr(segment_changes, "SENT_ROWS", 2)
    async with tapped(tmp_path) as tap:
        await written(tap)
        lines = [line["row"]["id"] for line in await tap.lines() if "row" in line]
        for size in (300, 1 << 20):
            windows = await pull(tap, "binary", size)
            assert [e["value"]["id"] for window in windows.whole.values() for e in window] == lines


async def test_others_have_their_turn_after_each_piece_of_a_large_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_changes, "READ_ROWS", 3)
    monkeypatch.setattr(segment_changes, "SENT_ROWS", 2)
    monkeypatch.setattr(journal_tap, "_THREADS", 1)
    loop, begun, asked_for = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    add, done = EventPage.add, list[str]()

    def add_slowly(page: EventPage, *given: Any, complete: bool) -> None:
        loop.call_soon_threadsafe(begun.set)
        assert asked_for.wait(WITHIN_S)
        done.append("piece")
        add(page, *given, complete=complete)

    async with tapped(tmp_path) as tap:
        tap.commit(1, rows=30)
        tap.seal()
        submit = tap.bench.changes.tap.work

        async def work(asked_work: Callable[[], Any]) -> Any:
            def another() -> Any:
                done.append("another")
                return asked_work()

            if not begun.is_set() or asked_for.is_set():
                return await submit(asked_work)
            waiting = asyncio.ensure_future(submit(another))
            await asyncio.sleep(0)  # it's in the queue by then
            asked_for.set()
            return await waiting

        monkeypatch.setattr(tap.bench.changes.tap, "work", work)
        monkeypatch.setattr(EventPage, "add", add_slowly)
        pulled = asyncio.ensure_future(
            asked(
                tap,
                "/stream",
                sources="shop.items",
                size="100000",
                output="json",
                checkPoint=Windows().checkpoint,
            )
        )
        async with asyncio.timeout(WITHIN_S):
            await begun.wait()
            await told(tap, "/bufferInfo")
            _, _, body = await pulled
        assert Windows().take(body, binary=False) == 16
        assert done[:2] == ["piece", "another"] and done.count("piece") > 3


@pytest.mark.parametrize("bound", ["MOST_READ_SEGMENTS", "MOST_READ_BYTES"])
async def test_a_request_reads_so_many_segments_and_the_place_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(databus_relay, bound, 1)
    async with tapped(tmp_path) as tap:
        for _ in range(3):
            tap.commit(2, rows=2)
            tap.seal()
        windows = await pull(tap, "json", key_range="..-1")
        assert not any(windows.whole.values()) and counted(tap, windows) == [2, 4, 6]


async def test_a_client_passes_segments_without_an_scn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databus_relay, "MOST_READ_SEGMENTS", 1)
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(2, rows=2)
            tap.seal()
            for _ in range(3):
                tap.seal(idle=True)
        windows = await pull(tap, "json", key_range="..-1")
        assert not any(windows.whole.values()) and counted(tap, windows) == [2, 4]


async def test_what_there_is_is_told(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        await written(tap)
        last = (await tap.lines())[-1]["scn"]
        sources = {each["name"]: each["id"] for each in await told(tap, "/sources")}
        assert set(sources) == {"shop.orders", "shop.items"}
        orders = await told(tap, "/register", sources="shop.orders")
        assert [len(json.loads(each["schema"])["fields"]) for each in orders] == [2, 3]
        assert all(each["id"] == sources["shop.orders"] for each in orders)
        [first] = await told(tap, "/register", version=orders[0]["version"])
        assert first == orders[0]
        buffer = await told(tap, "/bufferInfo")
        assert (buffer["minScn"], buffer["maxScn"]) == (begin(tap) + 1, begin(tap) + last)
        inbound = await told(tap, "/containerStats/inbound/events/total")
        assert (inbound["sinceWinScn"], inbound["maxWinScn"]) == (begin(tap), begin(tap) + last)
        assert inbound["minWinScn"] == begin(tap) + 1
        await pull(tap, "json")
        outbound = await told(tap, "/containerStats/outbound/events/total")
        assert outbound["numDataEvents"] > last and outbound["numPeers"] == 0
        status, headers, body = await asked(
            tap, "/stream", sources="shop.items", size="10", output="json", checkPoint=Windows().checkpoint
        )
        assert (status, body) == (200, b"") and int(headers["x-dbus-pending-event-size"]) > 10


@pytest.mark.parametrize("before", [0, 2])
async def test_a_client_that_begins_with_the_latest_gets_all_that_comes_next(
    tmp_path: Path, before: int
) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(before)
        tap.seal()
        stream = {"sources": "shop.items", "size": "1000", "output": "json"}
        windows = Windows(-1)
        _, _, body = await asked(tap, "/stream", **stream, streamFromLatestScn="true")
        [event] = map(json.loads, body.splitlines())
        assert (event["sequence"], event["endOfPeriod"]) == (begin(tap) + before, True)
        windows.take(body, binary=False)
        tap.commit()
        tap.seal()
        _, _, body = await asked(tap, "/stream", **stream, checkPoint=windows.checkpoint)
        assert windows.take(body, binary=False) == 2
        assert [len(events) for events in windows.whole.values()] == [0, 1]
        assert counted(tap, windows) == [before, before + 1]


async def test_columns_that_no_row_has_are_not_registered(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.history.at_source[ORDERS.table] = WIDER
        tap.commit()
        tap.seal()
        [orders] = await told(tap, "/register", sources="shop.orders")
        assert orders["version"] == ORDERS.version and "price" not in json.dumps(orders)
        status, _, _ = await asked(tap, "/register", version=WIDER.version)
        assert status == 404
        # Rows from before the rules have the column until their segment goes.
        del tap.history.at_source[ORDERS.table]
        tap.history.restart(tap.orders, WIDER, Ready)
        tap.history.transaction((tap.orders, "c", (7, "ö", Decimal("1.50"))))
        tap.seal()
        tap.history.restart(tap.orders, ORDERS, Ready)
        tap.history.at_source[ORDERS.table] = WIDER
        tap.commit()
        tap.seal()
        orders = await told(tap, "/register", sources="shop.orders")
        assert [each["version"] for each in orders] == [WIDER.version, ORDERS.version]
        tap.commit()
        tap.seal()
        tap.forget(through=3)
        [orders] = await told(tap, "/register", sources="shop.orders")
        assert orders["version"] == ORDERS.version
        assert len(await told(tap, "/register", sources="shop.items")) == 1


async def test_versions_of_columns_go_with_the_last_segment_that_has_them(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        tap.history.restart(tap.orders, WIDER, Ready)
        tap.history.transaction((tap.orders, "c", (7, "ö", Decimal("1.50"))))
        tap.seal()
        versions, journal = databus_relay.RowVersions(), tap.history.store
        assert {ORDERS.version, WIDER.version} <= versions.since(1, journal, journal.last_segment())
        known = versions.since(2, journal, journal.last_segment())
        assert WIDER.version in known and ORDERS.version not in known
        assert versions._last_with.keys() == known


async def test_a_clients_filters_are_of_each_source(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        await written(tap)
        rows = [(line["table"], line["row"]["id"]) for line in await tap.lines() if "row" in line]
        orders, items = (
            each["id"] for each in sorted(await told(tap, "/sources"), key=lambda e: -len(e["name"]))
        )
        spans = [{"numBuckets": 5, "bktRange": {"start": 0, "end": 3}}]
        filters = {orders: {"partitionType": "MOD", "filters": spans}, items: {"partitionType": "NONE"}}
        windows = await pull(tap, "binary", filters=json.dumps(filters))
        found = [
            (event["srcId"], event["value"]["id"]) for window in windows.whole.values() for event in window
        ]
        assert found == [
            (orders if table == "shop.orders" else items, key)
            for table, key in rows
            if table == "shop.items" or key % 5 < 3
        ]
        assert len(found) < len(rows)


async def test_subscriptions_and_their_checkpoints_are_answered_as_sources(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        await written(tap)
        stream, place = {"size": "100000", "output": "json"}, Windows().checkpoint
        expected = await asked(tap, "/stream", sources="shop.items", checkPoint=place, **stream)
        subs = json.dumps([{"logicalPartition": {"source": {"name": "shop.items"}}}])
        mult = json.dumps({'{"id":0,"name":"*"}': place})
        found = await asked(tap, "/stream", subs=subs, checkPointMult=mult, **stream)
        assert found[2] == expected[2] and found[2].count(b"\n") > 10
        every = await asked(tap, "/stream", subs="[{}]", checkPoint=place, **stream)
        assert every[2].count(b'"schemaId"') > found[2].count(b'"schemaId"')


async def test_what_came_and_what_was_sent_is_counted_by_source(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        await written(tap)
        sources = {each["name"]: str(each["id"]) for each in await told(tap, "/sources")}
        for way in ("inbound", "outbound"):
            listed = await told(tap, f"/containerStats/{way}/events/sources")
            assert sorted(map(str, listed)) == sorted(sources.values())
        lines = [line["table"] for line in await tap.lines() if "row" in line]
        windows = await pull(tap, "json", 1 << 20)
        pulled = [str(event["srcId"]) for window in windows.whole.values() for event in window]
        for name, source in sources.items():
            sent = await told(tap, "/containerStats/outbound/events/source/", source)
            assert sent == {"dimension": source, "numDataEvents": lines.count(name) + pulled.count(source)}
            tap.bench.metrics.count(catalogue.JOURNAL_ROWS, 7, table=name, part="changes")
            came = await told(tap, "/containerStats/inbound/events/source/", name)
            assert came == {"dimension": source, "numDataEvents": 7}
        status, _, body = await asked(tap, "/containerStats/inbound/events/source/7")
        assert (status, json.loads(body)["error"]) == (
            404,
            "sources: 7 is no source; GET /sources lists them",
        )


async def test_a_clients_place_in_another_journal_is_not_found_and_one_of_an_earlier_version_is(
    tmp_path: Path,
) -> None:
    stream, windows = {"sources": "shop.items", "size": "100000", "output": "json"}, Windows()
    async with tapped(tmp_path / "lost") as tap:
        tap.commit(2)
        tap.seal()
        _, _, body = await asked(tap, "/stream", **stream, checkPoint=windows.checkpoint)
        assert windows.take(body, binary=False)
    async with tapped(tmp_path / "new") as tap:
        tap.commit(4)
        tap.seal()
        status, headers, body = await asked(tap, "/stream", **stream, checkPoint=windows.checkpoint)
        assert (status, headers["x-dbus-error"].rpartition(".")[2]) == (410, "ScnNotFoundException")
        assert f"the SCN {windows.scn} is of another journal" in json.loads(body)["error"]
        earlier = Windows(2)
        _, _, body = await asked(tap, "/stream", **stream, checkPoint=earlier.checkpoint)
        assert earlier.take(body, binary=False)
        assert counted(tap, earlier) == [3, 4]
        async with aiohttp.ClientSession() as session:
            for place, status in ((2, 200), (begin(tap) + 2, 200), (windows.scn, 410)):
                async with session.get(f"{tap.url}/translate", params={"since": str(place)}) as answer:
                    assert answer.status == status
                    told = await answer.json()
                    assert status == 410 or (told["scn"], told["databus_scn"]) == (2, begin(tap) + 2)


async def test_wrong_requests_are_refused_in_databus_words(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        for _ in range(3):
            tap.commit(2)
            tap.seal()
        tap.forget(3)
        stream = {"sources": "shop.orders", "size": "1000", "output": "json"}
        gone, future = (json.dumps({"windowScn": scn, "windowOffset": -1}) for scn in (0, 99))
        wrong = '{"7": {"partitionType": "MOD"}}'
        for path, parameters, status, name, said in (
            ("/stream", {**stream, "checkPoint": gone}, 410, "ScnNotFoundException", "GET /bootstrap"),
            ("/stream", {**stream, "checkPoint": future}, 409, "InvalidRequestParam", "the SCN 99 comes after 6"),
            ("/stream", {**stream, "checkPoint": "x"}, 400, "InvalidRequestParam", "checkPoint: it isn't JSON"),
            ("/stream", {**stream, "sources": "7", "checkPoint": future}, 404, "InvalidRequestParam", "7 is no source"),
            ("/register", {"version": "abc"}, 404, "InvalidRequestParam", "no columns of version abc"),
            ("/stream", {**stream, "checkPoint": gone, "filters": wrong}, 400, "InvalidRequest", "filters: 7 is no"),
            ("/bufferInfo", {"x": "1"}, 400, "InvalidRequestParam", "x: there is no such parameter"),
        ):  # fmt: skip
            found, headers, body = await asked(tap, path, **parameters)
            assert (found, said in json.loads(body)["error"]) == (status, True), body
            assert name in headers["x-dbus-error"] and said in headers["x-dbus-error-message"]
