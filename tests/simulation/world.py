"""What a run is like, drawn from its seed, so that each seed dwells on something else."""

from dataclasses import dataclass
from enum import Enum, auto
from random import Random

from pipeline.coordinator_state import Overlapping, Pausing, WindowMode
from pipeline.sizing import Limits


class Alteration(Enum):
    """What a statement does to its table."""

    ADD = auto()
    DROP = auto()
    RENAME = auto()
    REKEY = auto()
    TRUNCATE = auto()
    ANALYZE = auto()


class Reads(Enum):
    """Where chunks are read, and what their high watermarks are."""

    SOURCE = auto()  # places in its log
    REPLICA = auto()  # what it has executed
    MARKED = auto()  # rows of a signal table


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
    STRAY = auto()
    ROTATE = auto()


@dataclass(frozen=True)
class World:
    """The world of a run.

    `keys` that rows can have, and the share of them that's there to begin with (`full`). `sizes`: changes of a
    transaction. `full_metadata`: whether the log names its columns. How often a chunk or a plan can't be read for good
    (`fails`), a connection is lost (`loses`), an answer comes twice (`repeats`), a transaction comes in `parts`.
    `unreadable`: how often a later part of a transaction can't be decoded.
    Whether a snapshot is asked for early (`begins`), another server of the same history takes over at a crash
    (`moves`), or has purged what wasn't sealed (`purges`). `weights`: how often what happens.
    """

    mode: WindowMode
    reads: Reads
    tables: int
    keys: range
    full: float
    limits: Limits
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
    steps: int
    weights: dict[Does, float]


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
}


def drawn(seed: int, mode: WindowMode | None = None) -> World:
    """The world of this seed, in a mode of its own or the given one."""
    random = Random(f"world {seed}")
    weights = {does: weight * random.choice((0.3, 1.0, 1.0, 3.0)) for does, weight in _USUAL.items()}
    weights[Does.CRASH] = random.choice((0.0, 0.1, 0.2, 0.6))
    weights[Does.ALTER] = random.choice((0.0, 0.3, 0.8, 2.0))
    weights[Does.WRITE_HOT_ROW] = random.choice((0.0, 0.0, 1.0))
    reads = random.choice((Reads.SOURCE, Reads.SOURCE, Reads.REPLICA, Reads.MARKED))
    weights[Does.REPLICATE] = 12.0 if reads is Reads.REPLICA else 0.0
    weights[Does.STRAY] = random.choice((0.0, 0.2))
    own_mode = random.choice(_MODES)
    harmless = (Alteration.ADD, Alteration.ADD, Alteration.DROP, Alteration.RENAME, Alteration.ANALYZE)
    drastic = (*harmless, Alteration.REKEY, Alteration.REKEY, Alteration.REKEY, Alteration.TRUNCATE)
    return World(
        mode=own_mode if mode is None else mode,
        reads=reads,
        tables=random.choice((1, 2, 2, 3)),
        keys=range(1, random.choice((3, 4, 5, 8)) + 1),
        full=random.choice((0.2, 0.6, 0.8, 1.0)),
        limits=Limits(
            chunk_rows=random.choice((1, 2, 2, 3, 100)),
            connections=random.choice((1, 2, 4)),
            ranges=random.choice((1, 2, 4, 8)),
            chunk_bytes=random.choice((60, 32 << 20, 32 << 20)),
            memory=random.choice((1, 100, 1 << 20, 1 << 20)),
        ),
        sizes=random.choice(((1,), (1, 1, 2, 3), (1, 1, 2, 3), (4, 8))),
        alterations=random.choice((harmless, drastic)),
        full_metadata=random.random() < 0.5,
        fails=random.choice((0.0, 0.0, 0.0, 0.02)),
        loses=random.choice((0.0, 0.05)),
        repeats=random.choice((0.0, 0.2)),
        parts=random.choice((0.0, 0.3, 0.8)),
        unreadable=random.choice((0.0, 0.0, 0.0, 0.3)),
        moves=random.random() < 0.3,
        purges=random.random() < 0.2,
        begins=random.random() < 0.8,
        steps=140,
        weights=weights,
    )
