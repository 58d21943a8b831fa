"""How a start ends what a broker left open; `tests/integration/kafka/test_lost_markers.py` does it on a broker."""

from pipeline.kafka.transaction_endings import Ending, ending_of, open_parts

ENDS = {("t", 0): 4, ("t", 1): 7, ("gone", 0): 3}


def test_a_partition_is_open_whose_stable_offset_is_before_the_last_record() -> None:
    assert open_parts(ENDS, {("t", 0): 5, ("t", 1): 6}) == {("t", 1)}
    assert open_parts(ENDS, {("t", 0): 4, ("t", 1): 7}) == frozenset()


def test_what_a_consumer_has_seen_is_committed_and_all_else_is_aborted() -> None:
    assert ending_of([]) is Ending.ABORT
    assert ending_of([False, False]) is Ending.ABORT
    assert ending_of([False, True]) is Ending.COMMIT
