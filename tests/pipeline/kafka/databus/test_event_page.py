"""However small the answers are, a client that continues from its checkpoint has each event once, and whole windows."""

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.kafka.databus import event_page
from pipeline.kafka.databus.event_page import EventPage
from pipeline.kafka.databus.events import AvroEvents, JsonEvents
from pipeline.kafka.databus.stream_query import parse_window
from pipeline.schema.table_schema import TableId, TableSchema
from tests.pipeline.kafka.databus.windows import Windows, batch, ordered
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS

LANES = (ORDERS, ITEMS)


@st.composite
def commits(draw: st.DrawFn) -> list[list[int]]:
    """The lane of each row, by transaction: those of SCN 1, of SCN 2, …"""
    return draw(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), min_size=1, max_size=5))


def page_after(windows: Windows, made: list[list[int]], size: int, split: int, *, binary: bool) -> EventPage:
    """An answer, from rows that come in two pieces."""
    place = parse_window(windows.checkpoint)
    page = EventPage(AvroEvents() if binary else JsonEvents(), size, place.first, place.skipped)
    rows = [
        (scn, lane, 10 * scn + n)
        for scn, lanes in enumerate(made, 1)
        for n, lane in enumerate(lanes)
        if scn > int(str(place.since))
    ]
    pieces = [rows[:split], rows[split:]]
    for number, piece in enumerate(pieces):
        lanes_there = sorted({lane for _, lane, _ in piece})
        if piece:
            parts = [
                batch(
                    LANES[of],
                    [("c", scn, (id_, "x") if of == 0 else (id_,)) for scn, lane, id_ in piece if lane == of],
                )
                for of in lanes_there
            ]
            follows = pieces[number + 1 :]
            whole = not follows or not follows[0] or follows[0][0][0] != piece[-1][0]
            page.add(ordered(*parts), [LANES[lane] for lane in lanes_there], complete=whole)
    if rows:
        page.end(len(made))
    return page


@pytest.mark.parametrize("binary", [False, True])
@given(made=commits(), size=st.integers(300, 1500), split=st.integers(0, 9))
def test_each_event_comes_once(made: list[list[int]], size: int, split: int, binary: bool) -> None:
    windows, counted = Windows(), Counter[TableId]()
    for _ in range(100):
        page = page_after(windows, made, size if not binary else size // 8, split, binary=binary)
        assert page.pending is None or not page.rows.total()
        ends = len(windows.whole)
        come = windows.take(page.whole(), binary=binary)
        assert page.rows.total() == come - (len(windows.whole) - ends)
        counted += page.rows
        if not come:
            break
    assert [sorted(_ids(event, binary) for event in events) for events in windows.whole.values()] == [
        [10 * scn + n for n in range(len(lanes))] for scn, lanes in enumerate(made, 1)
    ]
    assert counted == Counter(LANES[lane].table for lanes in made for lane in lanes)


def _ids(event: dict[str, Any], binary: bool) -> int:
    return int(event["value"]["id"] if binary else event["key"])


@pytest.mark.parametrize(("skipped", "made", "keys"), [(2, 0, [4, 5, 6]), (1, 3, [3, 4, 5, 6])])
def test_events_that_the_client_has_are_not_made_again(
    monkeypatch: pytest.MonkeyPatch, skipped: int, made: int, keys: list[int]
) -> None:
    counted: list[int] = []
    rows_of = JsonEvents.rows

    def count(form: JsonEvents, rows: pa.RecordBatch, schema: TableSchema) -> pa.Array:
        counted.append(rows.num_rows)
        return rows_of(form, rows, schema)

    monkeypatch.setattr(JsonEvents, "rows", count)
    page = EventPage(JsonEvents(), 1 << 20, 1, skipped)
    page.add(ordered(batch(ITEMS, [("b", 1, (1,)), ("u", 1, (2,)), ("c", 1, (3,))])), [ITEMS], complete=False)
    assert sum(counted) == made
    page.add(ordered(batch(ITEMS, [("c", 1, (4,)), ("c", 1, (5,))])), [ITEMS], complete=False)
    page.add(ordered(batch(ITEMS, [("c", 2, (6,))])), [ITEMS], complete=True)
    events = [json.loads(line) for line in page.whole().splitlines()]
    assert [each["key"] for each in events if "endOfPeriod" not in each] == keys
    assert [each["sequence"] for each in events if "endOfPeriod" in each] == [1, 2]


def test_an_event_without_room_is_announced() -> None:
    page = page_after(Windows(), [[0]], 10, 0, binary=False)
    assert page.pending is not None and page.full and not page.rows.total()
    fits = page_after(Windows(), [[0]], page.pending, 0, binary=False)
    assert (fits.pending, fits.rows, fits.full) == (None, Counter([LANES[0].table]), True)


def test_an_event_beyond_the_largest_answer_comes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_page, "LARGEST", 10)
    windows = Windows()
    for _ in range(3):
        page = page_after(windows, [[0, 0]], 10, 0, binary=False)
        assert (page.pending, windows.take(page.whole(), binary=False)) == (None, 1)
    assert [_ids(event, False) for event in windows.whole[1]] == [10, 11]


def test_the_place_moves_without_an_event() -> None:
    page = EventPage(JsonEvents(), 1000)
    page.end(7)
    windows = Windows()
    windows.take(page.whole(), binary=False)
    assert (windows.scn, windows.offset) == (7, -1)
