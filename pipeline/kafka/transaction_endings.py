"""How a start ends a Kafka transaction whose markers are missing in partitions.

The broker answers a commit before it writes the markers that end the transaction in each partition. A broker that dies
then may count the transaction as ended and leave partitions without their marker. The records there stay open: no
consumer of committed messages sees them, nor anything after them. The next marker of the same producer id ends them,
and it does not matter in which transaction it comes. So a commit would show them, and an abort would drop them.

**Assumptions.**

A1. A position names the partitions of its Kafka transaction, and the offset after the last record in each
    (`RecordEnds`). The broker has acknowledged those records before the sink sends the position.
A2. The sink begins a Kafka transaction only if no record of ours is open.
A3. The transactional id keeps its producer id.

**Cases**, at a start that has fenced its predecessor. T is the last Kafka transaction. By A2 only T can be open.

1. T's position is visible. Then the decision was to commit. The start commits the partitions in which T is open.
2. T's position is open, and a partition shows T's records. The decision was to commit, as in 1.
3. T's position is open, and no partition shows T's records. T is aborted, and the sink sends its messages again. If the
   decision was to commit, no consumer has seen any of it.
4. T has no position. Then the decision was to abort, as a commit follows the acknowledged position. The sink looks at
   each topic before it first sends to it, and aborts what is open.

**Other writers** in a topic of case 4. Let E be a partition's end at the look, and L its last stable offset after that.

5. L reaches E by itself. T has no record there after E, and none before E is open. So the sink writes no marker.
6. L does not reach E in time. The sink aborts, and its marker ends T there (A3). What is still open is another
   writer's, and the same producer does not look there again.

In each case all of T is visible or none of it, and the position that the sink continues from says which.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

# A topic and the number of one of its partitions.
TopicPart = tuple[str, int]

# By partition, the offset after a Kafka transaction's last record there.
RecordEnds = Mapping[TopicPart, int]


class Ending(Enum):
    """How a Kafka transaction ends."""

    COMMIT = "commit"
    ABORT = "abort"


def open_parts(ends: RecordEnds, stable: Mapping[TopicPart, int]) -> frozenset[TopicPart]:
    """Returns the partitions in which a Kafka transaction is open, by their last stable offsets.

    A partition without a stable offset is gone, and nothing is open there.
    """
    return frozenset(part for part, end in ends.items() if stable.get(part, end) < end)


def ending_of(shown: Iterable[bool]) -> Ending:
    """Returns how a start ends a Kafka transaction whose position is open.

    `shown`: for each partition with a marker, whether a consumer of committed messages sees the transaction there.
    """
    return Ending.COMMIT if any(shown) else Ending.ABORT
