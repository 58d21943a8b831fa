"""Rows of a mirror's files are found by their numbers from the file's beginning."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from actors.lake.files import mirror_files
from actors.lake.files.mirror_files import MirrorFiles
from pipeline.errors import Definite
from pipeline.lake.files.parquet_files import Bounds, stats
from pipeline.lake.mirrors.changed_keys import ChangedKeys
from pipeline.lake.mirrors.deletion_vector import vector_bytes, vector_entry


def changed(*numbers: int, name: str = "id") -> ChangedKeys:
    return ChangedKeys({name: pa.chunked_array([pa.array(numbers, pa.int64())])}, {name})


def written(folder: Path, name: str, column: str = "id", rows: int = 1000) -> None:
    """A file with the numbers from 0 on, backwards, in row groups of a hundred."""
    numbers = pa.array(np.arange(rows)[::-1], pa.int32())
    pq.write_table(pa.table({"note": numbers.cast(pa.string()), column: numbers}), folder / name, 100)


def test_places_count_from_the_beginning_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_files, "_ROWS_READ", 30)
    monkeypatch.setattr(mirror_files, "_ROWS_AT_ONCE", 64)
    written(tmp_path, "a b%.parquet")
    file = {"path": "a%20b%25.parquet"}
    files = MirrorFiles(str(tmp_path))
    assert list(files.changed_rows(file, changed(0, 998, 500, 2000))) == [1, 499, 999]
    assert not files.changed_rows(file, changed(-1))


class Measured(ChangedKeys):
    """Keys that note how many rows are looked up at once, and their bytes."""

    def __init__(self, *texts: str) -> None:
        super().__init__({"part": pa.chunked_array([pa.array(texts)])}, ())
        self.pieces: list[tuple[int, int]] = []

    def rows(self, columns: Sequence[pa.Array | pa.ChunkedArray], ranges: Sequence[slice]) -> Any:
        self.pieces.append((len(columns[0]), sum(column.nbytes for column in columns)))
        return super().rows(columns, ranges)


@pytest.mark.parametrize("length", [3, 3000])
def test_a_look_up_takes_many_rows_of_short_texts_and_few_of_long_ones(tmp_path: Path, length: int) -> None:
    """The file has each text once, so its own size is as small in both cases."""
    texts = ["a" * length, "b" * length]
    pq.write_table(pa.table({"part": [*texts[:1] * 20_000, texts[1]]}), tmp_path / "texts.parquet")
    keys = Measured(texts[1])
    assert list(MirrorFiles(str(tmp_path)).changed_rows({"path": "texts.parquet"}, keys)) == [20_000]
    if length == 3:
        assert [rows for rows, _ in keys.pieces] == [20_001]
    else:
        assert max(size for _, size in keys.pieces) < 32 << 20 < sum(size for _, size in keys.pieces)


def test_an_absolute_path_is_read_where_it_leads(tmp_path: Path) -> None:
    written(tmp_path, "there.parquet")
    for path in (f"{tmp_path}/there.parquet", f"file:{tmp_path}/there.parquet"):
        assert list(MirrorFiles("/nowhere").changed_rows({"path": path}, changed(999))) == [0]


def test_a_file_whose_bounds_have_no_changed_key_is_not_read(tmp_path: Path) -> None:
    file: dict[str, Any] = {"path": "gone.parquet", "stats": stats(9, [Bounds("id", 3, 8, 0)])}
    files = MirrorFiles(str(tmp_path))
    assert not files.changed_rows(file, changed(1, 9))
    with pytest.raises(FileNotFoundError):
        files.changed_rows(file, changed(1, 4))


def test_a_column_that_was_renamed_in_case_alone_is_read(tmp_path: Path) -> None:
    written(tmp_path, "old.parquet", column="ID")
    assert list(MirrorFiles(str(tmp_path)).changed_rows({"path": "old.parquet"}, changed(999))) == [0]


def test_a_file_without_a_part_of_the_key_is_named(tmp_path: Path) -> None:
    written(tmp_path, "odd.parquet")
    with pytest.raises(Definite, match=r"odd\.parquet has no column number, which is a part of the key"):
        MirrorFiles(str(tmp_path)).changed_rows({"path": "odd.parquet"}, changed(1, name="number"))


def test_rows_are_counted_by_statistics_or_by_the_file(tmp_path: Path) -> None:
    written(tmp_path, "plain.parquet", rows=7)
    files = MirrorFiles(str(tmp_path))
    for told in (None, "{}", stats(7, [])):
        assert files.count_rows({"path": "plain.parquet", "stats": told}) == 7
    assert files.count_rows({"path": "gone.parquet", "stats": stats(9, [])}) == 9


def test_a_vector_lies_between_its_size_and_its_checksum_in_a_file_of_vectors(tmp_path: Path) -> None:
    vector = vector_bytes(BitMap64([5, 70_000]))
    (tmp_path / "vectors.bin").write_bytes(b"\x01" + vector_entry(vector) + b"\x00")
    files = MirrorFiles(str(tmp_path))
    assert files.hidden_rows(f"{tmp_path}/vectors.bin", 1, len(vector)) == BitMap64([5, 70_000])
    for offset, size in ((2, len(vector)), (1, len(vector) - 1), (1, len(vector) + 1), (1, len(vector) + 99)):
        assert files.hidden_rows("vectors.bin", offset, size) is None
