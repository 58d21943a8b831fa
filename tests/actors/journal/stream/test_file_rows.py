"""Files of a real journal are read with the columns of a stream, and a file that is gone or damaged is named."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from actors.journal.stream import file_rows
from actors.journal.stream.file_rows import FileRows
from deploy.toolchain.cache import REPOSITORY
from pipeline.errors import Definite
from pipeline.journal.changes.row_choice import RowChoice
from pipeline.lake.stream.change_file import ChangeFile
from tests.integration.history import History, Table
from tests.pipeline.lake.stream.entries import ORDERS, SOURCE

WANTED = pa.schema([("__scn", pa.int64()), ("id", pa.int64()), ("flag", pa.int32())])


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    made = History(tmp_path / "journal")
    yield made
    made.store.close()


def seal(history: History, table: Table, *ids: int) -> ChangeFile:
    """Seals a transaction for each of these rows."""
    for id_ in ids:
        history.transaction((table, "c", (id_, "n")))
    return sealed(history)


def sealed(history: History) -> ChangeFile:
    segment = history.seal()
    (file,) = history.store.entry(segment).files
    return ChangeFile(history.store.file(segment, file.path), segment, file.table, file.rows, file.bytes)


def reading(history: History, wanted: pa.Schema = WANTED) -> FileRows:
    return FileRows(history.store.files.shown, wanted, several=False)


def test_rows_come_in_their_order_and_of_small_files_together(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = history.table(ORDERS)
    files = [seal(history, table, *range(n, n + 3)) for n in (10, 20, 30, 40)]
    assert [batch.num_rows for batch in reading(history).read(files)] == [12]
    monkeypatch.setattr(file_rows, "ROWS_TOGETHER", 6)
    batches = list(reading(history).read(files))
    assert [batch.num_rows for batch in batches] == [6, 6]
    assert [id_ for batch in batches for id_ in batch.column("id").to_pylist()] == [
        *range(10, 13),
        *range(20, 23),
        *range(30, 33),
        *range(40, 43),
    ]
    assert batches[0].schema == WANTED
    assert batches[0].column("flag").null_count == 6
    assert list(reading(history).read([])) == []


def test_large_rows_come_a_few_at_a_time(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they are in one file or in many: of equal bytes few have room for gigabytes in a file."""
    monkeypatch.setattr(file_rows, "BYTES_TOGETHER", 100_000)
    table, wanted = history.table(ORDERS), pa.schema([("id", pa.int64()), ("note", pa.string())])
    for id_ in range(20):
        history.transaction((table, "c", (id_, "x" * 30_000)))
    files = [seal(history, table, 20), *(large(history, table, id_) for id_ in range(21, 30))]
    assert max(file.bytes for file in files) < 20_000
    batches = list(reading(history, wanted).read(files))
    assert [id_ for batch in batches for id_ in batch.column("id").to_pylist()] == list(range(30))
    assert len(batches) > 8 and max(batch.nbytes for batch in batches) <= 130_000


def large(history: History, table: Table, id_: int) -> ChangeFile:
    history.transaction((table, "c", (id_, "x" * 30_000)))
    return sealed(history)


def test_only_chosen_rows_are_read_by_columns_that_the_stream_need_not_have(history: History) -> None:
    file = seal(history, history.table(ORDERS), 1, 2, 3)
    wanted = pa.schema([("id", pa.int32())])
    chosen = replace(file, choice=RowChoice(first=2, without=f"{SOURCE}:3"))
    assert [batch.to_pylist() for batch in reading(history, wanted).read([chosen])] == [[{"id": 2}]]


def test_an_executor_needs_few_libraries() -> None:
    """docs/spark.md says so: others needn't be where the executors are."""
    program = (
        "import sys, pathlib, actors.journal.stream.data_source\n"
        "of = [m.__spec__.origin for m in sys.modules.values() if getattr(m, '__spec__', None)]\n"
        "packages = [pathlib.Path(o).parts for o in of if o and 'site-packages' in o]\n"
        "print(*{p[p.index('site-packages') + 1].partition('.')[0] for p in packages})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, check=True, capture_output=True, text=True
    )
    loaded = set(ran.stdout.split())
    assert {"pyarrow", "pyspark"} <= loaded
    assert {name for name in loaded if not name.startswith("_")} <= {"numpy", "py4j", "pyarrow", "pyspark"}


def test_a_file_that_is_gone_is_named(history: History) -> None:
    file = seal(history, history.table(ORDERS), 1)
    Path(file.path).unlink()
    with pytest.raises(Definite, match="is gone: retention has removed segment 1 while it was read"):
        list(reading(history).read([file]))


def test_a_damaged_file_is_named(history: History) -> None:
    file = seal(history, history.table(ORDERS), 1)
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:-9])
    with pytest.raises(Definite, match=f"{file.path} can't be used"):
        list(reading(history).read([file]))
