"""An offset is read again as it was written, and one that the journal can't continue from is refused by name."""

from dataclasses import replace

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.retained_range import RetainedRange
from pipeline.lake.stream import segment_offset
from pipeline.lake.stream.segment_offset import (
    MicroBatchBegin,
    SegmentOffset,
    SegmentsGone,
    WrongOffset,
    check_nothing_left_out,
    check_offset,
    micro_batch_begin,
    new_stream,
)
from tests.pipeline.lake.stream.entries import SOURCE

OTHER = SOURCE.replace("3e", "4e", 1)
OFFSET = SegmentOffset("j1", 7)
THERE = RetainedRange("j1", "/journal", first=5, last=9, scn=41)


def test_an_offset_is_read_again() -> None:
    begun = [replace(OFFSET, begins=place) for place in (45, GtidSet.parse(f"{SOURCE}:1-3,{OTHER}:7"))]
    begins = [replace(OFFSET, batch=MicroBatchBegin(3, place.begins)) for place in (OFFSET, *begun)]
    for offset in (OFFSET, replace(OFFSET, through="41"), *begun, *begins, new_stream("j1", 0, 45)):
        assert segment_offset.from_json(segment_offset.to_json(offset)) == offset
    # As before there were other fields.
    assert segment_offset.from_json({"journal": "j1", "segment": 7}) == OFFSET


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"journal": "j1"},
        {"journal": 1, "segment": 2},
        {"journal": "j", "segment": -1},
        {"journal": "j", "segment": 2, "through": 3},
        {"journal": "j", "segment": 2, "from": 3},
        {"journal": "j", "segment": 2, "from": "yesterday"},
        {"journal": "j", "segment": 2, "batchAfter": "1"},
        {"journal": "j", "segment": 2, "batchAfter": 1, "batchFrom": 3},
    ],
)
def test_another_offset_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(WrongOffset, match="give the stream a checkpoint of its own"):
        segment_offset.from_json(value)


def test_a_micro_batch_begins_where_its_end_says() -> None:
    now = new_stream("j1", 9, None)
    assert now.is_new and not OFFSET.is_new
    end = replace(OFFSET, batch=MicroBatchBegin(3, 25))
    begin = micro_batch_begin(now, end)
    assert (begin.segment, begin.begins) == (3, 25)
    assert micro_batch_begin(end, end) == end
    # An earlier version's says nothing: Spark is right, unless it can't be.
    before = replace(OFFSET, segment=2)
    assert micro_batch_begin(before, OFFSET) == before
    for at_end in (now, new_stream("j1", 7, None)):  # an idle journal's latest is where the micro-batch ends
        with pytest.raises(
            WrongOffset, match=r"ends with segment 7 .* Start it with the from that it had\. If that was"
        ):
            micro_batch_begin(at_end, OFFSET)


@pytest.mark.parametrize(("through", "first"), [("41", "42"), ("a-b:1-3", "a-b:1-3")])
def test_one_that_left_out_a_part_is_refused_by_another_option(through: str, first: str) -> None:
    cut = replace(OFFSET, through=through)
    check_nothing_left_out(cut, through)
    check_nothing_left_out(OFFSET, None)
    for other in (None, "50"):
        with pytest.raises(WrongOffset, match=rf'\.option\("from", "{first}"\)'):
            check_nothing_left_out(cut, other)


@pytest.mark.parametrize("segment", [4, 7, 9])
def test_a_stream_continues_where_the_next_segment_is_there(segment: int) -> None:
    assert check_offset(replace(OFFSET, segment=segment), THERE) == segment


def test_a_stream_that_fell_behind_retention_learns_what_it_lacks() -> None:
    with pytest.raises(SegmentsGone) as gone:
        check_offset(replace(OFFSET, segment=3), THERE)
    assert "needs the segments from 4 on, and the journal in /journal begins with 5" in str(gone.value)
    assert "WHERE __segment >= 4 AND __segment < 5" in str(gone.value)
    assert '.option("from", "41")' in str(gone.value)


def test_a_checkpoint_of_another_journal_is_refused() -> None:
    with pytest.raises(WrongOffset, match="is of the journal j2, and /journal holds the journal j1"):
        check_offset(SegmentOffset("j2", 7), THERE)
    with pytest.raises(WrongOffset, match="through segment 10, and the last one in /journal is 9"):
        check_offset(SegmentOffset("j1", 10), THERE)
