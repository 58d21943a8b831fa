"""The rows of a segment, with the chunks of first snapshots at their places among the changes."""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from actors.journal.store import JournalStore
from actors.kafka import segment_rows
from actors.kafka.batches import MessageBatches
from actors.kafka.segment_rows import SegmentRows
from pipeline.config.column_protection import UNPROTECTED
from pipeline.config.settings import KafkaSinkSettings
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.journal import segment as journal
from pipeline.journal.entry import Entry
from pipeline.kafka import rows_in_step
from pipeline.kafka.errors import KafkaRefused
from pipeline.kafka.portions import Capacity, Portion, statements_of
from pipeline.kafka.rows_in_step import Sharing, TableRows, all_in_step, unplaced_tables
from pipeline.kafka.state import AllTopicsBut
from pipeline.messages.journal import Append, ChangePart, ChunkPart, StatementPart
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_schema import Column, TableId
from pipeline.snapshot.checkpoint import Checkpoint
from pipeline.snapshot.snapshot import ChunkId
from pipeline.types.column_types import Integer
from tests.actors.segments import ITEMS, part, position

ORDERS = replace(ITEMS, table=TableId("shop", "orders"))
HIGH = Coordinates("binlog.000001", 4)


def chunk(number: int, scn: int, *, first: bool = True) -> ChunkPart:
    """Ten rows, as the n-th append has them."""
    rows = part(number, 0, 10).changes.rows
    return ChunkPart(ChunkId("s", ITEMS.table, number), ITEMS, rows, position(0), HIGH, scn, first=first)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JournalStore]:
    with closing(JournalStore.open_single_writer(tmp_path / "journal", "test")) as opened:
        opened.recover()
        yield opened


@pytest.fixture
def entry(store: JournalStore) -> Entry:
    """Ten changes with the SCN 1, a chunk with 2, ten changes with 3, a chunk with 4, a later snapshot's with 5."""
    parts = (
        replace(part(0, 0, 10), first_scn=1),
        chunk(1, 2),
        replace(part(2, 0, 10), first_scn=3),
        chunk(3, 4),
        chunk(4, 5, first=False),
    )
    sealed = Append(parts, Checkpoint(position(0), scn=5, schemas={ITEMS.table: ITEMS}))
    files = store.write(1, journal.segment_tables(1, journal.parts_of_appends([sealed]), (), UNPROTECTED))
    store.publish(journal.seal(1, [sealed], files, None, 0, UNPROTECTED))
    return store.entry(1)


def read(rows: SegmentRows, entry: Entry, portion: Portion, skip: int = 0) -> list[tuple[str, int, int]]:
    """Of each row its operation, SCN and id."""
    return [
        row
        for (each,) in rows.rows(entry, portion, str, skip)
        for row in zip(*(each.rows.column(name).to_pylist() for name in ("__op", "__scn", "id")), strict=True)
    ]


ALL = [
    *(("c", 1, i) for i in range(10)),
    *(("r", 2, i) for i in range(10, 20)),
    *(("c", 3, i) for i in range(20, 30)),
    *(("r", 4, i) for i in range(30, 40)),
    *(("r", 5, i) for i in range(40, 50)),
]


@pytest.mark.parametrize("together", [3, 20_000])
def test_rows_come_in_the_order_of_the_stream(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together)
    rows = SegmentRows(store)
    (whole,) = rows.plan(entry, 0, Capacity(1000), split=False)
    assert whole == Portion(1, 5, 50, sum(file.bytes for file in entry.files))
    assert read(rows, entry, whole) == ALL
    assert read(rows, entry, whole, skip=13) == ALL[13:]


@pytest.mark.parametrize("together", [3, 20_000])
def test_tables_that_may_share_a_topic_are_read_in_step(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together)
    parts = [
        part(number, begin, end, schema)
        for number in range(3)
        for begin, end, schema in ((0, 4, ITEMS), (4, 6, ORDERS), (6, 10, ITEMS if number else ORDERS))
    ]
    checkpoint = Checkpoint(position(3), scn=40, schemas={each.table: each for each in (ITEMS, ORDERS)})
    sealed = Append(tuple(parts), checkpoint)
    files = store.write(1, journal.segment_tables(1, journal.parts_of_appends([sealed]), (), UNPROTECTED))
    store.publish(journal.seal(1, [sealed], files, None, 0, UNPROTECTED))
    entry = store.entry(1)
    in_step = list(SegmentRows(store).rows(entry, Portion(1, 40, 30), lambda _: "both"))
    read = [[place for each in parts for place in places(each)] for parts in in_step]
    assert all(max(some) < min(others) for some, others in itertools.pairwise(read))
    assert max(len({each.schema.table for each in parts}) for parts in in_step) == 2
    all_rows = list(itertools.chain.from_iterable(read))
    assert sorted(all_rows) == [(10 * number + 1, row) for number in range(3) for row in range(10)]
    for skip in (1, 9, 17):
        left = SegmentRows(store).rows(entry, Portion(1, 40, 30), lambda _: "both", skip)
        after = [place for parts in left for each in parts for place in places(each)]
        assert sorted(after) == sorted(all_rows)[skip:]
    apart = SegmentRows(store).rows(entry, Portion(1, 40, 30), str)
    assert all(len(parts) == 1 for parts in apart)


@pytest.mark.parametrize("together", [(2, 2), (2, 5), (5, 3)])
def test_a_number_of_rows_in_step_means_the_same_rows_however_many_are_read_at_once(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch, together: tuple[int, int]
) -> None:
    """Also another version's number, which reads another number of rows at once."""
    parts = [
        part(0, begin, begin + 2, schema)
        for begin, schema in ((0, ITEMS), (2, ORDERS), (4, ITEMS), (6, ORDERS), (8, ORDERS))
    ]
    checkpoint = Checkpoint(position(1), scn=1, schemas={each.table: each for each in (ITEMS, ORDERS)})
    sealed = Append(tuple(parts), checkpoint)
    store.publish(
        journal.seal(
            1,
            [sealed],
            store.write(1, journal.segment_tables(1, journal.parts_of_appends([sealed]), (), UNPROTECTED)),
            None,
            0,
            UNPROTECTED,
        )
    )
    entry, portion = store.entry(1), Portion(1, 1, 10)
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together[0])
    first = ids(next(SegmentRows(store).rows(entry, portion, all_in_step)))
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together[1])
    rest = SegmentRows(store).rows(entry, portion, all_in_step, len(first))
    assert sorted(first + [row for parts in rest for row in ids(parts)]) == list(range(10))


@pytest.mark.parametrize("together", [2, 20_000])
@pytest.mark.parametrize("sharing", [str, all_in_step])
def test_a_table_whose_columns_are_again_what_they_were_has_its_rows_in_order(
    store: JournalStore, monkeypatch: pytest.MonkeyPatch, together: int, sharing: Sharing
) -> None:
    """The file of the first columns has rows from before and after those of the second."""
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together)
    wider = replace(ITEMS, columns=(Column("id", Integer(8, unsigned=True), nullable=False),))
    parts = [part(n, 0, 3, wider if n % 2 else ITEMS) for n in range(5)]
    sealed = Append(tuple(parts), Checkpoint(position(5), scn=50, schemas={ITEMS.table: ITEMS}))
    files = store.write(1, journal.segment_tables(1, journal.parts_of_appends([sealed]), (), UNPROTECTED))
    store.publish(journal.seal(1, [sealed], files, None, 0, UNPROTECTED))
    entry, rows = store.entry(1), SegmentRows(store)
    assert len(entry.files) == 2
    portions = rows.plan(entry, 0, Capacity(6), split=False)
    assert len(portions) == 3
    for order in (portions, [Portion(1, 50, 15)]):
        read = [row for portion in order for each in rows.rows(entry, portion, sharing) for row in ids(each)]
        assert read == [10 * n + i for n in range(5) for i in range(3)]


@dataclass(frozen=True)
class Content:
    """A part of a segment: changes ("c"), a chunk of a first snapshot ("f") or of a later one ("r")."""

    kind: str
    version: int
    rows: int = 3

    def part(self, number: int) -> ChangePart | ChunkPart:
        """The n-th one of the segment."""
        schema = VERSIONS[self.version]
        changes = part(number, 0, self.rows, schema)
        if self.kind == "c":
            return changes
        first, scn = self.kind == "f", changes.first_scn
        rows, of = changes.changes.rows, ChunkId("s", schema.table, number)
        return ChunkPart(of, schema, rows, position(0), HIGH, scn, first=first)

    def expected(self, number: int) -> list[tuple[str, int, int]]:
        """What its rows are as messages."""
        op = "c" if self.kind == "c" else "r"
        return [(op, 10 * number + 1, 10 * number + i) for i in range(self.rows)]


VERSIONS = [
    replace(ITEMS, columns=(Column("id", type_, nullable=False),))
    for type_ in (Integer(8, unsigned=False), Integer(8, unsigned=True), Integer(4, unsigned=False))
]
contents = st.builds(Content, st.sampled_from("cfr"), st.integers(0, 2), st.integers(0, 4))


def sealed_with_early_files(
    store: JournalStore, of: Sequence[Content], early: Collection[tuple[int, str]], at: int
) -> Entry:
    """The next segment. Before its part `at` came, the files of these versions and kinds were written."""
    segment = store.last_segment() + 1
    parts = [each.part(number) for number, each in enumerate(of)]
    ahead = [number for number in range(at) if (of[number].version, of[number].kind) in early]
    files = store.write(
        segment, journal.segment_tables(segment, [parts[number] for number in ahead], (), UNPROTECTED)
    )
    rest = [part for number, part in enumerate(parts) if number not in ahead]
    files += store.write(segment, journal.segment_tables(segment, rest, (), UNPROTECTED), len(files))
    sealed = Append(tuple(parts), Checkpoint(position(0), scn=100, schemas={ITEMS.table: ITEMS}))
    store.publish(journal.seal(segment, [sealed], files, None, 0, UNPROTECTED))
    return store.entry(segment)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(contents.filter(lambda each: each.rows > 0 or each.kind != "c"), min_size=1, max_size=8),
    st.sets(st.tuples(st.integers(0, 2), st.sampled_from("cfr"))),
    st.integers(0, 8),
    st.sampled_from([2, 20_000]),
)
@example([Content("f", 0), Content("c", 1), Content("f", 1)], {(1, "f")}, 3, 20_000)
@example([Content("f", 0), Content("c", 1), Content("f", 1), Content("c", 0), Content("f", 0)], set(), 0, 2)
def test_chunks_of_several_versions_come_at_their_places(
    store: JournalStore, of: list[Content], early: set[tuple[int, str]], at: int, together: int
) -> None:
    """Their files are in any order, since one that gets many rows is written before the others."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together)
        entry = sealed_with_early_files(store, of, early, min(at, len(of)))
        rows = SegmentRows(store)
        expected = [row for number, each in enumerate(of) for row in each.expected(number)]
        assert read(rows, entry, Portion(1, 100, len(expected))) == expected
        assert unplaced_tables(entry) == frozenset()
        in_turn = rows.plan(entry, 0, Capacity(1), split=False)
        assert [row for portion in in_turn for row in read(rows, entry, portion)] == expected


@pytest.mark.parametrize(
    ("of", "unplaced"),
    [
        ([Content("f", 0), Content("c", 1), Content("f", 0)], False),
        ([Content("f", 0), Content("f", 1), Content("f", 0)], False),
        ([Content("f", 0), Content("c", 1), Content("f", 1)], True),
    ],
)
def test_an_entry_of_an_earlier_version_does_not_say_which_file_has_a_chunk(
    store: JournalStore, of: list[Content], unplaced: bool
) -> None:
    written = sealed_with_early_files(store, of, (), 0)
    entry = replace(written, chunks=tuple(replace(each, version=None) for each in written.chunks))
    assert unplaced_tables(entry) == (frozenset({ITEMS.table}) if unplaced else frozenset())
    found = read(SegmentRows(store), entry, Portion(1, 100, 9))
    if len({each.version for each in of if each.kind == "f"}) == 1:
        assert found == [row for number, each in enumerate(of) for row in each.expected(number)]
    assert sorted(id_ for *_, id_ in found) == [10 * n + i for n in range(3) for i in range(3)]


def test_a_run_that_was_begun_in_another_order_is_read_again(store: JournalStore, entry: Entry) -> None:
    rows = SegmentRows(store)
    begun = rows.rows(entry, Portion(1, 5, 50), str)
    assert rows.rows(entry, Portion(1, 5, 50), str) is begun
    assert rows.rows(entry, Portion(1, 5, 50), all_in_step) is not begun


def places(of: TableRows) -> list[tuple[int, int]]:
    return list(zip(*(of.rows.column(name).to_pylist() for name in ("__scn", "__ordinal")), strict=True))


@pytest.mark.parametrize("most", [1, 10, 20, 30])
def test_the_runs_of_a_segment_have_all_of_it(store: JournalStore, entry: Entry, most: int) -> None:
    rows = SegmentRows(store)
    portions = rows.plan(entry, 0, Capacity(most), split=False)
    assert [row for portion in portions for row in read(rows, entry, portion)] == ALL
    assert rows.plan(entry, 2, Capacity(most), split=False) == tuple(
        portion for portion in rows.plan(entry, 2, Capacity(most), split=False) if portion.first_scn > 2
    )
    assert replace(rows.plan(entry, 2, Capacity(1000), split=True)[0], bytes=0) == Portion(3, 3, 10)


@pytest.mark.parametrize("together", [3, 20_000])
def test_plannedin_their_order_read_the_files_once_and_any_other_portion_is_read_again(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together)
    rows = SegmentRows(store)
    portions = rows.plan(entry, 0, Capacity(10), split=False)
    opened = counted_openings(store, monkeypatch)
    once = [row for portion in portions for row in read(rows, entry, portion)]
    assert once == ALL
    # A file that has rows of first chunks among changes is opened to tell them apart as well.
    read(SegmentRows(store), entry, Portion(1, 5, 50))
    assert len(opened) % 2 == 0 and opened[len(opened) // 2 :] == opened[: len(opened) // 2]
    # The last portion again, one from before, and one that was left half way.
    assert read(rows, entry, portions[-1]) == [row for row in ALL if row[1] == portions[-1].last_scn]
    assert read(rows, entry, portions[0]) == ALL[:10]
    next(rows.rows(entry, Portion(3, 4, 20), str))
    assert read(rows, entry, portions[-1]) == ALL[-10:]
    assert read(rows, entry, Portion(3, 4, 20)) == ALL[20:40]


@pytest.mark.parametrize("together", [3, 20_000])
def test_a_run_that_is_read_in_parts_reads_the_files_once(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", together)
    whole = Portion(1, 5, 50)
    expected = [ids(parts) for parts in SegmentRows(store).rows(entry, whole, str)]
    opened = counted_openings(store, monkeypatch)
    rows, sent, read = SegmentRows(store), list[list[int]](), 0
    while read < 50:
        part = rows.rows(entry, Portion(1, 5, 50), str, read)
        sent.append(ids(next(part)))
        read += len(sent[-1])
        if (following := next(part, None)) is not None:
            part.put_back(following)
    assert sent == expected
    once = len(opened)
    assert list(SegmentRows(store).rows(entry, whole, str)) and len(opened) == 2 * once


def test_a_run_is_read_again_where_another_place_or_a_failure_is_between(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", 3)
    rows, whole = SegmentRows(store), Portion(1, 5, 50)
    first = ids(next(rows.rows(entry, whole, str)))
    assert read(rows, entry, whole) == ALL
    part = rows.rows(entry, whole, str)
    assert ids(next(part)) == first
    with monkeypatch.context() as broken:
        broken.setattr(rows_in_step, "_end", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            next(part)
    assert read(rows, entry, whole, skip=len(first)) == ALL[len(first) :]


def test_each_batch_that_a_call_reads_is_a_sign_that_it_advances(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may read a whole segment: to skip rows, to plan portions, and to count a transaction's messages."""
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", 3)
    monkeypatch.setattr(segment_rows, "_NARROW", 3)
    signs = list[None]()
    rows, whole = SegmentRows(store, lambda: signs.append(None)), Portion(1, 5, 50)
    counted = MessageBatches(KafkaSinkSettings(("k:1",), "p")).counted_for(AllTopicsBut(frozenset()))
    calls: tuple[Callable[[], object], ...] = (
        lambda: next(rows.rows(entry, whole, str, 49)),
        lambda: rows.plan(entry, 0, Capacity(1), split=False),
        lambda: rows.changed(entry, whole, counted),
    )
    for call in calls:
        signs.clear()
        call()
        assert len(signs) >= 10


def ids(parts: Sequence[TableRows]) -> list[int]:
    return [id_ for each in parts for id_ in each.rows.column("id").to_pylist()]


def counted_openings(store: JournalStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are opened from now on."""
    opened: list[str] = []
    file = store.file

    def counted(segment: int, path: str) -> str:
        opened.append(path)
        return file(segment, path)

    monkeypatch.setattr(store, "file", counted)
    return opened


def test_a_batch_of_many_bytes_comes_in_pieces(
    store: JournalStore, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_in_step, "_MOST_BYTES", 1000)
    parts = list(SegmentRows(store).rows(entry, Portion(1, 1, 10), str))
    assert len(parts) > 1 and all(part.rows.nbytes <= 1000 for (part,) in parts)
    assert [id_ for each in parts for id_ in ids(each)] == list(range(10))


def test_chunks_that_are_not_told_are_no_guess(store: JournalStore, entry: Entry) -> None:
    with pytest.raises(InvariantBroken, match="names others"):
        read(SegmentRows(store), replace(entry, chunks=entry.chunks[:1]), Portion(1, 5, 50))


def test_rows_without_all_of_their_columns_are_refused(store: JournalStore, entry: Entry) -> None:
    (rows,) = next(SegmentRows(store).rows(entry, Portion(1, 1, 10), str))
    place = rows.rows.schema.names.index("__absent")
    absent = pa.array([["id"]] * rows.rows.num_rows, rows.rows.schema.field("__absent").type)
    lacking = replace(rows, rows=rows.rows.set_column(place, "__absent", absent))
    making = MessageBatches(KafkaSinkSettings(("k:1",), "p"))
    assert len(making.messages(making.rows(rows), 1).values) == 10
    with pytest.raises(KafkaRefused, match=r"shop\.items has rows without id"):
        making.messages(making.rows(lacking), 1)


def test_statements_are_rows_of_their_places(store: JournalStore, entry: Entry) -> None:
    told = SchemaStatement(SchemaObject.DATABASE, "shop", (), (), "DROP DATABASE shop")
    statements = tuple(StatementPart(scn, None, 0, None, 0, told) for scn in (1, 3, 6, 6))
    entry = replace(entry, statements=statements, last_scn=6)
    rows = SegmentRows(store)
    (whole,) = rows.plan(entry, 0, Capacity(1000), split=False)
    assert whole.rows == 54
    assert whole.bytes == sum(file.bytes for file in entry.files) + 4 * len(told.text)
    planned = rows.plan(entry, 0, Capacity(11), split=False)
    assert [(portion.first_scn, portion.last_scn, portion.rows) for portion in planned] == [
        (1, 1, 11), (2, 2, 10), (3, 3, 11), (4, 4, 10), (5, 5, 10), (6, 6, 2),
    ]  # fmt: skip
    assert [len(statements_of(entry, portion)) for portion in planned] == [1, 0, 1, 0, 0, 2]
    assert read(rows, entry, planned[-1]) == []
    alone = replace(entry, files=(), chunks=())
    assert [portion.rows for portion in rows.plan(alone, 0, Capacity(1000), split=False)] == [4]
    assert [portion.rows for portion in rows.plan(alone, 3, Capacity(1000), split=False)] == [2]


def test_what_a_verification_read_is_for_no_topic(store: JournalStore) -> None:
    parts = (
        chunk(1, 2),
        replace(chunk(2, 3, first=False), verifies=True),
        replace(part(2, 0, 10), first_scn=4),
    )
    sealed = Append(parts, Checkpoint(position(0), scn=4, schemas={ITEMS.table: ITEMS}))
    files = store.write(1, journal.segment_tables(1, journal.parts_of_appends([sealed]), (), UNPROTECTED))
    store.publish(journal.seal(1, [sealed], files, None, 0, UNPROTECTED))
    entry, rows = store.entry(1), SegmentRows(store)
    assert len(entry.files) == 3
    (whole,) = rows.plan(entry, 0, Capacity(1000), split=False)
    assert whole.rows == 20
    assert [row[:2] for row in read(rows, entry, whole)] == [("r", 2)] * 10 + [("c", 4)] * 10
    assert [portion.rows for portion in rows.plan(entry, 0, Capacity(10), split=False)] == [10, 10]
