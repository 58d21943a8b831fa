"""What the log lacks between two files, for random logs of which some files are gone."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.binlog.logged_gtids import LoggedGtids
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from tests.pipeline.gtid.test_gtid_set import gtid_set, plain_sets

SETS = plain_sets.map(gtid_set)


@given(st.lists(st.tuples(SETS, SETS, st.booleans()), max_size=6), SETS, SETS)
def test_just_what_was_in_a_removed_file_is_missing(
    files: list[tuple[GtidSet, GtidSet, bool]], before: GtidSet, position: GtidSet
) -> None:
    """Of each file: what is committed in it, what is prepared in it and never passes, and whether it is there.

    The server leaves out what the position has.
    """
    logged, waiting, log = before, NO_GTIDS, LoggedGtids(position)
    missing = NO_GTIDS
    for committed, begun, there in [(NO_GTIDS, NO_GTIDS, True), *files, (NO_GTIDS, NO_GTIDS, True)]:
        passing = committed - logged
        prepared = begun - logged - passing
        if there:
            assert log.begin_file(logged, waiting) == missing
            log.add(passing - position)
            waiting, missing = waiting | (prepared - position), NO_GTIDS
        else:
            missing |= (passing | prepared) - position
        logged |= passing | prepared
