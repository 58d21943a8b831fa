"""The changes that count come from all files of a changelog, whatever names and types its columns had then."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from actors.lake.files import gathered_changes
from actors.lake.files.gathered_changes import gather_changes
from actors.lake.files.mirror_files import ListedFile
from pipeline.journal.change_rows import META
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.mirrors.counted_changes import CountedChanges
from pipeline.lake.tables.spark_sql import spark_type
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text

SCHEMA = TableSchema(
    TableId("shop", "orders"),
    (Column("id", Integer(8, unsigned=False), False), Column("note", Text("utf8mb4"), True)),
    (0,),
)
# The note has a name of its own in the files, as a renamed column has.
STORED = {
    **{field.name: Stored(field.name, spark_type(field.type)) for field in META},
    "id": Stored("id", "BIGINT"),
    "note": Stored("col-7", "STRING"),
}
PENDING = CountedChanges(MirrorPosition(0, 3), through=5)


def written(
    folder: Path, segment: int, *ids: int, hidden: tuple[int, ...] = (), **columns: pa.Array
) -> ListedFile:
    """A file of a segment with an update for each id, and what a log has of it."""
    said = {
        "__op": pa.array(["u"] * len(ids)),
        "__scn": pa.array([segment * 10] * len(ids), pa.int64()),
        "__ordinal": pa.array(range(len(ids)), pa.int32()),
        "__segment": pa.array([segment] * len(ids), pa.int64()),
    }
    described = [said.get(field.name, pa.nulls(len(ids), field.type)) for field in META]
    own = columns or {"id": pa.array(ids, pa.int64())}
    name = f"{segment}.parquet"
    pq.write_table(pa.table([*described, *own.values()], [*META.names, *own]), folder / name)
    statistics = {
        "minValues": {"__segment": segment},
        "maxValues": {"__segment": segment, "__scn": segment * 10},
    }
    return {"path": name, "stats": json.dumps(statistics)}, BitMap64(hidden)


def gathered(
    folder: Path, *files: ListedFile, counted: CountedChanges = PENDING
) -> list[tuple[int, str | None]]:
    out = folder / "gathered"
    (keys,) = gather_changes(str(folder), files, STORED, SCHEMA, counted, str(out), lambda: None)
    found = pq.read_table(out)
    found = found.rename_columns([*META.names, "id", "note"])
    assert keys.to_pylist() == found["id"].to_pylist()
    return list(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))


def test_changes_come_from_the_files_that_have_any(tmp_path: Path) -> None:
    renamed = {"id": pa.array([5], pa.int32()), "col-7": pa.array(["x"])}
    files = [written(tmp_path, 3, 1, 2), written(tmp_path, 4, 3, 4), written(tmp_path, 5, 5, **renamed)]
    (tmp_path / "3.parquet").unlink()  # it isn't opened
    assert gathered(tmp_path, *files) == [(3, None), (4, None), (5, "x")]
    after = CountedChanges(MirrorPosition(0, 5), since=40)
    assert gathered(tmp_path, *files, counted=after) == [(5, "x")]


def test_a_change_that_a_vector_hides_is_none(tmp_path: Path) -> None:
    assert gathered(tmp_path, written(tmp_path, 4, 1, 2, 3, hidden=(1,))) == [(1, None), (3, None)]


def test_no_change_is_no_key(tmp_path: Path) -> None:
    assert gathered(tmp_path, written(tmp_path, 6, 1)) == []


def test_what_only_spark_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReadBySparkOnly, match="values of string"):
        gathered(tmp_path, written(tmp_path, 4, 1, id=pa.array(["1"])))
    monkeypatch.setattr(gathered_changes, "MOST_CHANGED_BYTES", 2 * (64 + 8))
    assert len(gathered(tmp_path, written(tmp_path, 4, 1, 2))) == 2
    with pytest.raises(ReadBySparkOnly, match="too many"):
        gathered(tmp_path, written(tmp_path, 4, 1, 2, 3))


def test_it_can_be_broken_off_between_two_files(tmp_path: Path) -> None:
    def ended() -> None:
        raise ConnectionError("the JVM has ended")

    file, out = written(tmp_path, 4, 1), str(tmp_path / "out")
    with pytest.raises(ConnectionError):
        gather_changes(str(tmp_path), [file], STORED, SCHEMA, PENDING, out, ended)


def test_changes_of_many_bytes_are_left_to_spark_and_never_all_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that repeats is in the file once: 40 KB of it have 800 MB of values."""
    text, count = "x" * 20_000, 40_000
    file = written(
        tmp_path, 4, *range(count), id=pa.array(range(count)), **{"col-7": pa.array([text] * count)}
    )
    assert (tmp_path / "4.parquet").stat().st_size < 1 << 20
    monkeypatch.setattr(gathered_changes, "MOST_GATHERED_BYTES", 64 << 20)
    before = pa.total_allocated_bytes()
    taken: list[int] = []
    rows = gathered_changes._counted_rows

    def measured(*arguments: Any) -> pa.RecordBatch:
        taken.append(pa.total_allocated_bytes() - before)
        return rows(*arguments)

    monkeypatch.setattr(gathered_changes, "_counted_rows", measured)
    with pytest.raises(ReadBySparkOnly, match="too many"):
        gathered(tmp_path, file)
    assert max(taken) < 128 << 20


def test_a_column_that_became_narrower_keeps_the_type_of_the_changelog(tmp_path: Path) -> None:
    narrow = replace(SCHEMA, columns=(SCHEMA.columns[0], Column("n", Integer(2, unsigned=False), True)))
    stored = {**STORED, "n": Stored("n", "bigint")}
    wide = written(tmp_path, 4, 1, id=pa.array([1]), n=pa.array([1 << 40]))
    out = str(tmp_path / "out")
    gather_changes(str(tmp_path), [wide], stored, narrow, PENDING, out, lambda: None)
    assert pq.read_table(out).columns[-1].to_pylist() == [1 << 40]
    assert gathered_changes.gathered_columns(narrow, stored).field("n").type == pa.int64()
