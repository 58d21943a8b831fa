"""Any reader of Arrow's streams gets the rows in the order of commits, with the columns of their time."""

import asyncio
import re
import ssl
import urllib.request
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import duckdb
import pyarrow as pa
import pytest

from actors.http.changes.client import ChangeBatch, ChangesGone, ChangesInterrupted, changes
from pipeline.config.settings import HttpSettings, HttpTlsSettings
from pipeline.errors import Definite
from pipeline.snapshot.checkpoint import Ready
from tests.actors.http.changes.journals import WIDER, Tapped, tapped
from tests.servers.certificates import certificate

# What ends an IPC stream of Arrow's.
END: Final = b"\xff\xff\xff\xff\0\0\0\0"
END_OF_STREAM: Final = re.compile(END)


def fetched(tap: Tapped, query: str, read: Callable[[pa.NativeFile], Any]) -> Any:
    with urllib.request.urlopen(f"{tap.url}/changes?format=arrow&through=now&{query}") as answer:
        assert answer.headers["Content-Type"] == "application/vnd.apache.arrow.stream"
        return read(pa.PythonFile(answer, "r"))


def parted(answer: bytes) -> tuple[bytes, list[bytes]]:
    """The head of an answer, and its chunks."""
    at = answer.index(b"\r\n\r\n") + 4
    head, chunks = answer[:at], []
    while size := int(answer[at : (begin := answer.index(b"\r\n", at) + 2)], 16):
        chunks.append(answer[begin : begin + size])
        at = begin + size + 2
    return head, chunks


def as_table(file: pa.NativeFile) -> pa.Table:
    return pa.ipc.open_stream(file).read_all()


async def test_one_table_has_its_columns_and_several_a_struct_each(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(2, rows=3)
        tap.seal()
        flat = await asyncio.to_thread(fetched, tap, "since=0&tables=shop.orders", as_table)
        assert flat.column_names[-2:] == ["id", "note"]
        assert flat.select(["__scn", "__ordinal", "id"]).to_pylist() == [
            {"__scn": scn, "__ordinal": ordinal, "id": 1000 * (scn - 1) + ordinal}
            for scn in (1, 2)
            for ordinal in (0, 2)
        ]
        both = await asyncio.to_thread(fetched, tap, "since=0&compression=zstd", as_table)
        assert [row["__ordinal"] for row in both.to_pylist()] == [0, 1, 2, 0, 1, 2]
        assert both.column("__table").to_pylist()[:3] == ["shop.orders", "shop.items", "shop.orders"]
        assert both.column("shop.items").to_pylist()[:2] == [None, {"id": 1}]
        assert both.column("shop.orders").to_pylist()[:2] == [{"id": 0, "note": "ö0"}, None]


async def test_duckdb_reads_a_stream(tmp_path: Path) -> None:
    def grouped(file: pa.NativeFile) -> list[tuple[Any, ...]]:
        stream = pa.ipc.open_stream(file)
        return duckdb.from_arrow(stream).aggregate("__op, count(*), sum(id)").fetchall()

    async with tapped(tmp_path) as tap:
        tap.commit(3, rows=4)
        tap.seal()
        found = await asyncio.to_thread(fetched, tap, "since=earliest&tables=shop.items", grouped)
        assert found == [("c", 6, 6 * 1000 + 3 * (1 + 3))]


async def test_columns_that_change_begin_another_stream(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(2, rows=1)
        tap.seal()
        tap.orders.schema = WIDER
        tap.history.transaction((tap.orders, "c", (7, "seven", None)))
        tap.seal()
        for tables in (["shop.orders"], []):
            batches = await asyncio.to_thread(
                lambda: list(changes(tap.url, "earliest", tables=tables, through="now"))  # noqa: B023
            )
            columns = [
                batch.rows.schema.names if tables else batch.rows.schema.field("shop.orders").type.names
                for batch in batches
                if batch.rows.num_rows
            ]
            assert ["price" in names for names in columns] == [False, True]
        # A generic reader gets all of the first stream.
        first = await asyncio.to_thread(fetched, tap, "since=0&tables=shop.orders", as_table)
        assert first.column("id").to_pylist() == [0, 1000]


async def test_a_second_table_that_comes_begins_another_stream(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        items = tap.history.tables.pop(tap.items.schema.table)
        tap.history.transaction((tap.orders, "c", (1, "a")))
        tap.seal()
        batches = aiter(changes(tap.url, "earliest", through=2))
        assert (await anext(batches)).rows.column("note").to_pylist() == ["a"]
        tap.history.tables[items.schema.table] = items
        tap.history.transaction((items, "c", (2,)), (tap.orders, "c", (3, "b")))
        tap.seal()
        second, end = [batch.rows async for batch in batches]
        assert not end.num_rows
        assert second.column("shop.items").to_pylist() == [{"id": 2}, None]
        assert second.column("shop.orders").to_pylist() == [None, {"id": 3, "note": "b"}]


async def test_two_versions_in_one_segment_are_in_order(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit(2, rows=3)
        tap.orders.close_version()
        tap.orders.schema = WIDER
        tap.history.transaction((tap.orders, "c", (7, "seven", None)), (tap.items, "c", (8,)))
        tap.seal()
        batches = await asyncio.to_thread(lambda: list(changes(tap.url, "earliest", through="now")))
        rows = [row for batch in batches for row in batch.rows.select(["__scn", "__ordinal"]).to_pylist()]
        assert [tuple(row.values()) for row in rows] == [
            (1, 0),
            (1, 1),
            (1, 2),
            (2, 0),
            (2, 1),
            (2, 2),
            (3, 0),
            (3, 1),
        ]
        has_price = ["price" in batch.rows.schema.field("shop.orders").type.names for batch in batches]
        assert has_price == sorted(has_price) and set(has_price) == {False, True}
        assert batches[-1].checkpoint == f"{tap.history.store.identity.id}.2.0"


async def test_python_names_what_is_wrong(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        for since, error, said in (("9", Definite, "the SCN 9 comes after 1"), ("x", Definite, "no place")):
            with pytest.raises(error, match=said):
                await asyncio.to_thread(lambda: list(changes(tap.url, since)))  # noqa: B023
        tap.commit()
        tap.seal()
        tap.history.store.consumers.begin_at(2)
        with pytest.raises(ChangesGone, match="begins with segment 2"):
            await asyncio.to_thread(lambda: list(changes(tap.url, 0)))


async def test_python_takes_no_answer_for_whole_that_broke_off(tmp_path: Path) -> None:
    """Wherever it does, also where one of its streams has just ended."""
    async with tapped(tmp_path) as tap:
        tap.commit(2)
        tap.seal()
        tap.history.restart(tap.orders, WIDER, Ready)
        tap.history.transaction((tap.orders, "c", (7, "ö", Decimal("1.50"))))
        tap.seal()
        where = urlsplit(tap.url)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        writer.write(
            b"GET /changes?format=arrow&since=0&through=now HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )
        answer = await reader.read()
        writer.close()
    head, chunks = parted(answer)
    body = b"".join(chunks)
    streams = [each.end() for each in re.finditer(END_OF_STREAM, body)]
    assert len(streams) == 2
    # After this all that is missing is the end of the second stream.
    marked = len(body) - len(END)
    # Chunk by chunk, with one that ends with each stream, whatever came together.
    sent = head
    ends = []
    for begin, end in pairwise(sorted({*range(0, len(body), 1000), *streams})):
        chunk = body[begin:end]
        sent += b"%x\r\n%b" % (len(chunk), chunk)
        ends += [len(sent), len(sent) + 1, len(sent) + 2]
        sent += b"\r\n"
    sent += b"0\r\n\r\n"
    # As a proxy sends it that holds answers back.
    at_once = head.replace(b"Transfer-Encoding: chunked", b"Content-Length: %d" % len(body)) + body
    for whole in (sent, at_once):
        assert sum(each.rows.num_rows for each in await answered(whole)) == 5
    broken = [sent[:end] for end in (*ends, *range(len(head), len(sent), 211)) if end <= ends[-4]]
    for part in (*broken, at_once[: streams[0] - len(body)], at_once[: marked - 1 - len(body)]):
        with pytest.raises(ChangesInterrupted):
            await answered(part)
    # By HTTP/1.0, as some proxies speak it, an answer ends with its connection, however much of it has come.
    plain = b"HTTP/1.0 200 OK\r\nContent-Type: application/vnd.apache.arrow.stream\r\n\r\n"
    for end in (*streams[:-1], *range(0, marked, 211), marked - 1):
        with pytest.raises(ChangesInterrupted):
            await answered(plain + body[:end])
    for end in (marked, len(body)):
        assert sum(each.rows.num_rows for each in await answered(plain + body[:end])) == 5


async def answered(part: bytes) -> list[ChangeBatch]:
    """What a client reads of a service that answers with these bytes and closes the connection."""

    async def answer(asked: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        # A request that wasn't read would break the connection off by itself.
        await asked.readuntil(b"\r\n\r\n")
        to.write(part)
        await to.drain()
        to.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        return await asyncio.to_thread(list, changes(f"http://127.0.0.1:{port}", 0))


async def test_python_reads_through_tls_and_refuses_an_unknown_certificate(tmp_path: Path) -> None:
    certificate(tmp_path, "127.0.0.1")
    http = HttpSettings(tls=HttpTlsSettings(tmp_path / "server.pem"))
    async with tapped(tmp_path, http) as tap:
        tap.commit(2)
        tap.seal()
        for trusted in (tmp_path / "ca.pem", ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))):
            stream = changes(tap.url, 0, through="now", tls=trusted)
            batches = await asyncio.to_thread(list, stream)
            assert sum(batch.rows.num_rows for batch in batches) == 4
        with pytest.raises(ChangesInterrupted, match="certificate verify failed"):
            await asyncio.to_thread(lambda: list(changes(tap.url, 0, through="now")))
        with pytest.raises(Definite, match=f"tls: {tmp_path}/nothere has no certificates"):
            await asyncio.to_thread(
                lambda: list(changes(tap.url, 0, through="now", tls=tmp_path / "nothere"))
            )
