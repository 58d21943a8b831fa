"""The coordinator's orders, and the changes of its state, as lines of a golden trace."""

import re
from collections.abc import Iterator
from typing import assert_never

from pipeline.coordinator import state as coordinator_state
from pipeline.coordinator.window import Reconciling
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.binlog import PauseReading, ResumeReading
from pipeline.messages.chunks import (
    CloseScan,
    CloseTransactions,
    OpenScan,
    OpenTransactions,
    PlanTable,
    ReadChunk,
    ReadScan,
    RepairRows,
    ReselectRows,
)
from pipeline.messages.journal import Append, AppendRows, ChangePart, ChunkPart
from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.messages.signals import SignalAccepted, SignalOutcome, SignalRejected
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableSchema
from pipeline.signals.outcomes import SignalState
from pipeline.snapshot import checkpoint as checkpoints
from pipeline.snapshot import snapshot as snapshots
from pipeline.snapshot import watermark


def told(order: coordinator_state.Order, shown: checkpoints.Checkpoint | None) -> Iterator[str]:
    """The lines of one order; of an Append's checkpoint, what has changed since the one that was shown last."""
    match order:
        case PlanTable(table, request, ranges, ordered_at):
            how = f"in {ranges} ranges" if ranges else "in the ranges it has"
            yield f"plan {table.name}{_request(request)} {how}, seeing {_set(ordered_at)}"
        case ReadChunk(chunk, schema, walk, request, number, after, end, limit, ordered_at):
            along = "" if walk.index == "PRIMARY" else f" along {walk.index}"
            where = f"range {number} after {_key(after)} through {_key(end)}"
            yield (
                f"read chunk {chunk.number} of {_schema(schema)} for {chunk.snapshot}{along}{_request(request)}: "
                f"{limit} rows of {where}, seeing {_set(ordered_at)}"
            )
        case ReselectRows(chunk, schema, keys, _, since, ordered_at):
            values = " ".join(map(str, keys.column(0).to_pylist()))
            yield (
                f"reselect {chunk.number} of {_schema(schema)}: keys {values}, unknown since SCN {since}, "
                f"seeing {_set(ordered_at)}"
            )
        case RepairRows(chunk, schema, keys, _, checks, ordered_at):
            values = " ".join(map(str, keys.column(0).to_pylist()))
            what = "check" if checks else "repair"
            yield f"{what} {chunk.number} of {_schema(schema)}: keys {values}, seeing {_set(ordered_at)}"
        case PauseReading(at):
            yield "pause reading" if at is None else f"pause reading at {_high(at)}"
        case ResumeReading():
            yield "resume reading"
        case OpenTransactions(number, failed):
            yield f"open transactions {number}" + (f" after {failed} in vain" if failed else "")
        case CloseTransactions():
            yield "close transactions"
        case OpenScan(number, table, ordered_at, failed):
            tried = f" after {failed} in vain" if failed else ""
            yield f"open scan {number} of {table.name}, seeing {_set(ordered_at)}{tried}"
        case ReadScan(chunk, number, schema):
            yield f"read rows {chunk.number} of scan {number} of {_schema(schema)} for {chunk.snapshot}"
        case CloseScan():
            yield "close the scan"
        case AppendRows(parts):
            yield "append rows until the transaction ends"
            yield from map(_part, parts)
        case Append():
            yield from _append(order, shown)
        case _:
            assert_never(order)


def _append(order: Append, shown: checkpoints.Checkpoint | None) -> Iterator[str]:
    yield "append"
    yield from map(_part, order.parts)
    yield from map(_answer, order.answers)
    yield from (f"  withdraw {table.name}" for table in sorted(order.withdrawn))
    yield from (
        f"  from SCN {each.scn} on: {each.alteration.schema.table.name} altered" for each in order.alterations
    )
    before = {} if shown is None else dict(_facts(shown))
    after = dict(_facts(order.checkpoint))
    for name in dict.fromkeys([*after, *before]):
        if before.get(name) != after.get(name):
            yield f"  {name}: {after.get(name, 'gone')}"


def _part(part: ChangePart | ChunkPart) -> str:
    match part:
        case ChangePart(changes, transactions, scn):
            names = dict.fromkeys(changes.images["transaction"].to_pylist())
            images = ", ".join(_images(changes))
            of = " ".join(short(str(transactions.gtid(index))) for index in names)
            return f"  changes of {changes.schema.table.name} from SCN {scn} on, by {of}: {images}"
        case ChunkPart(_, schema, _, _, _, scn, begins_scan=True):
            return f"  all rows of {schema.table.name} come from SCN {scn} on"
        case ChunkPart(chunk, schema, rows, low, high, scn, first):
            keys = " ".join(map(str, rows[0].to_pylist()))
            how = "for the mirror" if first else "as changes"
            between = f"low {_set(low)}, high {_high(high)}"
            return (
                f"  rows of {schema.table.name} at SCN {scn} {how}: {keys} (chunk {chunk.number}, {between})"
            )


def _images(changes: TableChanges) -> Iterator[str]:
    kinds, before = map(ImageKind, changes.images["kind"].to_pylist()), None
    for kind, key in zip(kinds, changes.rows[0].to_pylist(), strict=True):
        if kind is ImageKind.UPDATE_BEFORE:
            before = key
        elif kind is ImageKind.UPDATE_AFTER:
            yield f"update {key}" if key == before else f"update {before} to {key}"
        elif kind is ImageKind.EMPTIED:
            yield "emptied"
        else:
            yield f"{kind.name.lower()} {key}"


def _answer(answer: SignalOutcome) -> str:
    match answer:
        case SignalAccepted(name, detail):
            return f"  accept {name}: {short(detail)}"
        case SignalRejected(name, reason):
            return f"  reject {name}: {short(reason)}"
        case SignalState(name, outcome, detail):
            return f"  row {name} {outcome.name.lower()}: {short(detail)}"
        case _:
            assert_never(answer)


# The checkpoint


def _facts(checkpoint: checkpoints.Checkpoint) -> Iterator[tuple[str, str]]:
    yield "position", _set(checkpoint.position)
    yield "SCN", str(checkpoint.scn)
    for table, schema in checkpoint.schemas.items():
        yield f"schema of {table.name}", _columns(schema)
    for table in sorted(checkpoint.unproven):
        yield f"schema of {table.name} unproven", "yes"
    for table, mirror in checkpoint.mirrors.items():
        yield f"mirror of {table.name}", f"{mirror.wire} since SCN {mirror.since}"
    for snapshot in checkpoint.snapshots:
        for table, state in snapshot.tables.items():
            request = _request(snapshot.request(table))
            yield f"snapshot {snapshot.id} of {table.name}{request}{_flags(snapshot)}", _state(state)
    for table, upto in checkpoint.unread.items():
        yield f"no row of {table.name} is unknown up to", f"SCN {upto}"
    yield "signals taken", " ".join(checkpoint.signals)
    yield "snapshots paused", "yes" if checkpoint.paused else "no"
    for table, reason in checkpoint.stopped.items():
        yield f"{table.name} stopped", reason
    if checkpoint.moving is not None:
        yield "moving to", f"{_set(checkpoint.moving.position)} by {checkpoint.moving.id}"
    for table, signal in checkpoint.recapturing.items():
        yield f"recapture of {table.name}", f"by {signal}"


def _flags(snapshot: snapshots.Snapshot) -> str:
    flags = {
        "blocking": snapshot.blocking,
        f"priority {snapshot.priority}": snapshot.priority,
        "consistent": snapshot.consistent,
    }
    return "".join(f", {flag}" for flag, is_so in flags.items() if is_so)


def _state(state: snapshots.TableSnapshot) -> str:
    match state:
        case snapshots.SnapshotWaiting():
            return "waiting"
        case snapshots.Chunking(ranges, _, first, progress):
            how = "for the mirror" if first else "as changes"
            return f"reading {how}, left {', '.join(map(_range, ranges))}; {_progress(progress)}"
        case snapshots.Repairing(progress, batches, reread):
            return f"repairing, {batches} batches with {reread} keys; {_progress(progress)}"
        case snapshots.Completed(progress):
            return f"completed; {_progress(progress)}"
        case snapshots.SnapshotStopped(progress):
            return f"stopped; {_progress(progress)}"
        case snapshots.SnapshotFailed(reason, progress):
            return f"failed, {reason}; {_progress(progress)}"
        case _:
            assert_never(state)


def _range(each: snapshots.Range) -> str:
    return f"range {each.number} after {_key(each.done)} through {_key(each.end)}"


def _progress(progress: snapshots.Progress) -> str:
    if progress == snapshots.Progress():
        return "nothing read"
    return (
        f"chunks {progress.chunks}, rows {progress.rows} of about {progress.expected}, "
        f"superseded {progress.superseded}, ranges {progress.ranges_done} of {progress.ranges}"
    )


# The state that isn't durable


def state_lines(before: coordinator_state.State, after: coordinator_state.State) -> Iterator[str]:
    """Returns the lines of changes in the state beside the checkpoint."""
    was, now = dict(_held(before)), dict(_held(after))
    yield from (f"= {name}: {text}" for name, text in now.items() if was[name] != text)


def _held(state: coordinator_state.State) -> Iterator[tuple[str, str]]:
    windows = (
        f"{window.order.chunk.number} on {window.order.chunk.table.name} "
        + (f"holds {len(window.rows)} rows" if isinstance(window, Reconciling) else "reads")
        for window in state.windows
    )
    yield "windows", "; ".join(windows) or "none"
    plans = (
        f"{table.name} {plan.wire}{_plan(plan)}"
        for table, plan in (*state.plans.items(), *state.planning.items())
    )
    yield "plans", "; ".join(plans) or "none"
    match state.reader:
        case coordinator_state.ReaderRunning():
            yield "reader", "reads"
        case coordinator_state.PauseOrdered():
            yield "reader", "is to pause"
        case coordinator_state.PauseReached():
            yield "reader", "pauses"
        case _:
            assert_never(state.reader)
    yield "markers", " ".join(sorted(state.markers)) or "none"
    yield (
        "consistent snapshot",
        re.sub(r"(?<=.)([A-Z])", r" \1", type(state.consistent_position).__name__).lower(),
    )
    yield "scan", _scan(state.scan)


def _scan(scan: coordinator_state.Scan) -> str:
    match scan:
        case coordinator_state.NoScan():
            return "none"
        case coordinator_state.OpeningScan(order):
            return f"{order.number} is opened"
        case coordinator_state.ApproachingScan(order, _, opened):
            return f"{order.number} waits for the stream to reach {_high(opened.high)}"
        case coordinator_state.Scanning(order, rows=rows):
            return f"{order.number} reads, {rows} rows so far"
        case _:
            assert_never(scan)


def _plan(plan: object) -> str:
    match plan:
        case coordinator_state.PlanningOutdated():
            return " (stale)"
        case coordinator_state.SchemaDiffers(reason):
            return f" ({reason})"
        case _:
            return ""


# Values


def _request(request: snapshots.Request) -> str:
    if request == snapshots.WHOLE_TABLE:
        return ""
    parts = {
        "where": request.condition,
        "keys": " ".join(map(_key, request.keys)) or None,
        "along": request.surrogate,
        "chunks of": request.chunk_rows,
    }
    return " (" + ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None) + ")"


def _schema(schema: TableSchema) -> str:
    return (
        schema.table.name if _columns(schema) == "id*, value" else f"{schema.table.name} ({_columns(schema)})"
    )


def _columns(schema: TableSchema) -> str:
    return ", ".join(
        f"{column.name}*" if index in schema.key else column.name
        for index, column in enumerate(schema.columns)
    )


def _key(key: Key | None) -> str:
    return "the start" if key is None else " ".join(map(str, key))


def _high(high: watermark.High) -> str:
    match high:
        case GtidSet():
            return _set(high)
        case watermark.MarkerRow(name):
            return f"marker {name}"
        case _:
            file = int(high.file.rpartition(".")[2])
            return str(high.offset) if file == 1 else f"{file}/{high.offset}"


def _set(gtids: GtidSet) -> str:
    return short(str(gtids)) or "nothing"


def short(text: str) -> str:
    """A text in which servers are letters, in one line."""
    return re.sub(r"00000000-0000-0000-0000-00000000000(?=[a-f])", "", text).replace("\n", "")
