"""The changes that count come from all files of a changelog, whatever names and types its columns had then."""

import json
from pathlib import Path

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
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text

SCHEMA = TableSchema(
    TableId("shop", "orders"),
    (Column("id", Integer(8, unsigned=False), False), Column("note", Text("utf8mb4"), True)),
    (0,),
)
# The note has a name of its own in the files, as a renamed column has.
STORED = {name: Stored(name, "") for name in (*META.names, "id")} | {"note": Stored("col-7", "")}
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
    size = (folder / name).stat().st_size
    return {"path": name, "size": size, "stats": json.dumps(statistics)}, BitMap64(hidden)


def gathered(
    folder: Path, *files: ListedFile, counted: CountedChanges = PENDING
) -> list[tuple[int, str | None]]:
    out = folder / "gathered"
    (keys,) = gather_changes(str(folder), files, STORED, SCHEMA, counted, str(out), lambda: None)
    found = pq.read_table(out)
    assert found.schema.names == [*META.names, "id", "note"]
    assert keys.to_pylist() == found["id"].to_pylist()
    return list(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_changes_come_from_the_files_that_have_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(gathered_changes, "_SMALL_BYTES", small)
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
    with pytest.raises(ReadBySparkOnly, match="fit into memory"):
        gathered(tmp_path, written(tmp_path, 4, 1, 2, 3))


def test_it_can_be_broken_off_between_two_files(tmp_path: Path) -> None:
    def ended() -> None:
        raise ConnectionError("the JVM has ended")

    file, out = written(tmp_path, 4, 1), str(tmp_path / "out")
    with pytest.raises(ConnectionError):
        gather_changes(str(tmp_path), [file], STORED, SCHEMA, PENDING, out, ended)
