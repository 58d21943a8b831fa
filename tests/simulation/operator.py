"""The one who sends signals: for snapshots of all kinds, to stop, pause and resume them."""

from dataclasses import replace
from random import Random

from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import (
    ExecuteSnapshot,
    Filter,
    KeyList,
    PauseSnapshot,
    ResumeSnapshot,
    Signal,
    StopSnapshot,
)
from tests.simulation.selector import CONDITIONS
from tests.simulation.world import World

SHOP = TableFilter((r"shop\..*",))


def wanted(id_: str, first: TableId, world: World, random: Random) -> Signal:
    """What's asked for next, with this id; `first` is the first table."""
    kind = random.random()
    tables = random.choice((SHOP, SHOP, TableFilter((f"shop\\.{first.name}",))))
    if kind < 0.6:
        return _snapshot(id_, tables, world, random)
    if kind < 0.7:
        return StopSnapshot(id_, tables)
    return PauseSnapshot(id_) if kind < 0.85 else ResumeSnapshot(id_)


def _snapshot(id_: str, tables: TableFilter, world: World, random: Random) -> ExecuteSnapshot:
    plain = ExecuteSnapshot(
        id_,
        tables,
        blocking=random.random() < 0.15,
        chunk_rows=random.choice((None, None, 1, 3)),
        priority=random.choice((0, 0, 0, 1, 2)),
    )
    match random.randrange(6):
        case 0:
            return replace(plain, filters=(Filter(tables, random.choice(list(CONDITIONS))),))
        case 1:
            keys = random.sample(world.keys, random.randint(1, min(3, len(world.keys))))
            return replace(plain, keys=(KeyList(tables, tuple((key,) for key in keys)),))
        case 2:
            return replace(plain, surrogate="value")
        case _:
            return plain
