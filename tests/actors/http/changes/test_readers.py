"""Readers at different places each get each change once, in the order of commits, and transactions as a whole."""

import asyncio
import json
import re
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import pytest
import structlog

from actors.http import server
from actors.http.changes import readers, segment_changes, shared_parts, stream_point
from actors.http.changes.client import ChangesInterrupted, changes
from actors.http.changes.json_lines import JsonLines
from actors.http.changes.segment_changes import ChangesRead, SegmentChanges
from actors.http.routes import ROUTES
from actors.journal.files import LocalFiles
from pipeline.config.settings import HttpSettings, Secret
from pipeline.journal.applied.progress import SegmentEnd, TableProgress
from pipeline.journal.changes.place import ReadPlace
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.snapshot.snapshot import Snapshot, SnapshotWaiting
from tests.actors.http.changes.journals import Tapped, tapped
from tests.actors.http.test_routes import conforms
from tests.integration.history import SOURCE
from tests.pipeline.journal.applied.progress import Delivered, delivered
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS
from tests.servers.awaiting import WITHIN_S, until

ROOT = Path(__file__).parents[4]
Row = tuple[int, int]


def row(line: dict[str, Any]) -> Row:
    return line["scn"], line["ordinal"]


async def following(
    tap: Tapped, begun: Callable[[], None] = lambda: None, **asked: str
) -> AsyncGenerator[dict[str, Any], None]:
    """The lines of an answer without an end; `begun` is called when it begins."""
    async with (
        aiohttp.ClientSession(read_bufsize=1 << 22) as session,
        session.get(f"{tap.url}/changes", params=asked) as answer,
    ):
        assert answer.status == 200, await answer.text()
        begun()
        async for line in answer.content:
            yield json.loads(line)


async def whole(
    tap: Tapped, until_scn: int, begun: Callable[[], None] = lambda: None, **asked: str
) -> list[Row]:
    """The rows that a reader has by the checkpoint of this SCN."""
    rows: list[Row] = []
    async with asyncio.timeout(WITHIN_S), aclosing(following(tap, begun, **asked)) as lines:
        async for line in lines:
            if "checkpoint" not in line:
                rows.append(row(line))
            elif line["scn"] == until_scn:
                return rows
    raise AssertionError("it has no end")


def expected(first: int, last: int, rows: int = 4) -> list[Row]:
    return [(scn, ordinal) for scn in range(first, last + 1) for ordinal in range(rows)]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment comes in many pieces, and a file in many batches."""
    monkeypatch.setattr(segment_changes, "READ_ROWS", 7)
    monkeypatch.setattr(segment_changes, "SENT_ROWS", 5)


@pytest.mark.parametrize("within", [40_000, 1])
async def test_large_rows_are_read_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within: int
) -> None:
    monkeypatch.setattr(segment_changes, "READ_ROWS_BYTES", within)
    monkeypatch.setattr(segment_changes, "SENT_ROWS_BYTES", within)
    async with tapped(tmp_path) as tap:
        tap.commit(20, text="x" * 10_000)
        tap.commit(1, rows=40, text="x" * 10_000)
        tap.seal()
        journal, there = tap.bench.changes.tap.sealed()
        read = list(SegmentChanges(journal, ReadPlace(1), frozenset({ORDERS.table})).read(there.last))
        pieces = [each.rows for each in read if each.rows is not None]
        assert sum(map(len, pieces)) == 40
        assert max(piece.nbytes for piece in pieces) < 2 * within + 25_000


@pytest.mark.usefixtures("small_pieces")
async def test_readers_at_different_places_follow_the_journal(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        for _ in range(3):
            tap.commit(5, rows=4)
            tap.seal()
        places = {"earliest": 1, "0": 1, "7": 8, "15": 16, "now": 16}
        begun = asyncio.Semaphore(0)
        following = [asyncio.create_task(whole(tap, 25, begun.release, since=since)) for since in places]
        for _ in places:
            await begun.acquire()
        for _ in range(2):
            tap.commit(5, rows=4)
            tap.seal()
        for first, rows in zip(places.values(), await asyncio.gather(*following), strict=True):
            assert rows == expected(first, 25)


async def test_readers_follow_the_journal_into_another_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store the writer takes one whenever capture begins again, as after a failover of the source."""
    monkeypatch.setattr(LocalFiles, "changes_late", True)
    async with tapped(tmp_path) as tap:
        tap.commit(rows=4)
        tap.seal()

        def begin_again() -> None:
            for _ in range(2):
                tap.history.store.recover()
                tap.commit(rows=4)
                tap.seal()

        assert await whole(tap, 3, begin_again, since="earliest") == expected(1, 3)


@pytest.mark.usefixtures("small_pieces")
async def test_a_reader_that_is_killed_continues_from_any_of_its_checkpoints(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        for _ in range(3):
            tap.commit(4, rows=6)
            tap.seal()
        lines = await tap.lines()
        rows: list[Row] = []
        for line in lines:
            if "checkpoint" in line:
                left = await tap.lines(since=line["checkpoint"])
                assert rows + [row(each) for each in left if "row" in each] == expected(1, 12, 6)
            else:
                rows.append(row(line))
        assert sum("checkpoint" in line for line in lines) > 3


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("since", ["0", "2", f"{SOURCE}:1-2:4"])
@pytest.mark.parametrize(
    "through", ["1", "2", "3", "4", "6", "8", f"{SOURCE}:1-2", f"{SOURCE}:1-6", f"{SOURCE}:2:7", "now"]
)
async def test_one_that_ends_within_a_segment_continues_with_the_rest(
    tmp_path: Path, since: str, through: str
) -> None:
    """Each row comes once, whichever of the checkpoints it continues with."""
    had = {"0": 0, "2": 2}
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(4, rows=6)
            tap.seal()
        wanted = [at for at in expected(1, 8, 6) if at[0] > had.get(since, 0)]
        wanted = [at for at in wanted if since in had or at[0] not in (1, 2, 4)]
        lines = await tap.lines(since=since, through=through)
        rows: list[Row] = []
        for line in lines:
            if "checkpoint" in line:
                left = await tap.lines(since=line["checkpoint"])
                assert sorted(rows + [row(each) for each in left if "row" in each]) == wanted, line
            else:
                rows.append(row(line))
        assert lines[-1]["complete"] is True
        assert sum("complete" in line for line in lines) == 1
        if through.isdigit():
            assert {scn for scn, _ in rows} <= set(range(int(through) + 1))


async def test_steps_of_a_transaction_each_are_all(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(3, rows=2)
            tap.seal()
        place, ids = "earliest", list[int]()
        for scn in range(1, 7):
            stream = changes(tap.url, place, tables=["shop.orders"], through=scn)
            for batch in await asyncio.to_thread(list, stream):
                ids += batch.rows.column("__scn").to_pylist()
                place = batch.checkpoint or place
        assert ids == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("kept", [0, 2, 1000])
async def test_one_that_takes_nothing_delays_no_other_and_gets_all_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """Also what others have had long ago, and what is kept no more."""
    monkeypatch.setattr(shared_parts, "KEPT_PARTS", kept)
    async with tapped(tmp_path) as tap:
        tap.commit(1, rows=2)
        tap.seal()
        host, port = tap.url.removeprefix("http://").split(":")
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            stalled.connect((host, int(port)))
            stalled.sendall(f"GET /changes?since=0 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            await until(lambda: tap.bench.changes.count == 1, "it reads")
            # 8 MB, more than the socket has room for.
            for _ in range(40):
                tap.commit(1, rows=40, text="x" * 10_000)
                tap.seal()
            assert await whole(tap, 41, since="1") == expected(2, 41, 40)
            got = bytearray()
            while b'"scn":41}' not in got[-1000:]:
                got += await asyncio.to_thread(stalled.recv, 1 << 20)
            found = [json.loads(line) for line in got.splitlines() if line.startswith(b'{"table"')]
            assert [row(line) for line in found] == [*expected(1, 1, 2), *expected(2, 41, 40)]
        tap.commit()
        tap.seal()
        await until(lambda: tap.bench.changes.count == 0, "it has gone")


async def test_one_that_takes_nothing_for_long_is_cut_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STALLED_S", 2.0)
    monkeypatch.setattr(readers, "CHECKPOINT_EVERY_S", 0.1)
    async with tapped(tmp_path) as tap, aclosing(following(tap, since="0")) as lines:
        tap.commit(1, rows=1000, text="x" * 10_000)
        tap.seal()
        await anext(lines)
        host, port = tap.url.removeprefix("http://").split(":")
        with socket.socket() as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            stalled.connect((host, int(port)))
            stalled.sendall(f"GET /changes?since=0 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            await until(lambda: tap.bench.changes.count == 2, "it reads")
            began = asyncio.get_running_loop().time()
            while tap.bench.changes.count == 2:
                await anext(lines)
            assert 1.0 < asyncio.get_running_loop().time() - began < WITHIN_S
            got = b""
            with suppress(ConnectionResetError):
                while part := await asyncio.to_thread(stalled.recv, 1 << 20):
                    got = part
            assert not got.endswith(b"0\r\n\r\n")
        assert "checkpoint" in await anext(lines)


async def test_wrong_places_and_tables_are_refused_by_name(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        asked = [("since=now", 503, "no segment yet")]
        assert await refusals(tap, asked) == asked
        for _ in range(3):
            tap.commit(2)
            tap.seal()
        tap.forget(3)
        store = tap.history.store
        gone = store.consumers.first()
        asked = [
            ("since=7", 409, "the SCN 7 comes after 6"),
            ("since=x.1.1", 409, "the checkpoint is of the journal x"),
            ("since=yesterday", 400, "is no place in the journal"),
            ("since=0", 410, f"the journal begins with segment {gone}"),
            (f"since={store.identity.id}.1.1", 410, f"begins with segment {gone}"),
            ("tables=shop.order", 404, "did you mean shop.orders?"),
            ("nothing=1", 400, "nothing: there is no such parameter"),
            ("tables=shop.orders&tables=shop.items", 400, "tables: it comes more than once"),
        ]
        assert await refusals(tap, asked) == asked


async def test_readers_that_share_the_keys_have_each_row_once(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(4, rows=6)
        tap.seal()
        shares = [await ids(tap, key_modulo=f"4:{part}") for part in range(4)]
        assert sorted(id_ for share in shares for id_ in share) == [
            1000 * n + k for n in range(4) for k in range(6)
        ]
        assert all(id_ % 4 == part for part, share in enumerate(shares) for id_ in share)
        assert await ids(tap, key_range="1002..2001", tables="shop.orders") == [1002, 1004, 2000]
        asked = [
            ("key_range=x..", 400, "key_range: 'x' is no value of shop.orders.id"),
            ("key_modulo=1", 400, "key_modulo: '1' is no modulo"),
        ]
        assert await refusals(tap, asked) == asked


async def ids(tap: Tapped, **asked: str) -> list[int]:
    return [line["row"]["id"] for line in await tap.lines(**asked) if "row" in line]


async def refusals(tap: Tapped, asked: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    found = []
    async with aiohttp.ClientSession() as session:
        for query, _, said in asked:
            async with session.get(f"{tap.url}/changes?{query}") as answer:
                error = (await answer.json())["error"]
                found.append((query, answer.status, said if said in error else error))
    return found


async def test_one_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST_READERS", 1)
    async with tapped(tmp_path) as tap:
        tap.seal()
        async with aclosing(following(tap)) as lines:
            first = asyncio.ensure_future(anext(lines))
            await until(lambda: tap.bench.changes.count == 1, "the first reads")
            status, text = await tap.bench.get("/changes")
            assert (status, json.loads(text)["error"]) == (429, "1 read changes already")
            tap.commit()
            tap.seal()
            assert (await first)["scn"] == 1


async def test_one_whose_place_goes_while_it_reads_learns_it(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        for _ in range(4):
            tap.commit(2)
            tap.seal()
        lines = following(tap, since="0")
        async with aclosing(lines):
            first = await anext(lines)
            assert first["scn"] == 1
            # What it reads next is removed by hand.
            tap.forget(4)
            tap.commit(2)
            tap.seal()
            said: list[dict[str, Any]] = []
            with pytest.raises(aiohttp.ClientPayloadError):
                said += [line async for line in lines]


async def test_an_answer_that_breaks_off_has_no_end_and_no_other_answer_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, broken = JsonLines.write, 0

    def write(form: JsonLines, read: ChangesRead) -> bytes:
        nonlocal broken
        if read.checkpoint is not None and read.checkpoint.segment > 2:
            broken += 1
            raise KeyError("no such column")
        return original(form, read)

    monkeypatch.setattr(JsonLines, "write", write)
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(2)
            tap.seal()
        host, port = tap.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET /changes?since=0 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        sent = await reader.readuntil(b"\r\n\r\n")
        with structlog.testing.capture_logs() as logged, suppress(ConnectionResetError):
            while part := await reader.read(1 << 16):
                sent += part
        writer.close()
    assert broken == 1
    assert [(each["event"], each["path"]) for each in logged] == [("request failed", "/changes")]
    assert sent.count(b"HTTP/1.1") == 1
    assert not sent.endswith(b"0\r\n\r\n")


async def test_one_learns_which_tables_stop_and_begin_again(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(2)
        tap.seal()
        before = (await tap.lines())[-2]
        assert before.keys() == {"checkpoint", "scn"}
        tap.history.stopped[ORDERS.table] = "its rows can't be decoded"
        tap.history.transaction((tap.items, "c", (7,)))
        tap.seal()
        tap.history.stopped.clear()
        tap.history.restart(tap.orders, ORDERS, Filling)
        tap.seal()  # without a row
        tap.history.restart(tap.items, ITEMS, Ready)  # emptied
        tap.history.transaction((tap.orders, "c", (8, "x")))
        tap.seal()
        told = [line for line in await tap.lines(since=before["checkpoint"]) if "checkpoint" in line]
        stopped = {"shop.orders": "its rows can't be decoded"}
        assert [(line.get("stopped"), line.get("restarted")) for line in told] == [
            (stopped, None), (None, ["shop.orders"]), (None, None), (None, None)
        ]  # fmt: skip
        # Whoever continues with a checkpoint has what comes after it, and of another table nothing.
        assert [line for line in await tap.lines(since=told[1]["checkpoint"]) if "restarted" in line] == []
        again = await tap.lines(since=told[0]["checkpoint"])
        assert [line["restarted"] for line in again if "restarted" in line] == [["shop.orders"]]
        others = await tap.lines(since=before["checkpoint"], tables="shop.items")
        assert not any({"restarted", "stopped"} & line.keys() for line in others)
        # What began in a segment whose predecessor has gone is told as well.
        tap.forget(3)
        batches = await asyncio.to_thread(list, changes(tap.url, told[0]["checkpoint"], through="now"))
        assert [batch.restarted for batch in batches if batch.restarted] == [("shop.orders",)]
        tap.history.stopped[ITEMS.table] = "é"
        tap.seal()
        batches = await asyncio.to_thread(list, changes(tap.url, told[2]["checkpoint"], through="now"))
        assert [batch.stopped for batch in batches if batch.stopped] == [{"shop.items": "é"}]


@pytest.mark.parametrize("form", ["json", "arrow"])
async def test_where_the_service_stops_first_the_answer_has_no_end(tmp_path: Path, form: str) -> None:
    """Else a reader would believe that it has all changes through the place that it named."""
    async with tapped(tmp_path) as tap:
        tap.commit(2)
        tap.seal()
        through = tap.history.scn + 1000
        host, port = tap.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        asked = f"GET /changes?since=0&through={through}&format={form} HTTP/1.1"
        writer.write(f"{asked}\r\nHost: {host}\r\n\r\n".encode())
        sent = await reader.readuntil(b"\r\n\r\n") + await reader.read(1 << 16)
        # Another form, so that the two don't wait together.
        another = changes(tap.url, 0, through=through, compression="lz4")
        read = asyncio.create_task(asyncio.to_thread(list, another))
        await until(lambda: len(tap.bench.changes._news._waiters) == 2, "both wait for more")
        tap.bench.changes.end()
        with suppress(ConnectionResetError):
            while part := await reader.read(1 << 16):
                sent += part
        writer.close()
        with pytest.raises(ChangesInterrupted, match="the service stops: continue with the last checkpoint"):
            await read
    assert b"the service stops" in sent
    assert not sent.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("form", ["json", "arrow"])
async def test_one_whose_token_was_replaced_gets_no_more(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "CHECKPOINT_EVERY_S", 0.05)
    file = tmp_path / "read-token"
    file.write_text("a" * 32)
    token = Secret("a" * 32, file)
    http = HttpSettings(host="0.0.0.0", token=Secret("b" * 32), read_token=token)
    async with asyncio.timeout(WITHIN_S), tapped(tmp_path, http) as tap:
        tap.commit()
        tap.seal()
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token.value}"}) as session,
            session.get(f"{tap.url}/changes?since=0&format={form}") as answer,
        ):
            await answer.content.read(1)
            file.write_text("c" * 32)
            sent = bytearray()

            async def take_all() -> None:
                async for part in answer.content.iter_any():
                    sent.extend(part)

            with pytest.raises(aiohttp.ClientPayloadError):  # it has no proper end
                await take_all()
            assert b"the token isn't valid any more" in sent


async def test_an_idle_reader_gets_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "CHECKPOINT_EVERY_S", 0.01)
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        async with aclosing(following(tap)) as lines:
            assert (await anext(lines))["checkpoint"] == f"{tap.history.store.identity.id}.2.0"


async def test_an_answer_without_changes_says_which_scn_all_come_after(tmp_path: Path) -> None:
    """A program that keeps the SCN as its place would else begin with all that it has."""
    async with tapped(tmp_path) as tap:
        for _ in range(3):
            tap.commit(2)
            tap.seal()
        (after_all,) = await tap.lines(since="now")
        (told, *_) = await tap.lines(since=after_all["checkpoint"])
        assert (after_all["scn"], told["scn"]) == (6, 6)
        (first, *_) = await tap.lines(since="earliest", through="0")
        assert first["scn"] == 0


async def test_one_whose_tables_rarely_change_gets_checkpoints_however_much_the_journal_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "CHECKPOINT_EVERY_S", 0.2)
    async with tapped(tmp_path) as tap, asyncio.timeout(WITHIN_S):
        tap.seal()
        async with aclosing(following(tap, key_range="..-1")) as lines:
            first = asyncio.ensure_future(anext(lines))
            await until(lambda: tap.bench.changes.count == 1, "it reads")
            while not first.done():
                tap.commit()
                tap.seal()
                await asyncio.sleep(0)
            assert "checkpoint" in await first


async def test_one_that_finds_nothing_takes_turns_and_gets_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "CHECKPOINT_EVERY_S", 0.0)
    monkeypatch.setattr(stream_point, "SEGMENTS_AT_ONCE", 2)
    async with tapped(tmp_path) as tap:
        for _ in range(5):
            tap.commit()
            tap.seal()
        lines = await tap.lines(key_range="..-1")
        segments = [line["checkpoint"].split(".")[1] for line in lines]
        assert segments == ["3", "5", "6"]
        assert [line.get("complete") for line in lines] == [None, None, True]


async def test_python_iterates_over_batches_both_ways(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(6, rows=4)
        tap.seal()
        stream = changes(tap.url, 0, tables=["shop.orders"], through="now")
        both = [[batch async for batch in stream], await asyncio.to_thread(list, stream)]
        for batches in both:
            ids = [id_ for batch in batches for id_ in batch.rows.column("id").to_pylist()]
            assert ids == [1000 * n + k for n in range(6) for k in (0, 2)]
            assert batches[-1].checkpoint == f"{tap.history.store.identity.id}.2.0"
        part = changes(tap.url, 0, through="now", key_range="1000..3999", key_modulo="1000:1")
        found = [batch async for batch in part]
        assert [n for batch in found for n in batch.rows.column("__scn").to_pylist()] == [2, 3, 4]


def test_a_reader_that_is_cancelled_leaves_no_thread_that_waits() -> None:
    """The end of a program waits for its threads, and the service may be silent for long."""

    async def cancel_reader(server: socket.socket) -> None:
        host, port = server.getsockname()
        reading = asyncio.ensure_future(anext(aiter(changes(f"http://{host}:{port}"))))
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            assert await asyncio.to_thread(connection.recv, 1)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            began = monotonic()
            await asyncio.get_running_loop().shutdown_default_executor()
            assert monotonic() - began < WITHIN_S / 2

    with socket.create_server(("127.0.0.1", 0)) as server:
        asyncio.run(cancel_reader(server))


async def test_a_place_and_its_translations_begin_with_the_same_changes(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(3, rows=4)
            tap.seal()
        for scn in range(4, 7):
            found = await asked_json(tap, "/translate", since=str(scn))
            assert (found["scn"], found["beyond"]) == (scn, "")
            for form in (str(scn), found["gtid_set"], found["checkpoint"]):
                rows = [row(line) for line in await tap.lines(since=form) if "row" in line]
                assert rows == expected(scn + 1, 6), form
        # The segment's position has a transaction without changes. It is no change that a reader could lack.
        assert (await asked_json(tap, "/translate", since=f"{SOURCE}:1-4"))["scn"] == 4


async def test_what_comes_while_the_source_is_idle_comes_after_each_form_of_the_place_before(
    tmp_path: Path,
) -> None:
    """A row that was read again has no GTID. The end of a stop has no SCN either."""
    async with tapped(tmp_path) as tap:
        tap.history.stopped = {ITEMS.table: "its rows can't be decoded"}
        tap.commit(3, rows=1)
        tap.seal()
        tap.history.stopped = {}
        tap.seal(idle=True)
        tap.history.read_again(tap.orders, [(1000,)])
        tap.seal(idle=True)
        tap.history.scn += 1  # where the source's next transaction would have been without changes
        tap.commit(1, rows=1)
        tap.seal()
        for place in ("3", f"{SOURCE}:1-4", f"{tap.history.store.identity.id}.2.0"):
            found = await asked_json(tap, "/translate", since=place)
            assert (found["scn"], found["gtid_set"], found["beyond"]) == (3, f"{SOURCE}:1-4", "")
            for form in (place, *(str(found[name]) for name in ("scn", "gtid_set", "checkpoint"))):
                lines = await tap.lines(since=form)
                assert [row(line) for line in lines if "row" in line] == [(4, 0), (6, 0)], form
                told = [line["restarted"] for line in lines if "restarted" in line]
                assert told == [["shop.items"]], form
        # Once retention has removed some of that, only a checkpoint says that it has come.
        tap.forget(2)
        status, text = await tap.bench.get(f"/changes?since={SOURCE}:1-4")
        assert (status, "as far as the journal can tell" in text) == (410, True), text
        lines = await tap.lines(since=f"{tap.history.store.identity.id}.3.0")
        assert [row(line) for line in lines if "row" in line] == [(4, 0), (6, 0)]


async def is_held(reader: asyncio.Task[list[Row]]) -> bool:
    """Whether a reader has nothing by the time at which it would long have had it."""
    await asyncio.wait({reader}, timeout=0.3)
    return not reader.done()


async def test_the_lake_takes_the_last_segment_before_readers_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LAKE_FIRST_S", 2 * WITHIN_S)
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        tap.bench.changes.lake_progressed(lake_at(tap, 1))
        tap.commit()
        tap.seal()
        reader = asyncio.create_task(whole(tap, 2, since="earliest"))
        assert await is_held(reader)
        tap.bench.changes.lake_progressed(lake_at(tap, 2))
        assert await reader == expected(1, 2, rows=2)
        # It doesn't wait for a lake that is behind the journal's end.
        reader = asyncio.create_task(whole(tap, 3, since="2"))
        tap.commit()
        tap.seal()
        assert await is_held(reader)
        tap.commit()
        tap.seal()
        assert await reader == expected(3, 3, rows=2)


async def test_readers_wait_for_the_lake_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "LAKE_FIRST_S", 0.01)
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        tap.bench.changes.lake_progressed(lake_at(tap, 1))
        tap.commit()
        tap.seal()
        assert await whole(tap, 2, since="earliest") == expected(1, 2, rows=2)


async def test_a_bootstrap_without_a_place_in_the_lake_is_refused_by_name(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        status, text = await tap.bench.get("/bootstrap?tables=shop.orders")
        assert (status, "nothing is known of the lake yet" in text) == (503, True), text
        tap.bench.changes.lake_progressed(
            lake_at(tap, 1, items=TableProgress(SegmentEnd(1), lacks="it is filling"))
        )
        status, text = await tap.bench.get("/bootstrap")
        assert (status, "shop.items can't be read in the lake yet: it is filling" in text) == (503, True), (
            text
        )
        found = await asked_json(tap, "/bootstrap", tables="shop.orders")
        assert found["checkpoint"] == f"{tap.history.store.identity.id}.2.0"
        assert (found["segment"], found["tables"]) == (1, {"shop.orders": {"changelog": 1}})
        status, text = await tap.bench.get("/bootstrap?tables=shop.order")
        assert (status, "did you mean shop.orders?" in text) == (404, True), text


async def test_whoever_learns_that_a_table_begins_again_finds_no_rows_of_before(tmp_path: Path) -> None:
    """The notice comes when the segment is sealed, and the lake gets the segment later."""
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        tap.bench.changes.lake_progressed(lake_at(tap, 1))
        tap.history.restart(tap.orders, ORDERS, Filling)
        tap.history.snapshots = (Snapshot("again", {ORDERS.table: SnapshotWaiting()}),)
        tap.commit()
        tap.seal()
        told = [line for line in await tap.lines() if "restarted" in line]
        assert [line["restarted"] for line in told] == [["shop.orders"]]
        status, text = await tap.bench.get("/bootstrap?tables=shop.orders")
        assert (status, "shop.orders can't be read in the lake yet: it has begun again" in text) == (
            503,
            True,
        ), text
        assert (await asked_json(tap, "/bootstrap", tables="shop.items"))["segment"] == 1
        tap.bench.changes.lake_progressed(lake_at(tap, 2))
        assert (await asked_json(tap, "/bootstrap", tables="shop.orders"))["segment"] == 2


async def test_a_table_is_read_in_the_lake_however_often_it_is_emptied(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        tap.bench.changes.lake_progressed(lake_at(tap, 1))
        for _ in range(2):
            tap.history.restart(tap.orders, ORDERS, Ready)
            tap.commit()
            tap.seal()
            found = await asked_json(tap, "/bootstrap", tables="shop.orders")
            assert found["checkpoint"] == f"{tap.history.store.identity.id}.2.0"


def lake_at(tap: Tapped, segment: int, **tables: TableProgress) -> Delivered:
    checkpoint = tap.history.store.entry(segment).checkpoint
    return replace(delivered(segment, f"{SOURCE}:1-2", **tables), checkpoint=checkpoint)


async def asked_json(tap: Tapped, path: str, **asked: str) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{tap.url}{path}", params=asked) as answer,
    ):
        found: dict[str, Any] = await answer.json()
        assert answer.status == 200, found
        [schema] = [route.answers[200].schema for route in ROUTES if route.path == path]
        conforms(schema or "", found)
        return found


async def test_the_documents_lines_for_curl_answer_what_it_shows(tmp_path: Path) -> None:
    """Each `curl` of docs/relay.md, by curl itself; its answer has the fields that the document shows after it."""
    text = (ROOT / "docs" / "relay.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (curl (?:.*\\\n)*.*)\n(?:\n```json\n([^`]*)```)?", text, re.MULTILINE)
    assert len(commands) >= 6
    async with tapped(tmp_path) as tap:
        tap.commit(350, rows=1)
        tap.seal()
        tap.bench.changes.lake_progressed(lake_at(tap, 1))
        for command, shown in commands:
            lines = await answered(tap, command.replace("localhost:8321", tap.url.removeprefix("http://")))
            for example in examples(shown):
                assert set(example) in [set(each) for each in lines], (command, example, lines[:3])


def examples(shown: str) -> list[dict[str, Any]]:
    """The object that a block of JSON has, or one for each of its lines."""
    try:
        return [json.loads(shown)] if shown else []
    except ValueError:
        return [json.loads(line) for line in shown.splitlines()]


async def answered(tap: Tapped, command: str) -> list[dict[str, Any]]:
    """What a command prints. One that follows the journal is ended after its first lines."""
    shell = await asyncio.create_subprocess_shell(
        f"exec {command}", stdout=asyncio.subprocess.PIPE, limit=1 << 24
    )
    assert shell.stdout is not None
    if "/changes" not in command:
        told, _ = await shell.communicate()
        answer = [json.loads(line) for line in told.splitlines()] if b"\n" in told else json.loads(told)
        assert shell.returncode == 0 and answer, command
        return answer if isinstance(answer, list) else [answer]
    await until(lambda: tap.bench.changes.count == 1, "it reads")
    lines = list[dict[str, Any]]()
    while not lines or "checkpoint" not in lines[-1]:
        reading = asyncio.ensure_future(shell.stdout.readline())
        while not reading.done():
            tap.commit(4, rows=2)
            tap.seal()
            await asyncio.wait({reading}, timeout=0.1)
        lines.append(json.loads(await reading))
    shell.kill()
    await shell.wait()
    await until(lambda: tap.bench.changes.count == 0, "it has gone", every_s=0.05)
    return lines
