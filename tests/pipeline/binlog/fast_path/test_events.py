"""The compiled parser by itself: it takes the usual events, and leaves all others unchanged."""

import numpy as np
import pytest

from pipeline.binlog.event_type import Code
from pipeline.binlog.fast_path import events as kernels
from pipeline.binlog.registries import TableMapRegistry, TsidRegistry
from pipeline.binlog.stream_state import BETWEEN, DONE, FRAMED, NO_ROOM, RARE, StreamState, new_rows
from pipeline.gtid.gtid_set import Tsid
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.folding_stream import frames
from tests.pipeline.binlog.test_stream import XID, flipped
from tests.pipeline.binlog.test_transaction_assembler import SERVER, begin, query, row, table


class Parsing:
    """The parser's arguments, for one known map, of `orders` as `test_stream` has it."""

    def __init__(self) -> None:
        self.state, self.sources, self.maps = StreamState(10, 1000, 1000), TsidRegistry(), TableMapRegistry()
        self.sources.number(Tsid(SERVER))
        self.described = table(1, "orders")[19 + 8 : -4]
        self.maps.add(self.described, None)
        self.explained = np.empty((2, 4), np.int64)
        self.rows = new_rows(100, 4, 4)

    def parse(self, *log_events: bytes) -> tuple[int, int]:
        these = frames(log_events)
        status, at = kernels.parse_events(
            these.buffer,
            these.bounds,
            0,
            self.state.record,
            self.sources.encoded,
            self.maps.known,
            self.explained,
            self.rows,
        )
        return int(status), int(at)


USUAL = [begin(1), query("BEGIN"), table(1, "orders"), row(1, 5), made(Code.ROWS_QUERY, b"\x02hi"), XID]


def test_what_is_usual_is_taken_without_python() -> None:
    """Else the two ways would be one: slow."""
    parsing = Parsing()
    assert parsing.parse(*USUAL, *USUAL) == (DONE, 2 * len(USUAL))
    assert (parsing.state.phase, parsing.state.transactions) == (BETWEEN, 2)
    assert parsing.parse(*USUAL[:-1]) == (DONE, len(USUAL) - 1)
    assert (parsing.state.phase, parsing.state.number) == (FRAMED, 1)


@pytest.mark.parametrize("at", range(len(USUAL)))
def test_a_damaged_event_is_left_and_nothing_changed(at: int) -> None:
    parsing = Parsing()
    assert parsing.parse(*USUAL[:at], flipped(USUAL[at])) == (RARE, at)
    before = parsing.state.record.tolist()
    assert parsing.parse(flipped(USUAL[at])) == (RARE, 0)
    assert parsing.state.record.tolist() == before


def test_it_asks_for_room_and_has_changed_nothing() -> None:
    parsing = Parsing()
    transactions = USUAL * 4
    assert parsing.parse(*transactions) == (DONE, len(transactions))
    assert parsing.parse(*USUAL) == (NO_ROOM, len(USUAL) - 1)
    assert parsing.parse(XID) == (NO_ROOM, 0)
    parsing = Parsing()
    maps = [table(i, "orders") for i in range(1, 6)]
    assert parsing.parse(begin(1), query("BEGIN"), *maps) == (NO_ROOM, 6)
    assert parsing.state.tables == 4
