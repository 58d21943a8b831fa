"""A file that was tampered with looks as before, and has other values."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.demo.tamper import MOST_ROWS, live_files, rewrite, tamper_with_column


def rows(count: int) -> pa.Table:
    some = random.Random(7)
    names = [f"{some.getrandbits(64):x}" for _ in range(count)]
    return pa.table({"id": [str(number) for number in range(count)], "name": names, "n": [1.5] * count})


def commit(table: Path, version: int, *actions: dict[str, object]) -> None:
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def test_the_files_of_the_newest_version_are_live(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"metaData": {}}, {"add": {"path": "a"}}, {"add": {"path": "b"}})
    commit(tmp_path, 1, {"add": {"path": "b", "deletionVector": {}}}, {"remove": {"path": "b"}})
    commit(tmp_path, 2, {"add": {"path": "c"}}, {"remove": {"path": "a"}})
    assert live_files(tmp_path) == [tmp_path / "b", tmp_path / "c"]


@pytest.mark.parametrize("count", [20, MOST_ROWS + 500])
def test_rows_of_one_file_get_a_value(tmp_path: Path, count: int) -> None:
    pq.write_table(rows(count), tmp_path / "many", compression="zstd")
    pq.write_table(rows(3), tmp_path / "few", compression="zstd")
    commit(tmp_path, 0, {"add": {"path": "many"}}, {"add": {"path": "few"}})
    before = {path.name: path.stat().st_size for path in live_files(tmp_path)}
    among = [str(number) for number in range(5, 2 * count)]
    tampered = tamper_with_column(tmp_path, "id", among, "name", "nobody")
    assert tampered == set(among[: min(count - 5, MOST_ROWS)])
    assert {path.name: path.stat().st_size for path in live_files(tmp_path)} == before
    now, was = pq.read_table(tmp_path / "many"), rows(count)
    named = zip(was["id"].to_pylist(), was["name"].to_pylist(), strict=True)
    expected = ["nobody" if key in tampered else name for key, name in named]
    assert now["name"].to_pylist() == expected
    assert now.drop_columns("name").equals(was.drop_columns("name"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_delta_log", "few", "many"]


def test_rows_that_dont_fit_are_refused(tmp_path: Path) -> None:
    pq.write_table(rows(10), tmp_path / "file", compression="zstd")
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(ValueError, match="don't fit into the"):
        rewrite(tmp_path / "file", lambda _: rows(10_000))
    assert (tmp_path / "file").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
