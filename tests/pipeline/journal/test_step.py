"""When appended data is sealed, flushed early or waits, and what happens without room."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.config.column_protection import UNPROTECTED
from pipeline.config.settings import JournalSettings
from pipeline.errors import InvariantBroken
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal import segment as journal
from pipeline.journal import step
from pipeline.journal import step as journal_writer
from pipeline.journal.entry import File, FileKind
from pipeline.journal.segment import EarlyFile
from pipeline.journal.state import ApplyRetention, FlushEarly, Publish, Seal
from pipeline.messages.journal import Append, AppendRows, ChunkPart, Full, HasSpace
from pipeline.messages.signals import SignalAccepted
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.signals.outcomes import Outcome, SignalState
from pipeline.snapshot.checkpoint import Checkpoint
from tests.actors.segments import ITEMS, append, moved, part

AFTER_S = 0.5
SETTINGS = JournalSettings("journal", seal_after_ms=int(AFTER_S * 1000))
SMALL = replace(SETTINGS, seal_mib=0)
ALTERED = Altered(5, Alteration(ITEMS, "ALTER TABLE", ColumnChanges(dropped=("note",))))
KEPT = step.RetentionApplied(0, None, reserved=True, bytes=0, where="here")
LACKED = "no room"


class Story:
    """A writer's state, and the orders of the last fact. Its journal was kept small at the moment 0."""

    def __init__(self, settings: JournalSettings = SETTINGS) -> None:
        self.state = journal_writer.start(settings, (), None)
        self.now = 0.0
        assert self.after(step.JournalTimerFired()) == (ApplyRetention(reserve=True),)
        assert self.after(KEPT) == ()

    def after(self, fact: step.Fact, seconds: float = 0.0) -> tuple[step.Order, ...]:
        """The fact comes so many seconds after the one before."""
        self.now += seconds
        self.state, orders = journal_writer.step(self.state, fact, self.now)
        return orders

    def sealing(self, number: int = 1) -> Seal:
        """An append comes, and its segment is due."""
        assert self.after(append(number)) == ()
        (seal,) = self.after(step.JournalTimerFired(), AFTER_S)
        assert isinstance(seal, Seal)
        return seal


def published(seal: Seal | Publish, size: int = 0) -> step.Published:
    return step.Published(
        journal.seal(seal.segment, seal.waiting.appends, (), seal.before, 0, UNPROTECTED), size
    )


def told(orders: tuple[step.Order, ...]) -> tuple[step.ReportSealed, tuple[step.Order, ...]]:
    first, *others = orders
    assert isinstance(first, step.ReportSealed)
    return first, tuple(others)


def test_it_begins_behind_the_last_segment() -> None:
    last = journal.seal(7, [append(1)], (), None, 0, UNPROTECTED)
    state = journal_writer.start(SETTINGS, (), last)
    assert (state.begun, state.checkpoint, state.last) == (7, append(1).checkpoint, last)


def test_what_came_waits_for_its_moment_and_is_told_when_it_is_durable() -> None:
    story = Story()
    accepted, row = SignalAccepted("a", "begun"), SignalState("r", Outcome.REJECTED, "no such table")
    assert story.after(append(1)) == story.after(moved(2, (accepted, row))) == ()
    assert journal_writer.timer_at(story.state) == AFTER_S
    assert story.after(step.JournalTimerFired(), AFTER_S / 2) == ()
    (seal,) = story.after(step.JournalTimerFired(), AFTER_S / 2)
    assert isinstance(seal, Seal)
    assert (seal.segment, len(seal.waiting.appends), seal.before) == (1, 2, None)
    assert journal_writer.timer_at(story.state) is None
    assert story.after(append(3)) == ()
    sealed, others = told(story.after(published(seal)))
    assert (sealed.answers, sealed.signal_outcomes, others) == ((accepted,), (row,), ())
    (seal,) = story.after(step.JournalTimerFired(), AFTER_S)
    assert isinstance(seal, Seal)
    assert (seal.segment, seal.before) == (2, moved(2).checkpoint)
    assert told(story.after(published(seal)))[0].signal_outcomes == (row,)


def test_one_fills_while_one_is_sealed_and_then_nothing_is_taken() -> None:
    story = Story(SMALL)
    (seal,) = story.after(append(1))
    assert isinstance(seal, Seal)
    assert journal_writer.takes_messages(story.state)
    assert story.after(append(2)) == ()
    assert not journal_writer.takes_messages(story.state)
    _, (other,) = told(story.after(published(seal)))
    assert isinstance(other, Seal)
    assert other.segment == 2
    assert journal_writer.takes_messages(story.state)


TABLES = 100
PARTS = [part(1, 0, 1, TableSchema(TableId("shop", str(n)), ITEMS.columns, key=(0,))) for n in range(TABLES)]
QUICK_S = 0.2
QUICK = replace(SETTINGS, seal_after_ms=int(QUICK_S * 1000))


def of_tables(number: int, tables: int = TABLES) -> Append:
    """The n-th append, with a change of each of so many tables."""
    return replace(append(number), parts=tuple(PARTS[:tables]))


def test_the_segment_after_one_of_many_tables_waits_longer_and_no_other_does() -> None:
    story = Story(QUICK)
    pauses = []
    for number, tables in enumerate((TABLES, 3, 3), 1):
        assert story.after(of_tables(number, tables)) == ()
        due = journal_writer.timer_at(story.state)
        assert due is not None
        pauses.append(due - story.now)
        (seal,) = story.after(step.JournalTimerFired(), due - story.now)
        assert isinstance(seal, Seal)
        told(story.after(published(seal)))
    assert pauses == pytest.approx([QUICK_S, TABLES / journal.FILES_PER_S, QUICK_S])


@pytest.mark.parametrize(
    ("tables", "took_s", "pause_s"),
    [
        (TABLES, 0.1, TABLES / journal.FILES_PER_S - 0.1),  # so long after it was begun
        (TABLES, 0.7, 0.7),
        (TABLES, 3.0, TABLES * journal.REST_PER_FILE_S),
        (3, 3.0, QUICK_S),
    ],
)
def test_the_next_segment_leaves_the_processors_for_as_long_as_the_last_ones_sealing_took(
    tables: int, took_s: float, pause_s: float
) -> None:
    story = Story(QUICK)
    story.after(of_tables(1, tables))
    (seal,) = story.after(step.JournalTimerFired(), QUICK_S)
    assert isinstance(seal, Seal)
    told(story.after(published(seal), took_s))
    assert story.after(append(2)) == ()
    assert journal_writer.timer_at(replace(story.state, retention_at=99.0)) == pytest.approx(
        story.now + pause_s
    )


def test_no_pause_holds_back_what_is_sealed_at_once() -> None:
    full = Story(replace(QUICK, seal_mib=0))
    (seal,) = full.after(of_tables(1))
    assert isinstance(seal, Seal)
    assert full.after(append(2)) == ()
    assert [type(each) for each in told(full.after(published(seal)))[1]] == [Seal]
    altering, ending = Story(QUICK), Story(QUICK)
    facts: dict[Story, step.Fact] = {
        altering: replace(append(3), alterations=(ALTERED,)),
        ending: step.MailboxClosed(),
    }
    for story, fact in facts.items():
        story.after(of_tables(1))
        (seal,) = story.after(step.JournalTimerFired(), QUICK_S)
        assert isinstance(seal, Seal)
        told(story.after(published(seal)))
        assert story.after(append(2)) == ()
        assert [type(each) for each in story.after(fact)] == [Seal]


def test_a_segment_that_is_sealed_at_once_shortens_no_pause() -> None:
    story = Story(QUICK)
    story.after(of_tables(1))
    (seal,) = story.after(step.JournalTimerFired(), QUICK_S)
    assert isinstance(seal, Seal)
    paused_until = story.now + TABLES / journal.FILES_PER_S
    told(story.after(published(seal)))
    assert story.after(append(2)) == ()
    (seal,) = story.after(replace(append(3), alterations=(ALTERED,)))
    assert isinstance(seal, Seal)
    assert len(seal.waiting.unwritten) == 1
    told(story.after(published(seal)))
    assert journal_writer.timer_at(story.state) == pytest.approx(paused_until)


def test_no_pause_is_longer_than_signals_can_wait() -> None:
    """One segment may have changes of ten thousand tables."""
    story = Story(QUICK)
    story.after(of_tables(1))
    assert story.state.waiting is not None
    schemas = (replace(ITEMS, table=TableId("shop", str(n))) for n in range(10_000))
    tables = {(schema, FileKind.CHANGES): 1 for schema in schemas}
    sealed = replace(story.state.waiting, unwritten=tables)
    assert journal.pause_after(sealed) == journal.LONGEST_PAUSE_S
    assert journal.rest_after(sealed, 90.0) == journal.LONGEST_PAUSE_S


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.integers(1, TABLES)), min_size=1, max_size=12))
def test_files_a_second_are_bounded_however_many_tables_change(comes: list[tuple[float, int]]) -> None:
    """An append has a change of each of so many tables, and a pause follows it."""
    story, began, counted, last = Story(QUICK), 0.0, 0, 0
    for number, (pause_s, tables) in enumerate(comes, 1):
        assert story.after(of_tables(number, tables)) == ()
        until = story.now + pause_s
        while (due := journal_writer.timer_at(story.state)) is not None and due <= until:
            for order in story.after(step.JournalTimerFired(), due - story.now):
                if not isinstance(order, Seal):
                    story.after(KEPT)
                    continue
                began = began or story.now
                assert counted <= journal.FILES_PER_S * (story.now - began) + 1e-6
                assert order.waiting.urgent_since is not None
                age = story.now - order.waiting.urgent_since
                assert QUICK_S <= age * (1 + 1e-9) <= max(QUICK_S, last / journal.FILES_PER_S) * (1 + 2e-9)
                last = len(order.waiting.unwritten)
                counted += last
                assert told(story.after(published(order)))[1] == ()
        story.now = until


def test_an_append_that_alters_columns_waits_for_all_before_it() -> None:
    story = Story()
    altering = replace(append(2), alterations=(ALTERED,))
    assert story.after(append(1)) == ()
    (seal,) = story.after(altering)
    assert isinstance(seal, Seal)
    assert len(seal.waiting.appends) == 1
    assert not journal_writer.takes_messages(story.state)
    assert told(story.after(published(seal)))[1] == ()
    assert journal_writer.takes_messages(story.state)
    (seal,) = story.after(step.JournalTimerFired(), AFTER_S)
    assert isinstance(seal, Seal)
    assert seal.waiting.appends == (altering,)
    # And where nothing is before it, it waits for nothing.
    told(story.after(published(seal)))
    assert story.after(altering) == ()
    assert journal_writer.takes_messages(story.state)


def test_large_pieces_are_written_while_a_segment_fills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "AHEAD", 1)
    story = Story()
    (write,) = story.after(append(1))
    assert isinstance(write, FlushEarly)
    assert (write.segment, write.first, write.scn) == (1, 0, append(1).checkpoint.scn)
    file = EarlyFile(File("0", ITEMS.table, ITEMS.version, FileKind.CHANGES, 10, 100, "", False), write.scn)
    assert story.after(step.FlushedEarly((file,))) == ()
    (seal,) = story.after(step.JournalTimerFired(), AFTER_S)
    assert isinstance(seal, Seal)
    assert seal.ahead == (file,)
    assert story.state.ahead == ()


def test_chunks_are_reported_once_no_change_waits_for_the_writing_of_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scn = 11
    changes, rows = append(1, chunk=True).parts
    assert isinstance(rows, ChunkPart)
    chunk = replace(append(1), parts=(changes, replace(rows, scn=scn)))
    few = Story()
    assert few.after(append(2)) == ()
    assert few.after(chunk) == (step.ReportChunks(scn),)
    assert few.after(append(3)) == ()  # once
    monkeypatch.setattr(journal, "AHEAD", 1)
    story = Story()
    (write,) = story.after(chunk)
    assert isinstance(write, FlushEarly)
    # Neither changes that wait meanwhile nor the next write hold the report back.
    assert story.after(append(2)) == ()
    other, report = story.after(step.FlushedEarly(()))
    assert isinstance(other, FlushEarly)
    assert report == step.ReportChunks(scn)
    # A chunk waits while something else is written, and is one of the parts then.
    assert story.after(chunk) == ()
    (write,) = story.after(step.FlushedEarly(()))
    assert isinstance(write, FlushEarly)
    assert story.after(step.SpaceLacked(LACKED, write)) == (
        step.ReportSpace(Full(LACKED)),
        ApplyRetention(reserve=False),
    )
    assert story.after(replace(KEPT, removed=1)) == (write,)
    assert story.after(step.FlushedEarly(())) == (step.ReportChunks(scn),)


def test_chunks_are_reported_once_a_segment_is_sealed_with_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal, "AHEAD", 1)
    story = Story(SMALL)
    chunk = append(1, chunk=True)
    (seal,) = story.after(chunk)
    assert isinstance(seal, Seal)
    _, others = told(story.after(published(seal)))
    assert others == (step.ReportChunks(0),)


def test_rows_of_a_transaction_are_written_once_they_fill_a_segment_and_nothing_whole_waits() -> None:
    story = Story(SMALL)
    (seal,) = story.after(append(1))
    assert isinstance(seal, Seal)
    assert story.after(AppendRows((part(2, 0, 5),))) == ()
    assert not journal_writer.takes_messages(story.state)
    _, (write,) = told(story.after(published(seal)))
    assert isinstance(write, FlushEarly)
    assert (write.segment, write.scn) == (2, None)
    assert story.state.unfinished.bytes == 0
    # At the end they never happened.
    assert story.after(step.FlushedEarly(())) == story.after(step.MailboxClosed()) == ()
    assert journal_writer.has_ended(story.state)


def test_at_the_end_all_that_is_whole_is_sealed_at_once() -> None:
    story = Story()
    assert story.after(append(1)) == ()
    (seal,) = story.after(step.MailboxClosed())
    assert isinstance(seal, Seal)
    assert not journal_writer.has_ended(story.state)
    assert told(story.after(published(seal)))[1] == ()
    assert journal_writer.has_ended(story.state)


def test_the_journal_is_kept_small_now_and_then_and_for_as_long_as_something_goes() -> None:
    story = Story()
    assert journal_writer.timer_at(story.state) == step.RETENTION_EVERY_S
    assert story.after(step.JournalTimerFired(), step.RETENTION_EVERY_S) == (ApplyRetention(reserve=True),)
    assert story.after(replace(KEPT, removed=3)) == (ApplyRetention(reserve=True),)
    assert story.after(KEPT) == ()
    assert journal_writer.timer_at(story.state) == 2 * step.RETENTION_EVERY_S


def test_what_there_was_no_room_for_is_done_again_as_far_as_it_is_left() -> None:
    story = Story()
    seal = story.sealing()
    left = Publish(seal.segment, seal.waiting, (), None)
    assert story.after(step.SpaceLacked(LACKED, left)) == (
        step.ReportSpace(Full(LACKED)),
        ApplyRetention(reserve=False),
    )
    assert journal_writer.timer_at(story.state) is None
    assert story.after(append(2)) == ()
    assert story.after(replace(KEPT, reserved=False)) == ()
    assert story.after(step.JournalTimerFired(), step.PUBLISH_AGAIN_S / 2) == ()
    assert story.after(step.JournalTimerFired(), step.PUBLISH_AGAIN_S / 2) == (ApplyRetention(reserve=False),)
    assert story.after(replace(KEPT, reserved=False)) == (left,)
    _, (other,) = told(story.after(published(left)))
    assert isinstance(other, Seal)
    # Then it's seen whether there's room again.
    assert told(story.after(published(other)))[1] == (ApplyRetention(reserve=True),)
    assert story.after(KEPT) == (step.ReportSpace(HasSpace()),)


def test_once_something_has_gone_it_is_done_again_at_once() -> None:
    story = Story()
    seal = story.sealing()
    story.after(step.SpaceLacked(LACKED, seal))
    for _ in range(2):  # no more goes than has to
        assert story.after(replace(KEPT, removed=1, reserved=False)) == (seal,)
        # It's reported once.
        assert story.after(step.SpaceLacked(LACKED, seal)) == (ApplyRetention(reserve=False),)


def test_keeping_the_journal_small_may_lack_room_as_well() -> None:
    story = Story()
    story.after(step.JournalTimerFired(), step.RETENTION_EVERY_S)
    assert story.after(step.SpaceLacked(LACKED, ApplyRetention(reserve=True))) == (
        step.ReportSpace(Full(LACKED)),
    )
    assert journal_writer.timer_at(story.state) == step.RETENTION_EVERY_S + step.PUBLISH_AGAIN_S
    seal = story.sealing()
    story.after(step.SpaceLacked(LACKED, seal))
    assert story.after(step.SpaceLacked(LACKED, ApplyRetention(reserve=False))) == ()
    assert story.after(step.JournalTimerFired(), step.PUBLISH_AGAIN_S) == (ApplyRetention(reserve=False),)


def test_without_a_reserve_there_is_no_room() -> None:
    story = Story()
    story.after(step.JournalTimerFired(), step.RETENTION_EVERY_S)
    no_reserve = replace(KEPT, reserved=False)
    assert story.after(no_reserve) == (step.ReportSpace(Full("the filesystem of here is full")),)
    assert story.after(step.JournalTimerFired(), step.RETENTION_EVERY_S) == (ApplyRetention(reserve=True),)
    assert story.after(KEPT) == (step.ReportSpace(HasSpace()),)


def test_at_the_quota_the_journal_is_kept_small_at_once_and_then_there_is_no_room() -> None:
    story = Story(replace(SETTINGS, quota_mib=1, keep_mib=0))
    seal = story.sealing()
    size = 1 << 20
    assert told(story.after(published(seal, size)))[1] == (ApplyRetention(reserve=True),)
    (tell,) = story.after(replace(KEPT, kept_for="lake", bytes=size))
    assert isinstance(tell, step.ReportSpace)
    assert isinstance(tell.room, Full)
    assert "journal.quota_mib" in tell.room.reason
    # What's on its way is sealed still.
    seal = story.sealing(2)
    assert told(story.after(published(seal, size)))[1] == (ApplyRetention(reserve=True),)


def test_nobody_waits_for_room_at_the_end() -> None:
    story = Story()
    story.after(append(1))
    (seal,) = story.after(step.MailboxClosed())
    assert isinstance(seal, Seal)
    assert story.after(step.SpaceLacked(LACKED, seal)) == (step.GiveUp(LACKED),)


@pytest.mark.parametrize(
    "fact", [KEPT, step.SpaceLacked(LACKED, ApplyRetention(reserve=False))], ids=["kept", "no room"]
)
def test_what_nobody_was_told_to_do_breaks_an_invariant(fact: step.Fact) -> None:
    with pytest.raises(InvariantBroken):
        Story().after(fact)
    entry = journal.seal(1, [Append((), Checkpoint(GtidSet()))], (), None, 0, UNPROTECTED)
    with pytest.raises(InvariantBroken, match="segment 1 was published while"):
        Story().after(step.Published(entry, 0))


def test_a_mailbox_that_closes_twice_breaks_an_invariant() -> None:
    story = Story()
    story.after(step.MailboxClosed())
    with pytest.raises(InvariantBroken, match="the mailbox closed while"):
        story.after(step.MailboxClosed())
