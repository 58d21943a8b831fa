"""What several streams want next is made once, and kept within bounds."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.http.changes import shared_parts
from actors.http.changes.json_lines import JsonLines
from actors.http.changes.segment_changes import SegmentChanges
from actors.http.changes.shared_parts import FirstPart, SharedParts
from actors.http.changes.stream_point import StreamPart, StreamPoint
from pipeline.errors import Definite
from pipeline.journal.changes.place import ReadPlace
from tests.actors.http.changes.journals import tapped

LINES = JsonLines()


class Made:
    """Makes parts of so many bytes, as soon as it may; `count` of them so far."""

    def __init__(self, point: StreamPoint, size: int = 100) -> None:
        self.may = asyncio.Event()
        self.count = 0
        self.error: Exception | None = None
        self.whole = True
        self._point, self._size = point, size

    async def __call__(self, _: StreamPoint) -> FirstPart | None:
        self.count += 1
        number = self.count
        await self.may.wait()
        if self.error is not None:
            raise self.error
        return FirstPart(self._part(number), None if self.whole else self._others(number))

    def _part(self, number: int) -> StreamPart:
        data = str(number).encode().ljust(self._size)
        return StreamPart(data, Counter(), LINES, self._point if self.whole else None)

    def _others(self, number: int) -> Iterator[StreamPart]:
        yield StreamPart(f"more {number}".encode(), Counter(), LINES, self._point)


@pytest.fixture
async def changes(tmp_path: Path) -> SegmentChanges:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        journal, _ = tap.bench.changes.tap.sealed()
        return SegmentChanges(journal, ReadPlace(1), frozenset())


def point(changes: SegmentChanges, wanted: object = ()) -> StreamPoint:
    return StreamPoint(str(wanted), changes, LINES)


def data(first: FirstPart | None) -> bytes:
    assert first is not None
    return first.part.data.strip()


async def test_who_waits_for_the_same_part_shares_it_whoever_leaves(changes: SegmentChanges) -> None:
    make = Made(point(changes))
    make.may.clear()
    shared = SharedParts(make)
    # Points of their own, which say the same.
    waiting = [asyncio.create_task(shared.next(point(changes))) for _ in range(5)]
    other = asyncio.create_task(shared.next(point(changes, "other")))
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[3].cancel()
    await asyncio.sleep(0)
    make.may.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(each, asyncio.CancelledError) for each in found] == [True, False, False, True, False]
    assert {id(each) for each in found if isinstance(each, FirstPart)} == {id(found[1])}
    assert (data(await waiting[1]), data(await other)) == (b"1", b"2")
    # One that comes later finds it.
    assert data(await shared.next(point(changes))) == b"1"
    assert make.count == 2


async def test_each_has_its_own_parts_of_a_large_segment(changes: SegmentChanges) -> None:
    make = Made(point(changes))
    make.whole = False
    make.may.set()
    shared = SharedParts(make)
    found = await asyncio.gather(*(shared.next(point(changes)) for _ in range(3)))
    assert sorted(map(data, found)) == [b"1", b"2", b"3"]
    for first in found:
        assert first is not None
        assert first.others is not None
        assert next(first.others).data == b"more " + data(first)
    assert data(await shared.next(point(changes))) == b"4"


async def test_an_error_is_of_all_who_wait_and_of_nobody_later(changes: SegmentChanges) -> None:
    make = Made(point(changes))
    make.error = Definite("a file is damaged")
    make.may.set()
    shared = SharedParts(make)
    found = await asyncio.gather(*(shared.next(point(changes)) for _ in range(3)), return_exceptions=True)
    assert found == [make.error] * 3
    make.error = None
    assert data(await shared.next(point(changes))) == b"2"


@pytest.mark.parametrize(("parts", "size"), [(4, 1 << 30), (1000, 450)])
async def test_of_what_was_taken_long_ago_nothing_is_kept(
    changes: SegmentChanges, monkeypatch: pytest.MonkeyPatch, parts: int, size: int
) -> None:
    monkeypatch.setattr(shared_parts, "KEPT_PARTS", parts)
    monkeypatch.setattr(shared_parts, "KEPT_PARTS_BYTES", size)
    make = Made(point(changes))
    make.may.set()
    shared = SharedParts(make)
    for number in range(1, 11):
        assert data(await shared.next(point(changes, number))) == b"%d" % number
    # What is wanted again isn't the oldest any more.
    for number in (7, 8, 9, 10, 7):
        assert data(await shared.next(point(changes, number))) == b"%d" % number
    assert make.count == 10
    assert data(await shared.next(point(changes, 6))) == b"11"
    for number in (9, 10, 7):
        assert data(await shared.next(point(changes, number))) == b"%d" % number
    assert data(await shared.next(point(changes, 8))) == b"12"
