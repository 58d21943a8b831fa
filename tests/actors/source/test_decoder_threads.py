"""Slices come out in their order, and no thread stays."""

import asyncio
import threading

import pytest

from actors.source.decoder_threads import DecoderThreads
from pipeline.binlog.event_type import Code
from pipeline.binlog.slice import Slice, TransactionPart, WholeTransactions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid
from pipeline.messages.binlog import LogAdvanced, ReadingPaused, TransactionPartRead, TransactionsRead
from tests.pipeline.binlog.test_slice import END, A, Making, ids, ordinals

ADVANCED = LogAdvanced(Coordinates("binlog.000002", 4))


def passed(made: Making, number: int, *rows: int) -> Slice:
    if rows:
        made.rows(made.orders, *rows)
    made.passed(f"{A}:{number}", 10)
    return made.slice.cut(WholeTransactions(END))


async def test_what_is_put_is_given_in_its_order() -> None:
    decoding, made = DecoderThreads(), Making()
    try:
        large = passed(made, 1, *range(200_000))
        for given in (large, ADVANCED, passed(made, 2, 7), ReadingPaused()):
            decoding.put(given)
        first, *others = [await decoding.give() for _ in range(4)]
        assert isinstance(first, TransactionsRead)
        assert ids(first) == [list(range(200_000))]
        assert others[0] == ADVANCED
        assert isinstance(others[1], TransactionsRead)
        assert ids(others[1]) == [[7]]
        assert others[2] == ReadingPaused()
        assert decoding.oldest is None
    finally:
        decoding.close()


async def test_the_time_of_the_last_slice_is_known() -> None:
    decoding, made = DecoderThreads(), Making()
    try:
        decoding.put(passed(made, 1, *range(1_000_000)))
        await decoding.give()
        assert decoding.took_s > 0
        assert decoding.tables == 1
    finally:
        decoding.close()


async def test_parts_count_on_whatever_thread_they_are_in() -> None:
    decoding, made = DecoderThreads(), Making()
    gtid = Gtid.parse(f"{A}:1")
    try:
        for n in range(5):
            made.rows(made.orders, *range(n * 1000))
            decoding.put(made.slice.cut_part(TransactionPart(gtid, 10, 10)))
        decoding.put(passed(made, 1, 1))
        counted = []
        for _ in range(6):
            message = await decoding.give()
            assert isinstance(message, TransactionsRead | TransactionPartRead)
            counted += [number for table in ordinals(message) for number in table]
        assert counted == list(range(10_001))
    finally:
        decoding.close()


async def test_so_much_and_no_more_is_under_way() -> None:
    decoding, made = DecoderThreads(), Making()
    try:
        count, freedom = 0, [decoding.free]
        while not decoding.full:
            decoding.put(passed(made, count + 1, count))
            count += 1
            freedom.append(decoding.free)
        assert freedom[0]
        assert not freedom[-1]
        for n in range(count):
            message = await decoding.give()
            assert isinstance(message, TransactionsRead)
            assert ids(message) == [[n]]
    finally:
        decoding.close()


async def test_a_large_slice_is_alone_under_way() -> None:
    decoding, made = DecoderThreads(), Making()
    try:
        made.slice.add_rows(made.orders, Code.WRITE_ROWS, bytes(33 << 20))
        made.passed(f"{A}:1", 10)
        fullness = [decoding.full]
        decoding.put(made.slice.cut(WholeTransactions(END)))
        fullness.append(decoding.full)
        await decoding.give()
        fullness.append(decoding.full)
        assert fullness == [False, True, False]
    finally:
        decoding.close()


async def test_a_slice_that_cannot_be_is_an_error_in_its_place() -> None:
    decoding = DecoderThreads()
    try:
        decoding.put(ADVANCED)
        decoding.put(await asyncio.to_thread(_impossible))
        assert await decoding.give() == ADVANCED
        with pytest.raises(KeyError):
            await decoding.give()
    finally:
        decoding.close()


def _impossible() -> Slice:
    made = Making()
    made.rows(made.orders, 1)
    made.passed(f"{A}:1", 10)
    slice_ = made.slice.cut(WholeTransactions(END))
    return Slice(slice_.rows, {}, slice_.sources, slice_.files, slice_.of, continues=False)


async def test_no_thread_stays_behind_it() -> None:
    before = set(threading.enumerate())
    decoding, made = DecoderThreads(), Making()
    for n in range(3):
        decoding.put(passed(made, n + 1, *range(100_000)))
    decoding.close()
    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
