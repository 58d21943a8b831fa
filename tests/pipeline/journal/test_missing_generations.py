"""A consumer that comes late: which tables it can't take yet."""

from dataclasses import replace

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.missing_generations import incomplete_generations
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint, Filling, Mirror, Ready
from tests.actors.segments import ITEMS

A, B, C, D, E = (TableId("shop", name) for name in "abcde")
BEGINNING = 100


def checkpoint(mirrors: dict[TableId, Mirror]) -> Checkpoint:
    schemas = {table: replace(ITEMS, table=table) for table in (A, B, C, D)}
    return Checkpoint(GtidSet(), scn=200, schemas=schemas, mirrors=mirrors, stopped={D: "why"})


def test_a_generation_that_began_before_the_journal_does_lacks_rows() -> None:
    now = checkpoint({A: Filling(99), B: Ready(0), C: Filling(100)})
    assert incomplete_generations({A, B, C}, now, BEGINNING) == {A: 99, B: 0}
    assert incomplete_generations({A}, now, BEGINNING) == {A: 99}


def test_a_table_without_a_mirror_or_that_is_stopped_or_not_captured_is_not_waited_for() -> None:
    now = checkpoint({D: Ready(0), E: Ready(0)})
    assert incomplete_generations({A, D, E}, now, BEGINNING) == {}


def test_in_a_whole_journal_nothing_is_lacked() -> None:
    assert incomplete_generations({A}, checkpoint({A: Ready(0)}), 0) == {}
