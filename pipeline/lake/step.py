"""How the journal gets into the lake: the SparkSink's decisions, without Spark.

Batches follow each other. Within one batch, the tables are delivered at the same time. A batch takes all waiting
segments, up to a bound. So the further the sink lags, the larger its commits are, and the less each row costs.

**The cursor** is in the lake's own tables. The sink reads it at each start, and so after each failure. It is the last
segment of which any table says that all tables have everything through it (`pipeline.lake.delivery`). If the sink has
told the journal more about the very same tables, that counts. The segments between them may have had nothing for any
table. Somebody may have put an older or a newer copy of the lake in its place since. So the tables have to report just
what they reported then (`complete_through`). From there each batch begins after the end of the one before, and ends
before the sink reads the next one. If the sink is killed in the middle of a batch, it delivers that batch again.
`missing_pieces` leaves out what a table has.

**Segments that are gone.** The journal may begin after the cursor. Then the sink leaves out the tables that lack
something, until their mirrors have begun again (`pipeline.journal.missing_generations`). A batch ends where one of them
can be delivered again. Until then the tables continue to say that all have everything through the segment before the
gap, so a restart finds the gap again. A table that capture has stopped begins no other generation by itself. It stops
in the lake too, and readers see none of its incomplete one. Of a table without a key that was scanned before, the
journal remembers for the sink that its changes in the lake don't add up to its rows, until another scan. So it does if
the lake has nothing of such a table, because somebody has removed it.

**Types by rule.** A table begins again if the rules want other types than its columns have. The sink requests another
generation of its mirror, at a start and after each batch, until one begins (`pipeline.lake.delivery`). A table without
a mirror can't begin again. It keeps its types, and the log says so.

**Failures.** The sink sets a table aside that it can't find or deliver, or that isn't as its rule says
(`pipeline.lake.mirrors.mirror_rules`). The other tables continue. They say that all
have everything through the segment where the first one failed, so a restart begins there. The sink tries the failed
table again after a pause, which doubles each time: batches begin at its segment again. The other tables already have
these. If the table fails once more, the next batch is the one that the others lack. A table that another journal feeds
fails too. If the sink meets such tables first and none of its own, the lake is another's, and that ends the pipeline.

**A stop** ends when everything is delivered, or after `drain_s` (`LakeSettings`). Then the sink begins nothing more for
any table, and what's under way ends or is broken off. That leaves the lake as a kill in the middle of a batch does. If
a table fails then, the state has that, and so the log.

**Beside the batches** one piece of work runs at a time (`pipeline.lake.background`). It begins between two batches, or
when there is no batch.

**Facts** say what has happened, and `step` gives the orders that follow. The orders of one step don't depend on each
other. Each order is answered by a fact, except the last six kinds of orders. Of these, RequestRepair is if it fails.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, takewhile
from typing import Final, assert_never

from pipeline.config.lake_types import forms_differ
from pipeline.config.table_rules import Tiers, rule_of
from pipeline.errors import Backoff, Definite, InvariantBroken, expect
from pipeline.journal.entry import Entry
from pipeline.journal.missing_generations import (
    incomplete_generations,
    lost_by,
    scans_before,
    scans_through,
)
from pipeline.lake.background import recording, turns
from pipeline.lake.batch import (
    MOST_BATCH_BYTES,
    Batch,
    LakeTableState,
    missing_pieces,
    next_batch,
    reported_segment,
)
from pipeline.lake.facts import (
    BatchRead,
    BeginningFound,
    CursorAnswer,
    CursorFound,
    Fact,
    FindingsUnread,
    GapFound,
    JournalFound,
    JournalFoundEmpty,
    LakeTimerFired,
    ProgressReported,
    SealingEnded,
    SparkStopped,
    StopRequested,
    TableDelivered,
    TableFailed,
    TablesFound,
    WorkDone,
    WorkFailed,
    WorkGivenUp,
)
from pipeline.lake.mirrors import mirror_rules
from pipeline.lake.orders import (
    DeliverTable,
    FindCursor,
    FindEnd,
    FindTables,
    Order,
    ReadBatch,
    ReportGap,
    ReportKeptTypes,
    ReportLostChanges,
    ReportMissingMirrors,
    ReportProgress,
    RequestMirrors,
    RequestRepair,
    StopSpark,
)
from pipeline.lake.state import (
    Ahead,
    Confirming,
    Delivering,
    Failed,
    Idle,
    IncompleteTables,
    Joining,
    LakeProgress,
    LoadingTables,
    ReadingBatch,
    Retrying,
    Searching,
    SinkEnded,
    Starting,
    State,
    StoppingSpark,
)
from pipeline.lake.verification.runs import Comparisons, VerificationRun, repairs_due
from pipeline.messages.journal import SegmentSealed
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.checkpoint import Checkpoint

_Next = tuple[State, tuple[Order, ...]]

_AHEAD: Final = (
    "the lake has {table} through segment {segment}, and the journal ended with {end} before this service continued "
    "it; it was restored from a copy, and what it seals now isn't what the lake has; restore a newer copy, or move the "
    "journal and the lake's tables away, and begin with a new snapshot"
)

_CUT_OFF: Final = (
    "it lacks segments that the journal removed, and can't be read again, because capture has stopped it: "
    "{reason}"
)

# How long a table pauses after a failure.
TABLE_BACKOFF: Final = Backoff(1.0, 600.0)


def step(state: State, fact: Fact, now: float) -> _Next:
    """Returns the state after a fact, and the orders that follow; `now` in s.

    Raises Definite if the lake is ahead of the journal or another's. Raises InvariantBroken for a fact that answers
    nothing under way.
    """
    if isinstance(state.doing, StoppingSpark | SinkEnded) and not isinstance(fact, SparkStopped):
        return _note_failures(state, fact, now), ()  # what was under way has ended, or was broken off
    if isinstance(fact, LakeTimerFired) and state.stop_at is not None and state.stop_at <= now:
        return replace(state, doing=StoppingSpark()), (StopSpark(True, _last_sealed(state)),)
    state, orders = _handle(state, fact, now)
    between = isinstance(state.doing, Idle) or isinstance(fact, ProgressReported)
    return _begin_background_work(state, orders, now) if between else (state, orders)


def _handle(state: State, fact: Fact, now: float) -> _Next:
    """Returns the state after a fact, and the orders for the next batch."""
    match fact:
        case JournalFoundEmpty():
            expect(Starting, state.doing, fact)
            return replace(state, doing=Idle()), ()
        case JournalFound(end, sealed) if isinstance(state.doing, Retrying):
            return _search_again(state, end, sealed, now)
        case JournalFound(end, sealed):
            expect(Starting, state.doing, fact)
            return _search(state, Searching(end, sealed), end.schemas)
        case TablesFound():
            return _tables_found(state, fact, now)
        case CursorFound() | GapFound() | BeginningFound():
            return _cursor_answered(state, fact, expect(Joining, state.doing, fact))
        case SegmentSealed(segment):
            expect(Idle, state.doing, fact)
            return _read_next_batch(state, segment)
        case BatchRead(batch, late):
            return _batch_read(state, expect(ReadingBatch, state.doing, fact).sealed, batch, late, now)
        case TableDelivered():
            return _table_delivered(state, fact, now)
        case TableFailed():
            return _table_failed(state, fact, now)
        case ProgressReported():
            return _read_next_batch(state, expect(Confirming, state.doing, fact).sealed)
        case LakeTimerFired():
            state, repairs = _retry_repairs(state, now)
            state, orders = _retry_due_tables(state, now)
            return state, (*repairs, *orders)
        case WorkDone():
            state = _work_done(state, fact, now)
            return state, _request_repair(state, now) if fact.judgements else ()
        case WorkGivenUp():
            return replace(state, background=recording.work_given_up(state.background, now)), ()
        case WorkFailed():
            return replace(state, background=recording.work_failed(state.background, now)), ()
        case FindingsUnread(run, reason):
            state = _with_verified(state, state.background.verified.findings_failed(run, reason, now))
            given_up = bool(state.background.verified.given_up(run)) and run in _repairs_due(state)
            return state, (_repair(state, run),) if given_up else ()
        case StopRequested(at):
            return replace(state, stop_at=at + state.settings.drain_s), ()
        case SealingEnded():
            return replace(state, ending=True), ()
        case SparkStopped():
            expect(StoppingSpark, state.doing, fact)
            return replace(state, doing=SinkEnded()), ()
        case _:
            assert_never(fact)


def _begin_background_work(state: State, orders: tuple[Order, ...], now: float) -> _Next:
    """Begins what is due beside the batches. At the end nothing begins, and Spark is stopped when all has ended."""
    if state.ending:
        if state.background.under_way is not None or not isinstance(state.doing, Idle):
            return state, orders
        return replace(state, doing=StoppingSpark()), (*orders, StopSpark())
    so_far = state.so_far
    through, position = so_far.segment, str(so_far.checkpoint.position)
    after, work = turns.next_work(state.background, state.lake_tables, through, position, now)
    return replace(state, background=after), (*orders, work) if work is not None else orders


def _retry_due_tables(state: State, now: float) -> _Next:
    """Looks for the journal's end if tables that failed are due again."""
    again = retry_at(state)
    if again is None or again > now:
        return state, ()
    return replace(state, doing=Retrying()), (FindEnd(),)


def timer_at(state: State) -> float | None:
    """Returns when (s) something is due by time alone; None if nothing is, or if a fact comes first."""
    if state.stop_at is not None:
        return None if isinstance(state.doing, StoppingSpark | SinkEnded) else state.stop_at
    if state.ending or not isinstance(state.doing, Idle):
        return None
    due = turns.background_due_at(state.background, state.lake_tables)
    repairs = (each.again for each in state.background.verified.unread.values())
    return min((at for at in (retry_at(state), due, *repairs) if at is not None), default=None)


def _last_sealed(state: State) -> int:
    """Returns the journal's last segment that the sink knows."""
    match state.doing:
        case Searching() | Joining() | ReadingBatch() | LoadingTables() | Delivering() | Confirming():
            return state.doing.sealed
        case _:
            return state.so_far.segment


def _table_delivered(state: State, fact: TableDelivered, now: float) -> _Next:
    delivering, so_far = expect(Delivering, state.doing, fact), state.so_far
    table, before = fact.table, so_far.tables[fact.table]
    if fact.after.stopped is not None:
        beside = recording.generation_delivered(state.background, table, before, fact.after)
        state = replace(state, background=beside)
    else:
        beside = recording.files_delivered(state.background, table, before, fact.after, fact.pieces, now)
        state = replace(state, background=beside)
        if fact.pieces.changes or fact.pieces.rows:
            so_far = replace(so_far, brought=max(so_far.brought, delivering.batch.through))
            state = replace(state, so_far=so_far)
    delivering = replace(delivering, left=delivering.left - {table})
    after = fact.after
    if after.at is not None:  # and so may work beside the batches
        after = replace(after, at=after.at.or_later(before.at))
    return _continue_delivery(replace(state, so_far=_with_tables(state, {table: after})), delivering, now)


def _work_done(state: State, fact: WorkDone, now: float) -> State:
    assert state.background.under_way is not None
    table, so_far, at = state.background.under_way.work.table, state.so_far, fact.at
    if at is not None:  # a batch may have reported later ones meanwhile
        known = so_far.of(table)
        so_far = so_far.having({table: replace(known, at=at.or_later(known.at))})
    return replace(
        state,
        so_far=so_far,
        background=recording.work_done(state.background, fact.size, now, fact.judgements),
    )


def retry_at(state: State) -> float | None:
    """Returns when (s) a table that was set aside is due again; None if there is none, or something is under way."""
    resting = isinstance(state.doing, Idle)
    so_far = state.so_far
    return min((so_far.failed[table].again for table in so_far.aside), default=None) if resting else None


def complete_through(place: FindCursor, recorded: int, by: int | None, brought: int = 0) -> int:
    """Returns the segment through which the lake has everything.

    Its tables report that they have it through `place.reported`. The sink wrote into the journal that they have it
    through `recorded`, since later segments had nothing for them. That counts for the very same tables alone. They
    reported then that they had everything through `by` (None: it must not count). They had got the segment `brought`.

    A copy of the lake that reports less lacks something of what is recorded. One that reports more got its last batch
    before what is recorded was delivered to another copy. One that reports the same may lack that last batch.
    """
    same = by == place.reported and brought <= place.brought
    return max(0, place.reported, recorded if same else 0)


def next_batch_of(state: State, entries: Iterator[Entry], most_bytes: int = MOST_BATCH_BYTES) -> BatchRead:
    """Returns the next batch, of the entries after what the lake has. There is at least one entry, and the batch takes
    only the entries that it needs.

    It ends where one of the tables that it leaves out can be taken again.
    """
    so_far = state.so_far

    def late(entry: Entry) -> frozenset[TableId]:
        return frozenset(incomplete_generations(so_far.late.tables, entry.checkpoint, so_far.late.since))

    first = next(entries)
    left_out = late(first)
    same = chain([first], takewhile(lambda entry: late(entry) == left_out, entries))
    batch = replace(next_batch(same, most_bytes), cut_off=_cut_off(state, first.checkpoint))
    batch = mirror_rules.apply_rules(batch, state.rules, so_far.bare.tables, so_far.bare.since)
    # As long as a table is left out, or its stop isn't in the lake yet, a restart must find that again.
    lacking = left_out or so_far.aside or batch.cut_off
    return BatchRead(replace(batch, after=so_far.whole) if lacking else batch, left_out)


def _cut_off(state: State, at: Checkpoint) -> dict[TableId, str]:
    """Returns the tables that wait for another generation and that capture has stopped, with why they get nothing more.

    A table of which the lake had everything when capture stopped it lacks nothing. One that keeps no mirror has no
    generation that readers could see.
    """
    so_far = state.so_far
    late = {table: at.stopped[table] for table in so_far.late.tables & at.stopped.keys() & at.mirrors.keys()}
    return {
        table: _CUT_OFF.format(reason=reason)
        for table, reason in late.items()
        if (since := at.mirrors[table].since) < so_far.late.since
        and (so_far.of(table).generation, so_far.of(table).capture_stopped) != (since, reason)
        and rule_of(state.rules, table).tiers is not Tiers.CHANGELOG
    }


def _table_failed(state: State, fact: TableFailed, now: float) -> _Next:
    delivering = expect(Delivering, state.doing, fact)
    so_far = replace(_set_aside(state.so_far, (fact,), now), whole=delivering.batch.after)
    delivering = replace(delivering, left=delivering.left - {fact.table})
    return _continue_delivery(replace(state, so_far=so_far), delivering, now)


def _set_aside(so_far: LakeProgress, failures: Sequence[TableFailed], now: float) -> LakeProgress:
    """Returns the progress in which these tables pause."""
    failed = dict(so_far.failed)
    for each in failures:
        times = so_far.times_failed(each.table) + 1
        failed[each.table] = Failed(each.reason, times, now + TABLE_BACKOFF.pause_s(times), each.foreign)
    return replace(so_far, aside=so_far.aside.union(each.table for each in failures), failed=failed)


def _note_failures(state: State, fact: Fact, now: float) -> State:
    """Returns the state with the tables that a fact says have failed, and with nothing else of it."""
    match fact:
        case TableFailed():
            failures: tuple[TableFailed, ...] = (fact,)
        case TablesFound(failed=failures):
            pass
        case _:
            return state
    return replace(state, so_far=_set_aside(state.so_far, failures, now))


def _search_again(state: State, end: Checkpoint, sealed: int, now: float) -> _Next:
    """Looks for the tables that are due, and goes back to where they failed."""
    so_far = state.so_far
    due = frozenset(table for table in so_far.aside if so_far.failed[table].again <= now)
    so_far = replace(
        so_far,
        aside=so_far.aside - due,
        ahead=so_far.ahead or Ahead(so_far.segment, so_far.checkpoint),
    )
    return _search(replace(state, so_far=so_far), Searching(end, sealed), due)


def _search(state: State, searching: Searching, tables: Iterable[TableId]) -> _Next:
    """Looks for these tables in the lake, if there are any. Then for the place in the journal where the lake is."""
    if wanted := tuple(sorted(tables)):
        return replace(state, doing=searching), (FindTables(wanted),)
    return _join_journal(state, searching)


def _tables_found(state: State, fact: TablesFound, now: float) -> _Next:
    for table, found in fact.found.items():
        _check_found(state, table, found)
    met = recording.tables_met(state.background, fact.found, fact.sizes, now)
    failed = (*fact.failed, *_against_rules(state, fact.found))
    so_far = _set_aside(_with_tables(state, fact.found), failed, now)
    so_far = replace(
        so_far,
        reported=max(so_far.reported, reported_segment(fact.found.values())),
        brought=max((so_far.brought, *(max(each.changes, each.rows) for each in fact.found.values()))),
    )
    match state.doing:
        case Searching() as searching:
            return _join_journal(replace(state, so_far=so_far, background=met), searching)
        case LoadingTables() as loading:
            if failed:
                so_far = replace(so_far, whole=loading.batch.after)
            return _begin_delivery(replace(state, so_far=so_far, background=met), loading, now)
        case doing:
            raise InvariantBroken(f"tables were found while {doing}")


def _against_rules(state: State, found: Mapping[TableId, LakeTableState]) -> Iterator[TableFailed]:
    """Yields the failures of tables of which the lake has a mirror against their rule."""
    for table, each in found.items():
        if (why := mirror_rules.forbidden_mirror(each, table, rule_of(state.rules, table))) is not None:
            yield TableFailed(table, why)


def _check_found(state: State, table: TableId, found: LakeTableState) -> None:
    """Raises Definite if the lake has more of a table than the journal had."""
    end = state.may_reach(table)
    if end is not None and table not in state.so_far.tables and found.furthest > end:
        raise Definite(_AHEAD.format(table=table, segment=found.furthest, end=end))


def _join_journal(state: State, searching: Searching) -> _Next:
    """Looks for the place in the journal where the lake is, now that all tables are found."""
    _check_lake(state.so_far)
    if state.so_far.ahead is not None and not state.so_far.catching_up:
        return _read_next_batch(replace(state, so_far=_end_catching_up(state.so_far)), searching.sealed)
    so_far = state.so_far
    reported = so_far.reported if so_far.ahead is None else max(so_far.reported, so_far.whole)
    state = replace(state, doing=Joining(searching.end, searching.sealed))
    return state, (FindCursor(reported, so_far.brought),)


def _check_lake(so_far: LakeProgress) -> None:
    """Raises Definite if another journal feeds tables of the lake, and this one none.

    A table that nothing fed when the sink met it first doesn't count.
    """
    tables, failed = so_far.tables, so_far.failed.items()
    foreign = [each.reason for table, each in failed if each.foreign and table not in tables]
    if foreign and all(found == LakeTableState() for found in tables.values()):
        raise Definite(foreign[0])


def _cursor_answered(state: State, place: CursorAnswer, joining: Joining) -> _Next:
    """Begins at the place that was found, and reports what the lake lacks of the journal before it."""
    so_far, tell = state.so_far, tuple[Order, ...]()
    match place:
        case CursorFound(through, then, lost):
            bare = mirror_rules.tables_without_mirror(so_far.tables, then.mirrors, state.rules)
            removed = [table for table, found in so_far.tables.items() if found.schema is None]
            so_far = replace(
                so_far,
                segment=through,
                whole=through,
                checkpoint=then,
                bare=IncompleteTables(bare, then.scn),
                lost={**scans_through(removed, then), **lost},
            )
            tell = (ReportMissingMirrors(bare),) if bare else ()
        case GapFound(through, first, lost):
            segment = first.segment - 1
            behind = frozenset(t for t in first.checkpoint.schemas if so_far.of(t).may_lack(segment))
            lacking = behind if so_far.ahead is None else so_far.catching_up | so_far.late.tables
            late = IncompleteTables(lacking, first.first_scn - 1)
            mirrored = late.tables & first.checkpoint.mirrors.keys()
            others = late.tables - mirrored
            lost = {**lost, **scans_before(others, first)}
            so_far = replace(so_far, segment=segment, whole=through, late=late, lost=lost)
            tell = (ReportGap(mirrored, first.segment),) if mirrored else ()
            if others:
                tell = (*tell, ReportLostChanges(others, first.segment))
        case BeginningFound(through, lost):
            # A lake that has nothing lacks nothing of a journal that has all.
            so_far = replace(so_far, segment=through, whole=through, lost=lost if through else {})
        case _:
            assert_never(place)
    state, orders = _read_next_batch(replace(state, so_far=so_far), joining.sealed)
    kept = frozenset(table for table in so_far.unlike_rules if so_far.tables[table].generation is None)
    tell = (*tell, ReportKeptTypes(kept)) if kept else tell
    return state, (*tell, *_request_lacking_mirrors(state, joining.end), *orders)


def _request_lacking_mirrors(state: State, at: Checkpoint) -> tuple[RequestMirrors, ...]:
    """Requests generations for the mirrors that haven't begun again at this checkpoint."""
    so_far = state.so_far
    lacked = _generations_in_other_forms(state, at) | {
        table: since
        for each in (so_far.bare, so_far.late)
        for table, since in incomplete_generations(each.tables, at, each.since).items()
    }
    return (RequestMirrors(lacked),) if lacked else ()


def _generations_in_other_forms(state: State, at: Checkpoint) -> dict[TableId, int]:
    """Returns the generations whose columns don't have the forms that the rules want, if no later one has begun."""
    so_far = state.so_far
    there = at.mirrors.keys() & (at.schemas.keys() - at.stopped.keys())
    return {
        table: at.mirrors[table].since
        for table in sorted(so_far.unlike_rules & there)
        if (generation := so_far.tables[table].generation) is not None
        and at.mirrors[table].since <= generation
    }


def _with_tables(state: State, found: Mapping[TableId, LakeTableState]) -> LakeProgress:
    """Returns the progress with this of these tables, and with whether their columns are as the rules want them."""
    so_far = state.so_far
    changed = {t: each.schema for t, each in found.items() if each.schema is not so_far.of(t).schema}
    unlike = {t for t, s in changed.items() if s is not None and forms_differ(state.settings.types, s)}
    return replace(so_far.having(found), unlike_rules=so_far.unlike_rules.difference(changed) | unlike)


def _read_next_batch(state: State, sealed: int) -> _Next:
    """Orders the next batch if the journal has one; otherwise the sink is idle."""
    if sealed <= state.so_far.segment:
        return replace(state, doing=Idle()), ()
    return replace(state, doing=ReadingBatch(sealed)), (ReadBatch(state.so_far.segment, sealed),)


def _batch_read(state: State, sealed: int, batch: Batch, late: frozenset[TableId], now: float) -> _Next:
    """Finds the lake tables of the batch that the sink hasn't met yet."""
    before = state.so_far.late
    so_far = replace(state.so_far, late=replace(before, tables=late), resuming=before.tables - late)
    state, loading = replace(state, so_far=so_far), LoadingTables(sealed, batch, now)
    if new := [table for table in _tables_of_batch(so_far, batch) if table not in so_far.tables]:
        return replace(state, doing=loading), (FindTables(tuple(sorted(new))),)
    return _begin_delivery(state, loading, now)


def _begin_delivery(state: State, loading: LoadingTables, now: float) -> _Next:
    """Delivers to each of the batch's tables what it lacks of the batch, now that all of them are found."""
    _check_lake(state.so_far)
    so_far, batch = state.so_far, loading.batch
    orders, refused = [], []
    for table in _tables_of_batch(so_far, batch):
        before = so_far.tables[table]
        if before.stopped is None or table in batch.cut_off or batch.resumed(table, before):
            pieces = missing_pieces(before, table, batch)
            if (why := mirror_rules.forbidden_rows(pieces, table, rule_of(state.rules, table))) is not None:
                refused.append(TableFailed(table, why))
            else:
                orders.append(DeliverTable(table, before, pieces, batch))
    brought = bool(refused) or any(order.pieces.changes or order.pieces.rows for order in orders)
    left = frozenset(order.table for order in orders)
    reported = batch.after if brought else so_far.reported
    if refused:
        so_far = replace(_set_aside(so_far, refused, now), whole=batch.after)
        state = replace(state, so_far=so_far)
    state, told = _continue_delivery(
        state, Delivering(loading.sealed, batch, loading.began, left, reported), now
    )
    return state, (*orders, *told)


def _continue_delivery(state: State, delivering: Delivering, now: float) -> _Next:
    """Waits until all tables have the batch. Then reports the progress."""
    if delivering.left:
        return replace(state, doing=delivering), ()
    batch = delivering.batch
    # A table that was made and has nothing else yet also reports something: that it exists.
    there = any(table.schema is not None for table in state.so_far.tables.values())
    so_far = replace(
        state.so_far,
        segment=batch.through,
        checkpoint=batch.checkpoint,
        resuming=frozenset(),
        reported=max(delivering.reported, 0 if there else -1),
        lost=lost_by(state.so_far.lost, batch.checkpoint),
        newest=max((each for each in (state.so_far.newest, batch.newest) if each is not None), default=None),
    )
    reported = None if so_far.left_out else so_far.reported
    tell = ReportProgress(batch, reported, now - delivering.began, so_far.lost, so_far.brought)
    so_far = _end_catching_up(so_far)
    state = replace(state, so_far=so_far, doing=Confirming(delivering.sealed))
    return state, (tell, *_request_lacking_mirrors(state, batch.checkpoint), *_request_repair(state, now))


def _request_repair(state: State, now: float) -> tuple[RequestRepair, ...]:
    """Requests what a repair needs next, after each batch, until the checkpoint says that it has come.

    One that has failed lets the others pass.
    """
    verified = state.background.verified
    due = (run for run in _repairs_due(state) if not verified.rests(run, now))
    run = min(due, key=lambda run: run in verified.unread, default=None)
    return () if run is None else (_repair(state, run),)


def _retry_repairs(state: State, now: float) -> tuple[State, tuple[RequestRepair, ...]]:
    """Requests once more what has failed, if that is due."""
    verified = state.background.verified
    if all(verified.rests(run, now) for run in verified.unread):
        return state, ()
    again = [run for run in _repairs_due(state) if run in verified.unread and not verified.rests(run, now)]
    orders = tuple(_repair(state, run) for run in again)
    return _with_verified(state, verified.requested_again(now)), orders


def _repairs_due(state: State) -> Iterator[VerificationRun]:
    lake = state.lake_tables
    return repairs_due(lake.runs, state.background.verified, lake.incomplete)


def _repair(state: State, run: VerificationRun) -> RequestRepair:
    verified = state.background.verified
    found = bool(verified.judged[run.run, run.table].found)
    return RequestRepair(run, found, verified.given_up(run))


def _with_verified(state: State, verified: Comparisons) -> State:
    return replace(state, background=replace(state.background, verified=verified))


def _end_catching_up(so_far: LakeProgress) -> LakeProgress:
    """Returns the progress at the place of the other tables, once no table catches up any more."""
    if so_far.ahead is not None and so_far.ahead.segment > so_far.segment:
        if so_far.catching_up:
            return so_far
        ahead = so_far.ahead
        so_far = replace(so_far, segment=ahead.segment, checkpoint=ahead.checkpoint, ahead=None)
    still = {table: each for table, each in so_far.failed.items() if table in so_far.aside}
    return replace(so_far, failed=still, ahead=None)


def _tables_of_batch(so_far: LakeProgress, batch: Batch) -> list[TableId]:
    """Returns the tables that have something in the batch, and those whose mirror must be made or begin again. Also
    those that capture has stopped or has again.
    """
    begun = [
        table
        for table in batch.generations
        if batch.newly_begun(table, so_far.of(table)) or batch.resumed(table, so_far.of(table))
    ]
    told = [table for table, known in so_far.tables.items() if batch.stops(table, known)]
    wanted = dict.fromkeys([*batch.tables, *begun, *batch.alterations, *told, *batch.cut_off])
    return [table for table in wanted if table not in so_far.left_out]
