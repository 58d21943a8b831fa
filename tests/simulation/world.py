"""What a run is like, drawn from its seed, so that each seed dwells on something else."""

from dataclasses import dataclass, replace
from enum import Enum, auto
from random import Random

from pipeline.config.settings import SnapshotMode
from pipeline.coordinator.chunk_size import ChunkLimits
from pipeline.coordinator.state import Overlapping, Pausing, WindowMode


class Alteration(Enum):
    """What a statement does to its table."""

    ADD = auto()
    DROP = auto()
    RENAME = auto()
    REKEY = auto()
    TRUNCATE = auto()
    ANALYZE = auto()
    RENAME_AWAY = auto()  # the table is renamed out of its database, so that there's none of its name
    RENAME_BACK = auto()  # another one, with rows, takes its name


class Reads(Enum):
    """Where chunks are read, and what their high watermarks are."""

    SOURCE = auto()  # places in its log
    REPLICA = auto()  # what it has executed
    MARKED = auto()  # rows of a signal table


class References(Enum):
    """What foreign keys from each table to the one before it do to rows, below the log."""

    NONE = auto()
    DELETES = auto()  # rows go with those that they refer to
    ALL = auto()  # and get their keys


class Does(Enum):
    """What can happen next."""

    WRITE = auto()
    WRITE_HOT_ROW = auto()
    ALTER = auto()
    COMMIT = auto()
    EXECUTE = auto()
    READ_LOG = auto()
    SELECT = auto()
    SEAL = auto()
    CRASH = auto()
    SIGNAL = auto()
    STRAIN = auto()
    REPLICATE = auto()
    LEAD_ELSEWHERE = auto()
    DELIVER = auto()
    STRAY = auto()
    ROTATE = auto()
    FILL = auto()
    SWAP = auto()
    RECAPTURE = auto()


@dataclass(frozen=True)
class World:
    """The world of a run.

    `keys` that rows can have, and the share of them that's there to begin with (`full`). `sizes`: changes of a
    transaction. `full_metadata`: whether the log names its columns. How often a chunk or a plan can't be read for good
    (`fails`), a connection is lost (`loses`), an answer comes twice (`repeats`), a transaction comes in `parts`.
    `unreadable`: how often a later part of a transaction can't be decoded.
    Whether a snapshot is asked for early (`begins`), another server of the same history takes over at a crash
    (`moves`), or has purged what wasn't sealed (`purges`). `snapshot_mode`: how new tables are snapshotted without a
    signal, and whether the source may be locked for that (`locks`). Whether the server may lose the end of its log in a
    crash, and give the same GTIDs again (`loses_tail`). `verifies`: whether a verification is always under way,
    and `tampers` whether somebody changes the lake meanwhile.
    `weights`: how often what happens.
    """

    mode: WindowMode
    reads: Reads
    tables: int
    keys: range
    full: float
    limits: ChunkLimits
    sizes: tuple[int, ...]
    alterations: tuple[Alteration, ...]
    full_metadata: bool
    fails: float
    loses: float
    repeats: float
    parts: float
    unreadable: float
    begins: bool
    moves: bool
    purges: bool
    snapshot_mode: SnapshotMode
    locks: bool
    references: References
    steps: int
    weights: dict[Does, float]
    loses_tail: bool
    verifies: bool
    tampers: bool


_MODES: tuple[WindowMode, ...] = (Overlapping(1), Overlapping(2), Overlapping(4), Overlapping(8), Pausing())

_USUAL = {
    Does.WRITE: 3.0,
    Does.COMMIT: 4.0,
    Does.EXECUTE: 6.0,
    Does.READ_LOG: 3.0,
    Does.SELECT: 12.0,
    Does.SEAL: 0.5,
    Does.SIGNAL: 0.5,
    Does.ROTATE: 0.3,
    Does.STRAIN: 0.3,
    Does.DELIVER: 2.0,
}


def drawn(seed: int, mode: WindowMode | None = None) -> World:
    """The world of this seed, in a mode of its own or the given one."""
    random = Random(f"world {seed}")
    weights = {does: weight * random.choice((0.3, 1.0, 1.0, 3.0)) for does, weight in _USUAL.items()}
    weights[Does.CRASH] = random.choice((0.0, 0.1, 0.2, 0.6))
    weights[Does.ALTER] = random.choice((0.0, 0.3, 0.8, 2.0))
    weights[Does.WRITE_HOT_ROW] = random.choice((0.0, 0.0, 1.0))
    snapshot_mode = random.choice(
        (*[SnapshotMode.NO_DATA] * 3, SnapshotMode.INITIAL, SnapshotMode.CONSISTENT)
    )
    reads = random.choice((Reads.SOURCE, Reads.SOURCE, Reads.REPLICA, Reads.MARKED))
    loses = random.choice((0.0, 0.05))
    if snapshot_mode is SnapshotMode.CONSISTENT:
        reads = Reads.SOURCE
        loses = random.choice((0.0, 0.05, 0.1))
        weights[Does.CRASH] = random.choice((0.0, 0.6, 1.0))
        weights[Does.SEAL] *= 3
    moves = random.random() < 0.3
    weights[Does.REPLICATE] = 12.0 if reads is Reads.REPLICA else 0.0
    weights[Does.STRAY] = random.choice((0.0, 0.2))
    weights[Does.LEAD_ELSEWHERE] = 0.3 if moves and reads is not Reads.REPLICA else 0.0
    fills = (0.0, 0.0, 0.0, 1.0) if snapshot_mode is not SnapshotMode.CONSISTENT else (0.0, 1.0, 2.0)
    weights[Does.RECAPTURE] = Random(f"recaptures {seed}").choice((0.0, 0.0, 1.0))
    swaps = Random(f"swaps {seed}").choice((0.0, 0.0, 0.0, 1.0, 3.0))
    weights[Does.SWAP] = swaps
    weights[Does.FILL] = Random(f"room {seed}").choice(fills)
    own_mode = random.choice(_MODES)
    harmless = (Alteration.ADD, Alteration.ADD, Alteration.DROP, Alteration.RENAME, Alteration.ANALYZE)
    drastic = (*harmless, Alteration.REKEY, Alteration.REKEY, Alteration.REKEY, Alteration.TRUNCATE)
    world = World(
        mode=own_mode if mode is None else mode,
        reads=reads,
        tables=random.choice((1, 2, 2, 3)),
        keys=range(1, random.choice((1, 3, 4, 5, 8)) + 1),
        full=random.choice((0.2, 0.6, 0.8, 1.0)),
        limits=ChunkLimits(
            chunk_rows=random.choice((1, 2, 2, 3, 100)),
            connections=random.choice((1, 2, 4)),
            ranges=random.choice((1, 2, 4, 8)),
            chunk_bytes=random.choice((60, 32 << 20, 32 << 20)),
            memory=random.choice((1, 100, 1 << 20, 1 << 20)),
            unwritten=(1, 100, 4 << 20)[seed % 3],
        ),
        sizes=random.choice(((1,), (1, 1, 2, 3), (1, 1, 2, 3), (4, 8))),
        alterations=random.choice((harmless, drastic)),
        full_metadata=random.random() < 0.5,
        fails=random.choice((0.0, 0.0, 0.0, 0.02)),
        loses=loses,
        repeats=random.choice((0.0, 0.2)),
        parts=random.choice((0.0, 0.3, 0.8)),
        unreadable=random.choice((0.0, 0.0, 0.0, 0.3)),
        moves=moves,
        purges=snapshot_mode is not SnapshotMode.CONSISTENT and random.random() < 0.2,
        snapshot_mode=snapshot_mode,
        locks=random.random() < 0.5,
        references=random.choice((*[References.NONE] * 4, References.DELETES, References.ALL)),
        begins=random.random() < 0.8,
        steps=140,
        weights=weights,
        loses_tail=False,
        verifies=Random(f"verifies {seed}").random() < 0.3,
        tampers=Random(f"tampers {seed}").random() < 0.6,
    )
    plain = not (world.moves or world.purges) and reads is not Reads.REPLICA
    return replace(world, loses_tail=plain and Random(f"tails {seed}").random() < 0.3)
