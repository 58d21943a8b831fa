"""Says which changes count for a mirror, of rows that were read from a changelog without Spark.

It is the condition of `pipeline.lake.live_view` (`MirrorPosition.condition`) for columns in memory. A comparison counts
changes after an SCN too, whether they are merged or not (`pipeline.lake.verification.queries`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.lake.live_view import MirrorPosition

# The columns that say whether a change counts.
COUNTED_BY: Final = ("__op", "__scn", "__segment")

# Rows that change no key: the image before an update, and an emptied table.
_NO_CHANGE: Final = pa.array(["b", "t"])


@dataclass(frozen=True, slots=True)
class CountedChanges:
    """Those that a mirror at `reached` lacks, through a segment if there is one, and those after the SCN `since`."""

    reached: MirrorPosition
    through: int | None = None
    since: int | None = None

    def rows(self, op: pa.Array, scn: pa.Array, segment: pa.Array) -> pa.BooleanArray:
        """Returns which rows count, by these columns."""
        counted = pc.and_(pc.greater(segment, self.reached.merged), pc.greater(scn, self.reached.generation))
        if self.through is not None:
            counted = pc.and_(counted, pc.less_equal(segment, self.through))
        if self.since is not None:
            counted = pc.or_(counted, pc.greater(scn, self.since))
        return pc.and_not(counted, pc.is_in(op, _NO_CHANGE))

    def come_after(self, commit: Sequence[Mapping[str, Any]], application: str, scn: str) -> bool:
        """Returns whether all of them come after a commit of the changelog, by its actions as Delta's log has them.

        `application`: whose version an append sets to its last segment. `scn`: as of `may_be_in`. A segment's changes
        have greater SCNs than those of all before it. So an append without such rows has none before it either.
        Another's commit tells nothing: it may add an old file again.
        """
        reached = [
            action["txn"]["version"] for action in commit if action.get("txn", {}).get("appId") == application
        ]
        if not reached or max(reached) > self.reached.merged:
            return False
        added = [json.loads(action["add"].get("stats") or "{}") for action in commit if "add" in action]
        return self.since is None or (
            bool(added) and all(_greatest(statistics, scn) <= self.since for statistics in added)
        )

    def may_be_in(self, statistics: Mapping[str, Any], scn: str, segment: str) -> bool:
        """Returns whether a file may have such rows, by its statistics as Delta's log has them.

        `scn`, `segment`: the names of the two columns there.
        """
        greatest, least = statistics.get("maxValues", {}), statistics.get("minValues", {})
        last, first = greatest.get(segment), least.get(segment)
        pending = (last is None or last > self.reached.merged) and (
            first is None or self.through is None or first <= self.through
        )
        return pending or (self.since is not None and _greatest(statistics, scn) > self.since)


def _greatest(statistics: Mapping[str, Any], name: str) -> float:
    """Returns the greatest value of a column of integers; infinity if the statistics don't have it."""
    found: float = statistics.get("maxValues", {}).get(name, inf)
    return found
