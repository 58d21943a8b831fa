"""What the SparkSink's status says of verifications and of each table, from the sink's state."""

from collections.abc import Mapping
from typing import Any

from pipeline.coordinator.snapshots import recapture
from pipeline.lake.mirrors import mirror_rules
from pipeline.lake.state import State
from pipeline.lake.tables.paths import table_folder
from pipeline.lake.tables.tier import Tier
from pipeline.lake.verification.runs import Judgement, results, runs_of
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint


def lake_table_statuses(state: State, no_view: Mapping[TableId, str]) -> dict[str, dict[str, Any]]:
    """Returns of each table how far its mirror is and why it stopped, as JSON values by its name.

    `no_view`: why a table has no view in the catalog. `lasting`: whether it counts as stopped, because no retry has
    helped or none is to come.
    """
    so_far = state.so_far
    mirrors, stopped = so_far.checkpoint.mirrors, so_far.stopped_tables
    return {
        str(table): {
            "mirror": mirrors[table].wire if table in mirrors else None,
            **_mirror_status(state, table),
            "stopped": _stop_reason(state, table),
            "lasting": table in stopped,
            "no_view": no_view.get(table),
        }
        for table in {**so_far.tables, **so_far.failed}
    }


def verification_statuses(state: State) -> dict[str, dict[str, Any]]:
    """Returns the result for each table of the known verifications, by their ids; None if it has none yet."""
    found: dict[str, dict[str, Any]] = {}
    runs = runs_of((state.so_far.ahead or state.so_far).checkpoint)
    for (run, table), result in results(runs, state.background.verified).items():
        repaired = result and result.repaired and _judgement(result.repaired)
        shown = None if result is None else {**_judgement(result.found), "repaired": repaired}
        found.setdefault(run, {})[str(table)] = shown
    return found


def reason_and_remedy(state: State, table: TableId, reason: str, at: Checkpoint) -> str:
    """Returns why a table has stopped in the lake at a checkpoint, and how it begins again."""
    mirrored = mirror_rules.has_mirror(table, at.schemas.get(table), state.rules)
    folder = None if mirrored else table_folder(state.settings.path, table)
    return recapture.stop_reason(table, reason, folder)


def _mirror_status(state: State, table: TableId) -> dict[str, Any]:
    """Returns how far a table's mirror is, and which files wait for compaction."""
    background = state.background
    mirrored, kept = background.mirrored.get(table), background.kept
    return {
        "merged": None if mirrored is None else mirrored.reached.merged,
        "pending": 0 if mirrored is None else mirrored.pending,
        "rebuilding_since": background.rebuilding.get(table),
        "uncompacted": {tier.value: kept[table, tier].come for tier in Tier if (table, tier) in kept},
    }


def _stop_reason(state: State, table: TableId) -> str | None:
    """Returns why a table gets no more, and how it begins again if it isn't retried."""
    so_far = state.so_far
    reason = so_far.stopped(table)
    if reason is None or so_far.of(table).stopped is None:
        return reason
    return reason_and_remedy(state, table, reason, so_far.checkpoint)


def _judgement(judgement: Judgement) -> dict[str, Any]:
    return {
        "verdict": judgement.verdict.value,
        "rows": judgement.rows,
        "found": {kind.value: count for kind, count in judgement.found.items()},
        "position": judgement.position,
        "reason": judgement.reason,
        "at": round(judgement.at, 3),
    }
