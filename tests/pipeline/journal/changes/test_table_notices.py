"""A segment names the tables whose rows a reader can't have right any more, and those that have stopped."""

from dataclasses import replace

import pytest

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.table_notices import TableNotices, notices_of
from pipeline.journal.entry import Entry, SealedChunk
from pipeline.schema.ddl.alter_table import Alteration, Altered
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Filling, Mirror, Ready
from pipeline.snapshot.snapshot import ChunkId
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS, entry

T, U = ORDERS.table, ITEMS.table
CHUNK = SealedChunk(ChunkId("s", T, 1), GtidSet(), Coordinates("binlog.000001", 4), 0)


def sealed(
    segment: int,
    mirrors: dict[TableId, Mirror],
    *,
    chunks: bool = False,
    stopped: dict[TableId, str] | None = None,
    emptied: int | None = None,
) -> Entry:
    """A segment whose SCNs end with ten times its number. `emptied`: the SCN of a TRUNCATE."""
    made = entry(segment)
    checkpoint = replace(made.checkpoint, mirrors=mirrors, stopped=stopped or {})
    altered = (
        () if emptied is None else (Altered(emptied, Alteration(ORDERS, "TRUNCATE TABLE", emptied=True)),)
    )
    return replace(made, checkpoint=checkpoint, chunks=(CHUNK,) if chunks else (), alterations=altered)


@pytest.mark.parametrize(
    ("was", "now", "chunks", "emptied", "restarted"),
    [
        (Ready(3), Filling(20), False, None, True),  # at a start, or with a gap
        (Ready(3), Filling(25), False, None, True),
        (Filling(3), Filling(25), False, None, True),
        (Ready(3), Filling(25), False, 21, True),  # emptied, and then changed without the log
        (Ready(3), Ready(25), True, None, True),  # read again within the segment
        (Ready(3), Ready(25), False, None, True),  # and found empty, or all of its rows were superseded
        (Ready(3), Ready(25), False, 21, True),  # also after a statement had emptied it
        (Ready(3), Ready(21), False, 21, False),  # emptied by a statement
        (Ready(3), Ready(21), True, 21, False),  # and then read by a signal
        (Filling(3), Ready(21), False, 21, False),
        (Filling(3), Ready(3), True, None, False),  # its snapshot has ended
        (Ready(3), Ready(3), True, None, False),  # a later snapshot
        (None, Filling(25), True, None, False),  # its first snapshot
    ],
)
def test_a_mirror_that_begins_again_is_named_unless_a_statement_emptied_it(
    was: Mirror | None, now: Mirror, chunks: bool, emptied: int | None, restarted: bool
) -> None:
    before = sealed(2, {} if was is None else {T: was})
    after = sealed(3, {T: now}, chunks=chunks, emptied=emptied)
    assert notices_of(before, after, (), {}).restarted == ((T,) if restarted else ())
    assert not notices_of(before, after, {U}, {})


def test_without_the_segment_before_what_began_in_this_one_is_named() -> None:
    for since, restarted in ((19, ()), (20, (T,)), (30, (T,))):
        for mirror in (Filling(since), Ready(since)):
            assert notices_of(None, sealed(3, {T: mirror}), (), {}).restarted == restarted
    assert not notices_of(None, sealed(3, {T: Ready(30)}, emptied=30), (), {})
    assert not notices_of(None, sealed(1, {T: Filling(0)}), (), {})


def test_a_table_without_a_mirror_begins_again_when_its_stop_ends() -> None:
    stopped, streams = sealed(2, {}, stopped={T: "x", U: "y"}), sealed(3, {}, stopped={U: "y"})
    assert notices_of(stopped, streams, (), {T: "x", U: "y"}) == TableNotices((T,))
    # Without the segment before, the entry itself says it.
    assert not notices_of(None, streams, (), {T: "x", U: "y"})
    assert notices_of(None, replace(streams, resumed=(T,)), (), {T: "x", U: "y"}) == TableNotices((T,))
    # It was dropped meanwhile, so there is nothing that could begin.
    gone = replace(streams, checkpoint=replace(streams.checkpoint, schemas={U: ITEMS}))
    assert not notices_of(stopped, gone, (), {T: "x", U: "y"})


def test_a_stop_is_told_unless_the_reader_knows_it() -> None:
    stops = sealed(3, {}, stopped={T: "x", U: "y"})
    assert notices_of(sealed(2, {}), stops, (), {}) == TableNotices((), {T: "x", U: "y"})
    assert notices_of(sealed(2, {}), stops, (), {T: "x", U: "other"}) == TableNotices((), {U: "y"})
    assert notices_of(None, stops, {T}, {}) == TableNotices((), {T: "x"})
