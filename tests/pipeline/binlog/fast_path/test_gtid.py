"""Transactions begin without Python where their source is known, tagged or not."""

import pytest

from pipeline.binlog.stream_state import BEGUN, BETWEEN, DONE, RARE
from pipeline.gtid.gtid_set import Tsid
from tests.pipeline.binlog.fast_path.test_events import Parsing
from tests.pipeline.binlog.test_stream import tagged
from tests.pipeline.binlog.test_transaction_assembler import SERVER, begin


@pytest.mark.parametrize(("event", "source"), [(begin(7), Tsid(SERVER)), (tagged(7), Tsid(SERVER, "tag"))])
def test_a_known_source_is_found_among_others(event: bytes, source: Tsid) -> None:
    parsing = Parsing()
    for other in (Tsid(SERVER, "gat"), Tsid(SERVER, "t"), Tsid(SERVER[:-1] + "3", "tag")):
        parsing.sources.number(other)
    number = parsing.sources.number(source)
    assert parsing.parse(event) == (DONE, 1)
    assert (parsing.state.phase, parsing.state.source, parsing.state.number) == (BEGUN, number, 7)


def test_a_new_source_is_left_to_the_fold() -> None:
    parsing = Parsing()
    assert parsing.parse(tagged(7)) == (RARE, 0)
    assert parsing.state.phase == BETWEEN


@pytest.mark.parametrize("event", [begin(0), tagged(0)])
def test_a_number_that_cannot_be_is_left_to_the_fold(event: bytes) -> None:
    parsing = Parsing()
    parsing.sources.number(Tsid(SERVER, "tag"))
    assert parsing.parse(event) == (RARE, 0)
