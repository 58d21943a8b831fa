"""A plan is made over a real journal: while it grows, while retention removes segments, and after columns changed."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from actors.journal.stream.segment_planner import SegmentPlanner, load_columns
from pipeline.config.settings import JournalSettings
from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.row_choice import ALL_ROWS, RowChoice
from pipeline.lake.stream.change_file import ChangeFile
from pipeline.lake.stream.segment_offset import (
    MicroBatchBegin,
    SegmentOffset,
    SegmentsGone,
    WrongOffset,
    from_json,
    to_json,
)
from pipeline.lake.stream.segment_plan import ColumnsChanged, MicroBatchLimit, TableRestarted
from pipeline.lake.stream.source_options import SourceOptions, StreamBegin, WrongOption
from pipeline.lake.stream.stream_places import NotYetSealed
from pipeline.lake.tables.columns import META_COLUMNS
from pipeline.schema.ddl.alter_table import Alteration, Altered, ColumnChanges
from pipeline.schema.table_schema import Column, TableId
from pipeline.snapshot.checkpoint import Filling, Ready
from pipeline.types.column_types import Integer
from tests.integration.history import History
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS, SOURCE

NO_LIMIT = MicroBatchLimit()
ADDED = replace(ORDERS, columns=(*ORDERS.columns, Column("flag", Integer(4, unsigned=False), True)))


class House:
    """A journal with two tables. Each segment has a transaction for each of two rows of `orders`."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self.orders = self.history.table(ORDERS)
        self.items = self.history.table(ITEMS)
        self.options = SourceOptions(str(folder), (ORDERS.table,))

    @property
    def id(self) -> str:
        return self.history.store.identity.id

    def seal(self, times: int = 1) -> int:
        for _ in range(times):
            values = (None,) * (len(self.orders.schema.columns) - 1)
            for _ in range(2):
                self.history.transaction((self.orders, "c", (self.history.scn + 1, *values)))
            self.history.seal()
        return self.history.segment

    def quiet(self, times: int) -> None:
        for _ in range(times):
            self.history.transaction((self.items, "c", (self.history.scn,)))
            self.history.seal()

    def planner(self, loaded: int | None = 0, **options: object) -> SegmentPlanner:
        """The plan of a stream as `load()` would begin it now, or with columns as of a segment."""
        chosen = replace(self.options, **options)  # type: ignore[arg-type]
        found = load_columns(self.history.store, chosen, loaded)
        wanted = [pa.field(column.name, pa.string()) for column in META_COLUMNS]
        wanted += list(found.schemas[chosen.tables[0]].arrow)
        return SegmentPlanner(chosen, pa.schema(wanted), found.at)

    def at(self, segment: int, after: int | None = None) -> SegmentOffset:
        """The end of a segment, or of a micro-batch that begins after another one; older offsets don't say."""
        return SegmentOffset(self.id, segment, batch=None if after is None else MicroBatchBegin(after))

    def remove_through(self, segment: int) -> None:
        """Retention removes old segments; a consumer needs the others."""
        self.history.store.consumers.record_progress("another", segment + 1)
        self.history.store.retain(JournalSettings(str(self.history.store.directory), keep_hours=0), 10**18)
        self.history.store.consumers.forget("another")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path / "journal")
    yield made
    made.history.store.close()


def segments(tasks: tuple[tuple[ChangeFile, ...], ...]) -> list[int]:
    return [file.segment for task in tasks for file in task]


def test_a_stream_follows_the_journal(house: House) -> None:
    house.seal(2)
    planner = house.planner()
    begin = planner.begin()
    assert (begin, planner.latest()) == (house.at(0, 0), house.at(2))
    first = planner.end(begin, NO_LIMIT)
    assert (first, segments(planner.tasks(begin, first))) == (house.at(2, 0), [1, 2])
    assert planner.end(first, NO_LIMIT) == first
    house.seal(3)
    second = planner.end(first, MicroBatchLimit(rows=4))
    assert (second, segments(planner.tasks(first, second))) == (house.at(4, 2), [3, 4])
    assert planner.end(second, NO_LIMIT, at_most=4) == second
    # A restart plans the same batch again, and the next one.
    again = house.planner()
    assert segments(again.tasks(first, second)) == [3, 4]
    assert again.end(second, NO_LIMIT) == house.at(5, 4)


def test_the_files_are_the_journals(house: House) -> None:
    house.seal()
    planner = house.planner()
    ((file,),) = planner.tasks(house.at(0), house.at(1))
    assert Path(file.path).exists() and file.rows == 2 and file.choice == ALL_ROWS


def test_what_is_read_once_is_between_two_places(house: House) -> None:
    house.seal(4)
    scns = house.planner(begins=4, through=5).whole()
    assert [(file.segment, file.choice) for task in scns for file in task] == [
        (2, RowChoice(first=4)),
        (3, RowChoice(last=5)),
    ]
    gtids = house.planner(
        begins=GtidSet.parse(f"{SOURCE}:1-4"), through=GtidSet.parse(f"{SOURCE}:1-5")
    ).whole()
    # The journal's positions are one transaction ahead of its rows.
    assert [(file.segment, file.choice) for task in gtids for file in task] == [
        (2, RowChoice(without=f"{SOURCE}:1-4")),
    ]
    assert house.planner(begins=StreamBegin.LATEST).whole() == ()
    with pytest.raises(NotYetSealed, match=r"through: the journal in .* ends before 9; wait for it"):
        house.planner(through=9).whole()


def test_what_is_read_once_registers_no_consumer(house: House) -> None:
    """It would never advance, and so the journal would keep all segments for it."""
    house.seal()
    with pytest.raises(WrongOption, match=r"consumer: spark\.read has no progress"):
        house.planner(consumer="mine").whole()
    assert "mine" not in house.history.store.consumers.all()


def test_a_stream_ends_at_its_place_and_waits_for_it(house: House) -> None:
    house.seal()
    planner = house.planner(through=3)
    first = planner.end(planner.begin(), NO_LIMIT)
    assert first == house.at(1, 0)
    house.seal(2)
    assert planner.latest() == house.at(2)
    assert planner.end(first, NO_LIMIT) == SegmentOffset(house.id, 2, "3", batch=MicroBatchBegin(1))


@pytest.mark.parametrize(
    ("through", "text"), [(3, "3"), (GtidSet.parse(f"{SOURCE}:1-2"), f"{SOURCE}:1-2"), (4, None)]
)
def test_a_stream_that_ended_within_a_segment_is_not_continued_after_it(
    house: House, through: int | GtidSet, text: str | None
) -> None:
    house.seal(3)
    planner = house.planner(through=through)
    end = planner.end(planner.begin(), NO_LIMIT)
    assert end.through == text
    assert planner.end(end, NO_LIMIT) == house.planner(through=through).end(end, NO_LIMIT) == end
    for other in (None, 5):
        if text is None:
            assert house.planner(through=other).end(end, NO_LIMIT).segment == 3
            continue
        with pytest.raises(WrongOffset, match=rf"with through = {text}, and lacks the rest of it"):
            house.planner(through=other).end(end, NO_LIMIT)
        with pytest.raises(WrongOffset, match="until it has ended"):
            house.planner(through=other).tasks(house.at(0), end)


GAPS = GtidSet.parse(f"{SOURCE}:1-2:6")


@pytest.mark.parametrize("other", [StreamBegin.EARLIEST, 10, GtidSet.parse(f"{SOURCE}:1-9")])
@pytest.mark.parametrize(
    ("begins", "chosen"),
    [
        (4, {2: RowChoice(first=4)}),
        # It is in the position of the third segment.
        (GAPS, dict.fromkeys((1, 2, 3), RowChoice(without=GAPS.on_one_line))),
    ],
)
def test_a_stream_has_begun_where_it_began_whatever_a_restart_says(
    house: House, begins: int | GtidSet, chosen: dict[int, RowChoice], other: int | GtidSet | StreamBegin
) -> None:
    house.seal(6)
    expected = [(n, chosen.get(n, ALL_ROWS)) for n in range(min(chosen), 7)]
    place, found = house.planner(begins=begins).begin(), list[tuple[int, RowChoice]]()
    while place.segment < 6:
        place = from_json(to_json(place))  # as Spark keeps it
        end = house.planner(begins=other).end(place, MicroBatchLimit(rows=2))
        tasks = house.planner(begins=other).tasks(place, end)
        found += [(file.segment, file.choice) for task in tasks for file in task]
        assert (end.begins is None) == (end.segment >= max(chosen))
        place = end
    assert found == expected


def test_a_checkpoint_of_before_offsets_had_the_beginning_leaves_nothing_out(house: House) -> None:
    house.seal(3)
    tasks = house.planner(begins=5).tasks(house.at(1), house.at(3))
    assert [(file.segment, file.choice) for task in tasks for file in task] == [(2, ALL_ROWS), (3, ALL_ROWS)]


@pytest.mark.parametrize("other", [StreamBegin.EARLIEST, StreamBegin.LATEST, 4, 9])
@pytest.mark.parametrize("begins", [StreamBegin.EARLIEST, 4, GtidSet.parse(f"{SOURCE}:1-4")])
def test_a_first_micro_batch_has_begun_where_it_began_whatever_a_restart_says(
    house: House, begins: int | GtidSet | StreamBegin, other: int | StreamBegin
) -> None:
    """Spark asks where a new stream begins until the first one is completed."""
    house.seal(3)
    first = house.planner(begins=begins)
    begun = first.begin()
    end = first.end(begun, NO_LIMIT)
    expected = first.tasks(begun, end)
    house.seal(3)
    again = house.planner(begins=other)
    assert again.tasks(again.begin(), from_json(to_json(end))) == expected
    assert segments(again.tasks(end, again.end(end, NO_LIMIT))) == [4, 5, 6]


def test_a_stream_of_what_comes_next_has_what_came_before_its_first_micro_batch_was_completed(
    house: House,
) -> None:
    """Spark asks twice where it begins, and a segment may come in between. It asks again after a failure."""
    house.seal()
    planner = house.planner(begins=StreamBegin.LATEST, consumer="mine")
    begun = planner.begin()
    assert planner.end(begun, NO_LIMIT) == begun
    house.seal(2)
    assert planner.tasks(planner.begin(), begun) == (), "a micro-batch without rows"
    end = planner.end(begun, NO_LIMIT)
    house.seal()
    assert segments(planner.tasks(planner.begin(), end)) == [2, 3]
    again = house.planner(begins=StreamBegin.LATEST, consumer="mine")
    begins_now = again.begin()
    assert begins_now.segment == 4
    house.remove_through(3)  # retention may look between the two
    assert segments(again.tasks(begins_now, end)) == [2, 3]
    assert house.history.store.consumers.all()["mine"].segment == 1
    house.history.store.consumers.forget("mine")
    house.remove_through(3)
    late = house.planner(begins=StreamBegin.LATEST)
    with pytest.raises(SegmentsGone, match=r"needs the segments from 2 on"):
        late.tasks(late.begin(), end)


def test_a_first_micro_batch_of_an_earlier_version_is_refused_where_it_would_lack_rows(house: House) -> None:
    house.seal(4)
    later = house.planner(begins=StreamBegin.LATEST)
    with pytest.raises(
        WrongOffset, match=r"ends with segment 3 .* after segment 4 now, .* the from that it had"
    ):
        later.tasks(later.begin(), house.at(3))
    assert segments(house.planner().tasks(house.planner().begin(), house.at(3))) == [1, 2, 3]


def test_a_table_without_changes_costs_no_batches(house: House) -> None:
    house.quiet(3)
    planner = house.planner()
    assert planner.end(house.at(0), NO_LIMIT) == house.at(0)
    house.seal()
    assert planner.end(house.at(0), NO_LIMIT) == house.at(4, 0)
    assert segments(planner.tasks(house.at(0), house.at(4))) == [4]


def test_new_columns_end_the_stream_and_a_restart_has_them(house: House) -> None:
    house.seal()
    planner = house.planner()
    house.orders.close_version()
    house.orders.schema = ADDED
    house.seal()
    first = planner.end(house.at(0), NO_LIMIT)
    assert first == house.at(1, 0)
    with pytest.raises(ColumnsChanged, match=r"segment 2 .*column 'flag' \(INT\) came"):
        planner.end(first, NO_LIMIT)
    with pytest.raises(ColumnsChanged):
        planner.tasks(first, house.at(2))
    assert house.planner().end(first, NO_LIMIT) == house.at(2, 1)
    # With the columns of before, as the option has it, it ends there as well.
    with pytest.raises(ColumnsChanged, match="without schemaSegment"):
        house.planner(columns_at=1).end(first, NO_LIMIT)


def test_a_column_that_was_dropped_and_came_back_is_another_one(house: House) -> None:
    """The statement is in a segment that the stream has still to read, or has passed."""
    house.seal()
    dropped = Alteration(ORDERS, "ALTER TABLE", ColumnChanges(dropped=("note",)))
    house.history.altered = [Altered(house.history.scn, dropped)]
    house.seal(2)
    with pytest.raises(ColumnsChanged, match=r'was dropped. .*option\("schemaSegment", "1"\)'):
        house.planner().end(house.at(0), MicroBatchLimit(rows=1))
    assert house.planner().end(house.at(1), NO_LIMIT) == house.at(3, 1)
    before = house.planner(columns_at=1)
    assert before.end(house.at(0), NO_LIMIT) == house.at(1, 0)
    with pytest.raises(ColumnsChanged, match=r"column 'note' was dropped"):
        house.planner(columns_at=1).end(house.at(2), NO_LIMIT)


def test_a_table_that_begins_again_ends_the_stream_until_the_user_knows(house: House) -> None:
    house.seal()
    house.history.stopped[ORDERS.table] = "its rows can't be decoded"
    house.quiet(1)
    planner = house.planner()
    assert planner.end(house.at(0), NO_LIMIT) == house.at(2, 0)
    house.history.stopped.clear()
    house.history.restart(house.orders, ORDERS, Filling)
    house.quiet(1)
    house.seal()
    with pytest.raises(TableRestarted, match=r"shop\.orders: the table begins again in segment 3"):
        planner.end(house.at(2), NO_LIMIT)
    with pytest.raises(TableRestarted):
        house.planner().tasks(house.at(2), house.at(4))
    with pytest.raises(TableRestarted):
        house.planner().whole()
    known = house.planner(restarted_through=3)
    assert known.end(house.at(2), NO_LIMIT) == house.at(4, 2)
    assert segments(known.tasks(house.at(2), house.at(4))) == [4]
    # A stream of another table doesn't end, nor does one that begins there.
    assert house.planner(tables=(ITEMS.table,)).end(house.at(2), NO_LIMIT) == house.at(4, 2)
    house.remove_through(2)
    late = house.planner()
    assert late.end(late.begin(), NO_LIMIT) == house.at(4, 2)
    with pytest.raises(TableRestarted):
        house.planner().end(house.at(2), NO_LIMIT)
    # Who has read the lake up to there, and begins after that, has rows that aren't right any more.
    continued = house.planner(begins=house.history.store.entry(3).first_scn)
    begin = continued.begin()
    assert begin.segment == 2
    with pytest.raises(TableRestarted, match="begins again in segment 3"):
        continued.end(begin, NO_LIMIT)
    with pytest.raises(TableRestarted, match="begins again in segment 3"):
        house.planner().tasks(begin, replace(house.at(4), batch=begin.batch))
    # A statement that emptied the table is a row of it.
    house.history.restart(house.orders, ORDERS, Ready)
    house.seal()
    assert known.end(house.at(4), NO_LIMIT) == house.at(5, 4)


def test_segments_that_retention_removed_are_named(house: House) -> None:
    house.seal(6)
    planner = house.planner()
    house.remove_through(3)
    with pytest.raises(SegmentsGone, match=r"from 2 on, and the journal .* begins with 4"):
        planner.end(house.at(1), NO_LIMIT)
    with pytest.raises(SegmentsGone):
        house.planner().tasks(house.at(1), house.at(5))
    assert house.planner().begin() == house.at(3, 3)
    assert house.planner().end(house.at(3), NO_LIMIT) == house.at(6, 3)
    with pytest.raises(
        WrongOption, match=r"schemaSegment: .* doesn't have segment 2; give one from 4 through 6"
    ):
        house.planner(columns_at=2)
    # A program that called load() once, and begins a query now and then, has named no segment.
    with pytest.raises(
        WrongOption, match=r"columns of segment 2, which .* doesn't have; call load\(\) again"
    ):
        house.planner(loaded=2)


def test_the_journal_keeps_segments_for_a_stream_that_has_a_name(house: House) -> None:
    house.seal(5)
    consumers = house.history.store.consumers
    # What an earlier stream of that name has told counts until the first micro-batch.
    consumers.record_progress("mine", 4)
    planner = house.planner(consumer="mine", begins=StreamBegin.LATEST)
    begin = planner.begin()
    assert consumers.all()["mine"].segment == 4
    planner.tasks(begin, planner.end(begin, NO_LIMIT))
    assert consumers.all()["mine"].segment == 5
    planner = house.planner(consumer="mine")
    begin = planner.begin()
    assert consumers.all()["mine"].segment == 0
    house.remove_through(4)
    assert consumers.first() == 1
    end = planner.end(begin, MicroBatchLimit(rows=4))
    planner.committed(end)
    assert consumers.all()["mine"].segment == 2
    house.remove_through(4)
    assert consumers.first() == 2, "the consumer's own segment stays"
    # A restart may be behind what it has told: it tells again where it is before anything is planned.
    consumers.record_progress("mine", 5)
    house.planner(consumer="mine").end(house.at(2), NO_LIMIT)
    assert consumers.all()["mine"].segment == 2
    house.planner().committed(end)
    assert set(consumers.all()) == {"mine"}


def test_a_checkpoint_of_another_journal_is_refused(house: House) -> None:
    house.seal()
    with pytest.raises(WrongOffset, match="is of the journal other"):
        house.planner().end(SegmentOffset("other", 0), NO_LIMIT)


def test_what_is_not_there_is_named_at_once(house: House, tmp_path: Path) -> None:
    with pytest.raises(WrongOption, match="has no segment yet"):
        load_columns(house.history.store, house.options)
    house.seal()
    unknown = replace(house.options, tables=(TableId("shop", "order"),))
    with pytest.raises(WrongOption, match=r"did you mean shop.orders\?"):
        load_columns(house.history.store, unknown)
    with pytest.raises(Definite, match="holds no journal"):
        SegmentPlanner(replace(house.options, journal=str(tmp_path)), pa.schema([]), None)
    with pytest.raises(WrongOption, match=r"shop.orders has no column 'notes'"):
        SegmentPlanner(house.options, pa.schema([("notes", pa.string())]), None)
