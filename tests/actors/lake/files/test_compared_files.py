"""Rows of files are summed or written, whatever pieces they are read in, and those that are hidden are neither."""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from actors.lake.files import compared_files, mirror_files
from actors.lake.files.compared_files import Side, divide_rows, plain_columns
from actors.lake.threads.thread_priorities import NICE
from pipeline.journal.change_rows import META
from pipeline.lake.files.parquet_files import Stored, numbered
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.verification.row_sums import RowHasher, RowSums
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.buffers import Flags, Longs
from pipeline.types.column_types import Integer, Text, Timestamp

INT = Integer(8, unsigned=False)
TABLE = TableSchema(
    TableId("shop", "few"), (Column("id", INT, False), Column("note", Text("utf8mb4"), True)), (0,)
)
COLUMNS = plain_columns(list(TABLE.arrow))


def rows(numbers: Iterable[int]) -> pa.Table:
    found = list(numbers)
    return pa.table({"id": pa.array(found, pa.int64()), "note": pa.array(map(str, found), pa.string())})


def sums(numbers: Iterable[int]) -> RowSums:
    return RowHasher(TABLE, [pa.array([], pa.int64())]).sum(
        rows(numbers).combine_chunks().to_batches()[0].columns, None
    )[0]


def changed(*keys: int) -> RowHasher:
    return RowHasher(TABLE, [pa.array(keys, pa.int64())])


def never() -> None:
    """Breaks nothing off."""


def mirror(
    folder: Path, *hidden: Sequence[int], columns: Sequence[mirror_files.FileColumn] = COLUMNS
) -> Side:
    """The side of all files in a folder, with these hidden places in the first ones."""
    names = sorted(path.name for path in folder.glob("*.parquet"))
    gone = [BitMap64(places) for places in hidden] + [BitMap64()] * (len(names) - len(hidden))
    files = [({"path": name}, places) for name, places in zip(names, gone, strict=True)]
    return Side(str(folder), files, columns, str(folder / "out"))


def test_each_row_is_summed_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_files, "_WHOLE_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(compared_files, "_WAITING_BYTES", 40)
    pq.write_table(rows(range(100)), tmp_path / "1.parquet", row_group_size=30)
    pq.write_table(rows(range(100, 110)), tmp_path / "2.parquet")
    side = mirror(tmp_path, [0, 6, 7, 29, 30, 99], [9])
    (found,) = divide_rows(changed(1, 7, 31, 105, 109, 500), TABLE.arrow, [side], never)
    gone, few = {0, 6, 7, 29, 30, 99, 109}, {1, 31, 105}
    assert found == sums(number for number in range(110) if number not in gone | few)
    assert sorted(pq.read_table(side.out)["c0"].to_pylist()) == sorted(few)
    assert pq.read_table(side.out).schema.equals(numbered(TABLE.arrow))
    assert pq.read_metadata(side.out).num_row_groups > 1, "not all of them wait"


def test_only_rows_of_the_verification_are_read_and_written_with_their_scn(tmp_path: Path) -> None:
    own = rows(range(6))
    runs = pa.array(["v", "w", "v", "v", None, "v"])
    described = {field.name: pa.nulls(6, field.type) for field in META} | {
        "__chunk": runs,
        "__scn": pa.array(range(6)),
    }
    whole = pa.table({**described, **{name: own[name] for name in own.column_names}})
    pq.write_table(whole, tmp_path / "1.parquet")
    files = [({"path": "1.parquet"}, BitMap64())]
    sides = [Side(str(tmp_path), files, COLUMNS, str(tmp_path / run), run) for run in ("v", "w")]
    assert divide_rows(changed(1, 3), TABLE.arrow, sides, never) == [sums([0, 2, 5]), RowSums()]
    assert pq.read_table(sides[0].out).to_pylist() == [{"c0": 3, "c1": 3, "c2": "3"}]
    assert pq.read_table(sides[1].out)["c0"].to_pylist() == [1]


def test_a_side_without_files_has_no_rows(tmp_path: Path) -> None:
    side = mirror(tmp_path)
    assert divide_rows(changed(), TABLE.arrow, [side], never) == [RowSums()]
    assert pq.read_table(side.out).num_rows == 0


def test_columns_have_other_names_and_types_in_old_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": pa.array([1, 2], pa.int8()), "other": ["x", "y"]}), tmp_path / "1.parquet")
    side = mirror(tmp_path, columns=[(Stored("id", ""), pa.int64()), (Stored("col-7", ""), pa.string())])
    first = [pa.array([1], pa.int64()), pa.nulls(1, pa.string())]
    assert divide_rows(changed(2), TABLE.arrow, [side], never) == [changed().sum(first, None)[0]]
    assert pq.read_table(side.out).to_pylist() == [{"c0": 2, "c1": None}]


def test_moments_that_spark_has_written_in_its_own_form_are_the_same(tmp_path: Path) -> None:
    """With nanoseconds, as pyarrow reads them by itself, the year 1 is another one."""
    moments = pa.array([-62_135_596_800_000_001, 0, None, 253_402_300_799_999_999], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": moments}), tmp_path / "1.parquet", use_deprecated_int96_timestamps=True)
    schema = TableSchema(TableId("shop", "few"), (Column("at", Timestamp(6), True),), (0,))
    hasher = RowHasher(schema, [moments.slice(1, 2)])
    side = mirror(tmp_path, columns=plain_columns(list(schema.arrow)))
    assert divide_rows(hasher, schema.arrow, [side], never) == [
        hasher.sum([moments.take(pa.array([0, 3]))], None)[0]
    ]
    assert pq.read_table(side.out)["c0"].to_pylist() == moments.slice(1, 2).to_pylist()


def test_what_only_spark_reads_ends_all_of_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["1"], "note": ["x"]}), tmp_path / "1.parquet")
    with pytest.raises(ReadBySparkOnly, match="values of string where its table has int64"):
        divide_rows(changed(), TABLE.arrow, [mirror(tmp_path)], never)


def test_dates_of_the_julian_calendar_are_left_to_spark(tmp_path: Path) -> None:
    old = rows([1]).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(old, tmp_path / "1.parquet")
    with pytest.raises(ReadBySparkOnly, match="Julian"):
        divide_rows(changed(), TABLE.arrow, [mirror(tmp_path)], never)


@pytest.mark.parametrize("coded", [False, True], ids=["as they are", "by a dictionary"])
def test_large_rows_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coded: bool) -> None:
    """A file has a text once that repeats."""
    monkeypatch.setattr(mirror_files, "_BYTES_AT_ONCE", 1 << 10)
    notes = pa.array([*"xyz", *["x" * 600] * 5, None], pa.string())
    pq.write_table(pa.table({"id": range(9), "note": notes}), tmp_path / "1.parquet", use_dictionary=coded)
    pieces = list(mirror_files.MirrorFiles(str(tmp_path)).batches({"path": "1.parquet"}, COLUMNS))
    assert max(len(values[0]) for _, values in pieces) <= 3
    assert [text for _, values in pieces for text in values[1].to_pylist()] == notes.to_pylist()


@pytest.mark.parametrize("name", ["a.b", "a"], ids=["under a name with a dot", "in a struct"])
def test_large_texts_that_repeat_are_read_one_by_one_wherever_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Another column's name begins like that of the texts."""
    monkeypatch.setattr(mirror_files, "_BYTES_AT_ONCE", 1 << 10)
    texts: pa.Array = pa.array([b"x", b"y", *[b"x" * 600] * 50, None], pa.binary())
    if name == "a":
        texts = pa.StructArray.from_arrays([pa.array(range(len(texts))), texts], names=["srid", "wkb"])
    table = pa.table({name: texts, f"{name}.c": range(len(texts))})
    pq.write_table(table, tmp_path / "1.parquet")
    columns = plain_columns(list(table.schema))
    pieces = list(mirror_files.MirrorFiles(str(tmp_path)).batches({"path": "1.parquet"}, columns))
    assert max(len(values[0]) for _, values in pieces) == 1
    assert [text for _, values in pieces for text in values[0].to_pylist()] == texts.to_pylist()


def test_rows_of_long_lists_are_read_a_few_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_files, "_BYTES_AT_ONCE", 1 << 10)
    zeros = pa.array([[0.0] * 30] * 40, pa.list_(pa.float32()))
    pq.write_table(pa.table({"v": zeros}), tmp_path / "1.parquet")
    column = [(Stored("v", ""), zeros.type)]
    pieces = list(mirror_files.MirrorFiles(str(tmp_path)).batches({"path": "1.parquet"}, column))
    assert {len(values[0]) for _, values in pieces} == {2}


def test_the_threads_give_way(tmp_path: Path) -> None:
    nices = []

    class Observed(RowHasher):
        def sum(self, columns: Sequence[pa.Array], shown: Flags | None) -> tuple[RowSums, Longs]:
            nices.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super().sum(columns, shown)

    pq.write_table(rows([1]), tmp_path / "1.parquet")
    divide_rows(Observed(TABLE, [pa.array([], pa.int64())]), TABLE.arrow, [mirror(tmp_path)], never)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert nices == [max(NICE, own)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == own


def test_it_is_broken_off_between_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_files, "_WHOLE_ROWS_AT_ONCE", 1)
    monkeypatch.setattr(compared_files, "_LOOK_EVERY_S", 0.01)
    read: list[int] = []
    ended = threading.Event()

    class Slow(RowHasher):
        def sum(self, columns: Sequence[pa.Array], shown: Flags | None) -> tuple[RowSums, Longs]:
            ended.wait()
            read.append(len(columns[0]))
            return super().sum(columns, shown)

    def gone() -> None:
        ended.set()
        raise ConnectionError("Spark's JVM has ended")

    for name in range(5):
        pq.write_table(rows(range(1000)), tmp_path / f"{name}.parquet")
    with pytest.raises(ConnectionError):
        divide_rows(Slow(TABLE, [pa.array([], pa.int64())]), TABLE.arrow, [mirror(tmp_path)], gone)
    assert len(read) < 1000, "and none of the other files is begun"


def test_a_file_that_fails_ends_all_of_it(tmp_path: Path) -> None:
    pq.write_table(rows(range(1000)), tmp_path / "1.parquet")
    side = mirror(tmp_path)
    lost = replace(side, files=[*side.files, ({"path": "gone.parquet"}, BitMap64())])
    with pytest.raises(FileNotFoundError):
        divide_rows(changed(), TABLE.arrow, [lost], never)
