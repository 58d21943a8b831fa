"""What somebody waits for, as a request says it, and what is answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.journal.applied.progress import ReadAt, SegmentEnd, Through
from pipeline.journal.request_parameters import (
    LONGEST_WAIT_S,
    WAIT_S,
    MalformedRequest,
    check_names,
    tables_named,
)
from pipeline.schema.table_schema import TableId

# A request with more bytes of parameters counts as several: one for each so many.
COUNTED_BYTES: Final = 400

_PARAMETERS: Final = ("gtid_set", "through", "tables", "timeout_s")


@dataclass(frozen=True, slots=True)
class AppliedQuery:
    """Whether all of these transactions have come so far, for these tables; None for every captured one.

    `counts_as`: as how many it counts among those who wait.
    """

    gtid_set: GtidSet
    through: Through
    tables: frozenset[TableId] | None
    timeout_s: float = WAIT_S
    counts_as: int = 1


@dataclass(frozen=True, slots=True)
class Applied:
    """All of it has come: the tables have everything through `reached`, and are read so."""

    reached: SegmentEnd
    read_at: Mapping[TableId, ReadAt | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NeverApplied:
    """It can't come, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotYetApplied:
    """It hasn't come so far: `missing` has still to come, or the `reason` holds it up."""

    reached: SegmentEnd
    missing: GtidSet
    reason: str


Answer = Applied | NeverApplied


def parse_applied_query(parameters: Mapping[str, str], there: frozenset[Through]) -> AppliedQuery:
    """What a request's parameters ask; `there`: the consumers that the service has. Raises MalformedRequest."""
    check_names(parameters, *_PARAMETERS)
    return AppliedQuery(
        _gtid_set(parameters.get("gtid_set", "")),
        _through(parameters.get("through", Through.LAKE), there),
        frozenset(tables_named(parameters["tables"])) if "tables" in parameters else None,
        _timeout(parameters.get("timeout_s", str(WAIT_S))),
        max(1, sum(map(len, parameters.values())) // COUNTED_BYTES),
    )


def _gtid_set(text: str) -> GtidSet:
    try:
        parsed = GtidSet.parse(text)
    except MalformedGtid as error:
        raise MalformedRequest(f"gtid_set: {error}") from error
    if not parsed:
        raise MalformedRequest("gtid_set: it has no transaction; give what session_track_gtids reports")
    return parsed


def _through(text: str, there: frozenset[Through]) -> Through:
    if text not in set(Through):
        raise MalformedRequest(f"through: {text!r} is none of {', '.join(Through)}")
    through = Through(text)
    if through not in there:
        raise MalformedRequest(f"through: the configuration has no [{through}]")
    return through


def _timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_WAIT_S:
        raise MalformedRequest(f"timeout_s: {text!r} isn't a number of seconds from 0 to {LONGEST_WAIT_S:g}")
    return seconds
