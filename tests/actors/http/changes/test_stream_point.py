"""Streams that have come to the same point have the same bytes, wherever they began and whoever made them."""

import asyncio
import io
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import aiohttp
import pyarrow as pa
import pytest

from actors.http.changes import segment_changes, shared_parts, stream_point
from actors.http.changes.arrow_stream import ArrowStream
from actors.http.changes.json_lines import JsonLines
from actors.http.changes.segment_changes import SegmentChanges
from actors.http.changes.stream_point import StreamPart, StreamPoint
from pipeline.journal.changes.place import ReadPlace
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Filling
from tests.actors.http.changes.journals import WIDER, Tapped, tapped
from tests.actors.http.changes.test_arrow_stream import END
from tests.pipeline.lake.stream.entries import ORDERS
from tests.servers.awaiting import WITHIN_S, until

ORDERS_ONLY: Final = frozenset({ORDERS.table})
FORMS: Final = ("json", "arrow", "arrow&compression=lz4", "arrow&compression=zstd")
CHOICES: Final = ("", "&tables=shop.orders", "&key_modulo=4:0,2", "&tables=shop.items&key_range=..4001")


async def answer(tap: Tapped, query: str) -> bytes:
    """All that a reader gets by the journal's end."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{tap.url}/changes?{query}&through=now") as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.read()


async def followed(tap: Tapped, query: str, checkpoint: bytes) -> bytes:
    """What one gets that has no end, through the part with this checkpoint."""
    got = b""
    async with (
        asyncio.timeout(WITHIN_S),
        aiohttp.ClientSession() as session,
        session.get(f"{tap.url}/changes?{query}") as answer,
    ):
        async for part, is_whole in answer.content.iter_chunks():
            got += part
            if is_whole and checkpoint in got:
                return got
    raise AssertionError("it has no end")


def rewritten(body: bytes, compression: str | None) -> bytes:
    """The same batches, as one writer for each stream writes them."""
    source, sink = io.BytesIO(body), io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    while source.tell() < len(body):
        reader = pa.ipc.open_stream(source)
        with pa.ipc.new_stream(sink, reader.schema, options=options) as writer:
            while True:
                try:
                    rows, metadata = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                writer.write_batch(rows, custom_metadata=metadata)
    return sink.getvalue()


def more_segments(tap: Tapped) -> None:
    """Some with changes of one table or both; one whose columns change; a table that stops, and begins again."""
    tap.commit(3, rows=4)
    tap.seal()
    tap.commit(2, rows=1)
    tap.seal()
    tap.history.stopped[ORDERS.table] = "its rows can't be decoded"
    tap.history.transaction((tap.items, "c", (7,)))
    tap.seal()
    tap.history.stopped.clear()
    tap.history.restart(tap.orders, WIDER, Filling)
    tap.history.transaction((tap.orders, "c", (8, "wide", None)), (tap.items, "c", (9,)))
    tap.seal()


@pytest.mark.parametrize("whole", [1 << 20, 1])
async def test_each_reader_has_the_bytes_that_it_has_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(stream_point, "WHOLE_BYTES", whole)
    monkeypatch.setattr(segment_changes, "SENT_ROWS", 5)
    made = 0
    parts = StreamPoint.parts

    def counted(point: StreamPoint, last: int) -> Iterator[StreamPart]:
        nonlocal made
        made += 1
        return parts(point, last)

    monkeypatch.setattr(StreamPoint, "parts", counted)
    async with tapped(tmp_path) as tap:
        for _ in range(2):
            tap.commit(3, rows=4)
            tap.seal()
        id_ = tap.history.store.identity.id
        # The whole journal; from amid its first segment on, by two names; and from its end on.
        places = ("0", "2", f"{id_}.1.2", f"{id_}.3.0")
        queries = [f"format={f}{c}&since={s}" for f, c, s in product(FORMS[:2], CHOICES, places)]
        queries += [f"format={f}&since=2" for f in FORMS[2:]]
        last = f"{id_}.7.0".encode()
        readers = [asyncio.create_task(followed(tap, query, last)) for query in queries * 3]
        await until(lambda: tap.bench.changes.count == len(readers), "all read")
        more_segments(tap)
        shared = await asyncio.gather(*readers)
        of_shared, made = made, 0
        monkeypatch.setattr(shared_parts, "KEPT_PARTS", 0)
        alone = [await answer(tap, query) for query in queries]
    for at, (query, whole_answer) in enumerate(zip(queries, alone, strict=True)):
        for got in shared[at :: len(queries)]:
            assert whole_answer.startswith(got), query
        # The last one says that it's complete.
        assert len(whole_answer) - len(got) < 2000, query
        if "arrow" in query:
            compression = query.partition("compression=")[2].partition("&")[0] or None
            assert rewritten(whole_answer, compression) == whole_answer, query
            assert END in whole_answer[:-8] or "items" in query
    # Of small segments hardly more is made for three readers than for one.
    assert of_shared < 2 * made or whole == 1


def arrow_point(tap: Tapped, segment: int, tables: frozenset[TableId]) -> StreamPoint:
    """Where a stream of Arrow begins with a segment."""
    journal, _ = tap.bench.changes.tap.sealed()
    schemas = journal.entry(segment).stored_schemas
    form = ArrowStream({table: schema for table, schema in schemas.items() if table in tables})
    return StreamPoint("all", SegmentChanges(journal, ReadPlace(segment), tables), form)


def line_point(tap: Tapped, segment: int) -> StreamPoint:
    """Where a stream of lines begins with a segment."""
    journal, _ = tap.bench.changes.tap.sealed()
    return StreamPoint("all", SegmentChanges(journal, ReadPlace(segment), frozenset()), JsonLines())


def passed(point: StreamPoint, segment: int) -> StreamPoint:
    """Where a stream is after one segment, of which a reader gets the same however often it's made."""
    once, again = list(point.parts(segment)), list(point.parts(segment))
    assert [part.data for part in once] == [part.data for part in again]
    after, other = once[-1].after, again[-1].after
    assert after is not None
    assert other is not None
    assert after.key == other.key
    return after


async def test_a_reader_of_older_columns_is_at_another_point(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        before = passed(arrow_point(tap, 1, ORDERS_ONLY), 1)
        tap.orders.schema = WIDER
        for _ in range(2):
            tap.history.transaction((tap.items, "c", (7,)))
            tap.seal()
        since = passed(arrow_point(tap, 3, ORDERS_ONLY), 3)
        before = passed(passed(before, 2), 3)
        assert before.key != since.key
        tap.history.transaction((tap.orders, "c", (8, "wide", None)))
        tap.seal()
        assert passed(before, 4).key == passed(since, 4).key
        (older,), (newer,) = before.parts(4), since.parts(4)
        assert older.data.endswith(newer.data)
        assert older.data.startswith(END)


async def test_a_reader_that_knows_of_a_stop_is_at_another_point(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.history.stopped[ORDERS.table] = "its rows can't be decoded"
        tap.seal()
        # The table is dropped.
        tap.history.stopped.clear()
        tap.history.tables.pop(ORDERS.table)
        for _ in range(2):
            tap.history.transaction((tap.items, "c", (7,)))
            tap.seal()
        knows, learns = (line_point(tap, segment) for segment in (1, 3))
        knows, learns = passed(passed(passed(knows, 1), 2), 3), passed(learns, 3)
        assert knows.key != learns.key
        tap.history.stopped[ORDERS.table] = "its rows can't be decoded"
        tap.seal()
        found = [b"".join(part.data for part in point.parts(4)) for point in (knows, learns)]
        assert [b"stopped" in each for each in found] == [False, True]
        assert passed(knows, 4).key == passed(learns, 4).key


async def test_a_reader_that_has_a_removed_segment_is_at_another_point(tmp_path: Path) -> None:
    """It knows that a table is read for the first time, and not again."""
    async with tapped(tmp_path) as tap:
        tap.history.tables.pop(ORDERS.table)
        tap.history.transaction((tap.items, "c", (7,)))
        tap.seal()
        knows = passed(line_point(tap, 1), 1)
        tap.history.tables[ORDERS.table] = tap.orders
        tap.history.restart(tap.orders, ORDERS, Filling)
        tap.commit()
        tap.seal()
        tap.forget(2)
        begins = line_point(tap, 2)
        assert knows.key != begins.key
        found = [b"restarted" in b"".join(part.data for part in point.parts(2)) for point in (knows, begins)]
        assert found == [False, True]
