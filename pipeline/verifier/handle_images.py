"""Row images of transactions and of their parts: their columns get names.

A table restarts here if foreign keys change its rows without the log, or if its images have no proof. A table stops
here if its images can't be read.

**One table may have two maps in a slice.** `binlog_row_metadata` is global, and MySQL reads it when a statement begins
to change a table. A statement that had begun when somebody set it logs the earlier map, maybe after transactions with
the other one. So does an XA transaction that was prepared before. The images have one schema, and leave here together
in the log's order.

**A stop or a restart may not come after the position that it belongs to.** The journal may seal a segment between any
two messages. After a restart from there, nothing would say again that these rows changed. So stops go before the slice,
which has its restarts in it. Where the log only advances, stops and restarts go before that. A segment that ends in
between has them too early, and they come again: two restarts do no harm. What else the slice has of a table that stops
with it is left out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from pipeline.gtid.gtid_set import NO_GTIDS
from pipeline.messages.binlog import LogAdvanced, RowsUnread, TransactionPartRead, TransactionsRead
from pipeline.messages.changes import (
    ChangesVerified,
    MirrorInvalidated,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.messages.row_images import TableChanges, TableImages, TableUnreadable
from pipeline.schema.table_schema import TableSchema
from pipeline.verifier.cascades import (
    effects_of_unread_rows,
    find_cascades,
    restarts_after_cascades,
    restarts_after_gaps,
)
from pipeline.verifier.columns import images_table, name_columns
from pipeline.verifier.stale_values import withhold_stale_values
from pipeline.verifier.state import (
    FromVerifier,
    News,
    State,
    pass_transactions,
    report_schemas,
    restarts_of_assumed,
    stop_orphaned_tables,
    stopped_tables,
    with_tables,
)
from pipeline.verifier.table_state import Stopped, Unproven, Verified


def handle_slice(state: State, message: TransactionsRead) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state after whole transactions, with their changes and what follows from these."""
    after, news, changes = _read_tables(state, message.tables)
    stops, reread = _effects_of_unread(after, message.unread)
    after = with_tables(after, {stop.table: Stopped() for stop in stops})
    parents = find_cascades(after.foreign_keys, changes, after.cascaded)
    restarts = restarts_after_cascades(parents, stopped_tables(after)) if parents else ()
    gaps = (
        restarts_after_gaps(after.unnamed, after.foreign_keys, stopped_tables(after)) if after.unnamed else ()
    )
    gtids = message.transactions.added_to(NO_GTIDS) | message.covered if after.to_come else NO_GTIDS
    restarts = (*restarts, *reread, *gaps, *restarts_of_assumed(after, gtids))
    verified = ChangesVerified(
        message.transactions,
        changes,
        message.end,
        (),
        restarts,
        message.covered,
        message.prepared,
        state.creation,
    )
    emptied = after.emptied - {restart.table for restart in restarts}
    after = replace(after, cascaded={}, unnamed={}, emptied=emptied, creation=None)
    after, arrived = pass_transactions(after, gtids)
    return after, (*news, *stops, verified, *arrived)


def handle_part(state: State, message: TransactionPartRead) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state after a part of a transaction, and what is said of it. The transaction hasn't passed yet."""
    state, news, changes = _read_tables(state, message.tables)
    parents = find_cascades(state.foreign_keys, changes, state.cascaded)
    part = TransactionPartVerified(message.gtid, message.commit_time, changes, message.original_time)
    return replace(state, cascaded=parents), (*news, part)


def handle_log_advance(state: State, message: LogAdvanced) -> tuple[State, tuple[FromVerifier, ...]]:
    """Returns the state where the log is now, without a change of rows that it has."""
    stops, restarts = _effects_of_unread(state, message.unread)
    restarts = (*restarts, *restarts_of_assumed(state, message.covered))
    state = with_tables(state, {stop.table: Stopped() for stop in stops})
    state = replace(state, emptied=state.emptied - {restart.table for restart in restarts})
    state, arrived = pass_transactions(state, message.covered)
    return state, (*stops, *restarts, replace(message, unread=()), *arrived)


def _effects_of_unread(
    state: State, unread: tuple[RowsUnread, ...]
) -> tuple[tuple[TableStopped, ...], tuple[MirrorInvalidated, ...]]:
    """Returns the effects on tables whose rows changed without the log saying which."""
    there = frozenset(state.tables) - stopped_tables(state)
    return effects_of_unread_rows(unread, state.foreign_keys, state.reported, there)


def _read_tables(
    state: State, read: Iterable[TableImages | TableUnreadable]
) -> tuple[State, tuple[News, ...], tuple[TableChanges, ...]]:
    """Returns the state after these images, their tables' news, and the changes of those that aren't stopped."""
    tables = dict(state.tables)
    news: list[News] = []
    changes: list[TableChanges] = []
    for images in read:
        table = images_table(images)
        before = tables.get(table, Unproven())
        if isinstance(before, Stopped):
            continue
        judged = name_columns(before, images, state.protection)
        if isinstance(judged, TableStopped):
            tables[table] = Stopped()
            news.append(judged)
            continue
        tables[table], change = judged
        if table in state.survey.stale:
            change = withhold_stale_values(change, state.survey.stale[table])
        changes.append(change)
        if not isinstance(before, Verified) or before.schema != change.schema:
            state, told = report_schemas(state, [change.schema])
            news += told
        if table in state.emptied:
            state = replace(state, emptied=state.emptied - {table})
    state, orphaned = stop_orphaned_tables(replace(state, tables=tables))
    going_on = [c for c in changes if not isinstance(state.tables[c.schema.table], Stopped)]
    return state, (*news, *orphaned), _one_of_each_schema(going_on)


def _one_of_each_schema(changes: Sequence[TableChanges]) -> tuple[TableChanges, ...]:
    """Returns the changes, with those of one schema together."""
    if len({each.schema.table for each in changes}) == len(changes):
        return tuple(changes)
    groups: dict[TableSchema, list[TableChanges]] = {}
    for each in changes:
        groups.setdefault(each.schema, []).append(each)
    return tuple(group[0] if len(group) == 1 else _in_log_order(group) for group in groups.values())


def _in_log_order(changes: Sequence[TableChanges]) -> TableChanges:
    """Returns changes of one schema as one."""
    images = pa.concat_batches([each.images for each in changes])
    rows = pa.concat_batches([each.rows for each in changes])
    order = np.lexsort((images.column("ordinal").to_numpy(), images.column("transaction").to_numpy()))
    size = sum(each.bytes for each in changes)
    return TableChanges(changes[0].schema, images.take(pa.array(order)), rows.take(pa.array(order)), size)
