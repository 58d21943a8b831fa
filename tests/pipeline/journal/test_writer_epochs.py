"""Epochs: in any order of the steps of two writers and a reader, no reader sees a segment that is later revoked.

The store of these tests has only complete puts, removals, reads and listings, which is all that the journal needs. The
writers do what `actors.journal.writer_epochs` does, a step at a time, so that another one's step may come in between.
"""

import random
from collections.abc import Generator, Iterator

import pytest

from pipeline.errors import Definite
from pipeline.journal import writer_epochs
from pipeline.journal.writer_epochs import EntryLost, EpochRecord, JournalView

NOTHING = EpochRecord("id", "test")


class Store:
    """Entries with the name of who wrote them, epochs, and the records of those that have begun."""

    def __init__(self) -> None:
        self.entries: dict[tuple[int, str], str] = {}
        self.epochs: set[str] = set()
        self.begun: dict[str, EpochRecord] = {}


class Story:
    """What anybody has taken for true: each segment with the epoch that it was taken as one of."""

    def __init__(self) -> None:
        self.taken: dict[int, str] = {}

    def takes(self, view: JournalView) -> None:
        for segment in range(1, view.last + 1):
            name = view.name(segment)
            assert self.taken.setdefault(segment, name) == name, f"segment {segment} was another one before"


Steps = Generator[None, None, None]


def writer(store: Store, story: Story, token: str, segments: int, breaking: frozenset[str]) -> Steps:
    """Take an epoch, begin, and publish segments until fenced; each yield is a place for others' steps.

    `breaking` leaves a part of the protocol out: see the test that each part is needed.
    """
    mine = writer_epochs.next_epoch(store.epochs, token)
    yield
    store.epochs.add(mine)
    yield
    if max(store.epochs) > mine:
        return
    yield
    listed = list(store.entries)
    yield
    record = NOTHING
    if store.begun:
        before = max(store.begun)
        record = writer_epochs.valid_segments(before, store.begun[before], listed, 1).succeeded(1)
    yield
    store.begun[mine] = record
    yield
    if max(store.epochs) > mine and "begin" not in breaking:
        return
    yield
    view = JournalView(mine, record, record.through)
    story.takes(view)
    for segment in range(view.last + 1, view.last + 1 + segments):
        yield
        store.entries[segment, mine] = token
        yield
        if max(store.epochs) > mine and "publish" not in breaking:
            return
        view = JournalView(mine, record, segment)
        story.takes(view)


def reader(store: Store, story: Story, looks: int, breaking: frozenset[str]) -> Steps:
    for _ in range(looks):
        yield
        first: object = list(store.entries) if "read" not in breaking else None
        yield
        known, begun = set(store.epochs), dict(store.begun)
        if not begun:
            continue
        yield
        listed = list(store.entries) if first is None else first
        assert isinstance(listed, list)
        greatest = max(begun)
        if greatest == max(known):
            story.takes(writer_epochs.valid_segments(greatest, begun[greatest], listed, 1))
        else:
            story.takes(JournalView(greatest, begun[greatest], begun[greatest].through))


def run(seed: int, breaking: frozenset[str] = frozenset()) -> Story:
    """Runs three writers and two readers, one step at a time in a random order; some never continue."""
    rng = random.Random(seed)
    store, story = Store(), Story()
    parts = [writer(store, story, f"{n}" * 8, 3, breaking) for n in range(3)]
    parts += [reader(store, story, 4, breaking) for _ in range(2)]
    weights = [rng.random() ** 2 for _ in parts]
    while parts:
        (at,) = rng.choices(range(len(parts)), weights)
        if next(parts[at], 0) == 0:
            del parts[at], weights[at]
    return story


def test_nobody_sees_what_is_taken_back() -> None:
    through = [max(run(seed).taken, default=0) for seed in range(5_000)]
    assert max(through) > 3
    assert sum(map(bool, through)) > len(through) // 2


@pytest.mark.parametrize("left_out", ["begin", "publish", "read"])
def test_each_step_of_it_is_needed(left_out: str) -> None:
    def broken() -> None:
        for seed in range(10_000):
            run(seed, frozenset({left_out}))

    with pytest.raises((AssertionError, EntryLost)):
        broken()


def views() -> Iterator[JournalView]:
    """Those of epochs that published 3, none, and 2 segments."""
    view = JournalView("00000001-aaaaaaaa", NOTHING, 3)
    yield view
    for epoch, last in (("00000002-bbbbbbbb", 3), ("00000003-cccccccc", 5)):
        view = JournalView(epoch, view.succeeded(1), last)
        yield view


def test_a_segments_name_has_the_epoch_that_published_it() -> None:
    *_, view = views()
    assert [view.name(n) for n in range(1, 7)] == [
        *(f"{n:012d}-00000001-aaaaaaaa" for n in (1, 2, 3)),
        *(f"{n:012d}-00000003-cccccccc" for n in (4, 5, 6)),
    ]
    assert writer_epochs.segment_of(view.name(4)) == (4, "00000003-cccccccc")


def test_epochs_that_nothing_is_left_of_are_forgotten() -> None:
    *_, view = views()
    assert view.succeeded(3).spans == (("00000001-aaaaaaaa", 3), ("00000003-cccccccc", 5))
    assert view.succeeded(4).spans == (("00000003-cccccccc", 5),)


def test_a_new_journal_that_nothing_was_published_in_goes_on_at_its_beginning() -> None:
    record = JournalView("00000001-aaaaaaaa", NOTHING, 0).succeeded(1)
    assert record.through == 0
    assert JournalView("00000002-bbbbbbbb", record, 1).name(1) == "000000000001-00000002-bbbbbbbb"


def test_a_gap_among_the_last_epochs_entries_is_refused_by_the_name_of_what_is_missing() -> None:
    epoch = "00000001-aaaaaaaa"
    with pytest.raises(EntryLost, match=f"000000000002-{epoch}"):
        writer_epochs.valid_segments(epoch, NOTHING, [(1, epoch), (3, epoch)], 1)
    other = [(2, "00000002-bbbbbbbb")]
    assert writer_epochs.valid_segments(epoch, NOTHING, [(1, epoch), *other], 1).last == 1
    assert writer_epochs.valid_segments(epoch, NOTHING, [(1, epoch), (3, epoch), (4, epoch)], 3).last == 4


def test_epochs_rise() -> None:
    assert writer_epochs.next_epoch([], "ffffffff") == "00000001-ffffffff"
    assert (
        writer_epochs.next_epoch(["00000009-ffffffff", "00000010-00000000"], "0" * 8) == "00000011-00000000"
    )
    assert writer_epochs.is_epoch("00000011-00000000")
    assert not writer_epochs.is_epoch("11-00000000")


@pytest.mark.parametrize(
    "name", ["", "000000000007", "000000000007-1-aaaaaaaa", "7-00000001-aaaaaaaa", "README"]
)
def test_other_names_stand_for_no_segment(name: str) -> None:
    assert writer_epochs.segment_of(name) is None


def test_a_record_comes_back_from_its_text_and_nothing_else_is_taken_for_one() -> None:
    *_, view = views()
    text = writer_epochs.to_json(view.record)
    assert writer_epochs.from_json(text) == view.record
    for wrong in ("", "{}", "[]", "7", text[:-1], text + " ", text.replace('"spans"', '"other"')):
        with pytest.raises(Definite, match="damaged"):
            writer_epochs.from_json(wrong)
