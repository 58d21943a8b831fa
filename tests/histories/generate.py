"""Random histories: the same one for the same seed."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final

from tests.histories.moves import CALM, MOVES, Move, create, insert_into, new_table, settings
from tests.histories.statements import Act, Captured, History, Metadata, Sql, Step, Version, World


def history(seed: str, version: Version, metadata: Metadata, weights: Mapping[Move, int] = MOVES) -> History:
    """The history of this seed; `weights`: how often each move comes in it."""
    some = Random(f"{seed} {version} {metadata}")
    calm = metadata is Metadata.FULL and some.random() < 0.1
    summer = some.random() < _SUMMER
    # A statement that copies a table with a TIMESTAMP may have changed it where clocks go back.
    hostile, instants = not calm and some.random() < 0.6, not (calm and summer)
    world = World(some, version, hostile, summer, instants)
    steps: list[Step] = []
    if some.random() < 0.3:
        steps += settings(world) if not calm else ()
    for name in some.sample(("t", "orders", "u"), k=some.randint(1, 3)):
        table = new_table(world, name)
        world.tables[name] = table
        steps += [Sql(table.creation()), insert_into(world, table, 15)]
    if calm or some.random() < 0.5:
        steps.append(Act.REST)
    moves = CALM if calm else weights
    for _ in range(some.randint(3, 14)):
        [move] = some.choices(list(moves), list(moves.values()))
        steps += move(world)
        steps += _pause(some, _CALM if calm else _PAUSES)
        if not calm and not world.tables:
            steps += create(world)
    return History(version, metadata, some.choice(list(Captured)), (*steps, Act.REST), seed, calm, summer)


# How many histories have sessions in the server's own time zone.
_SUMMER: Final = 0.3
# How often a pause is none, until the service has caught up, short, long, or a rest. What begins a mirror needlessly
# is excused where a table is altered twice between two rests, so a calm history has more of these.
_PAUSES: Final = (45, 28, 12, 10, 5)
_CALM: Final = (20, 20, 5, 5, 50)


def _pause(some: Random, weights: Sequence[int]) -> list[Step]:
    """How long nothing is done: not at all, until the service has caught up, or in between."""
    [pause] = some.choices((None, Act.CAUGHT_UP, Act.SHORT, Act.LONG, Act.REST), weights)
    return [pause] if pause else []
