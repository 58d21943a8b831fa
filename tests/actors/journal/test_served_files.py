"""A journal that is read through its service is the same journal; nothing is written through it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

from actors.http import journal_files
from actors.http.access import Allowance, TokenBucket
from actors.journal import served_files
from actors.journal.files import open_files
from actors.journal.served_files import TOKEN, ServedFiles
from actors.journal.store import JournalReader
from actors.journal.stream.file_rows import FileRows
from actors.journal.stream.segment_planner import SegmentPlanner, load_columns
from pipeline.config.settings import HttpSettings, Secret
from pipeline.errors import Definite, Transient
from pipeline.lake.stream.change_file import ChangeFile
from pipeline.lake.stream.segment_plan import MicroBatchLimit
from pipeline.lake.stream.source_options import SourceOptions
from pipeline.lake.tables.columns import META_COLUMNS
from tests.actors.http.changes.journals import Tapped, tapped
from tests.pipeline.lake.stream.entries import ORDERS

Value = TypeVar("Value")


async def apart(work: Callable[[], Value]) -> Value:
    """Beside the service, which runs on this event loop."""
    return await asyncio.to_thread(work)


def read(journal: str) -> tuple[int, list[str], list[dict[str, object]]]:
    """How far a stream of a table comes, its files, and their rows."""
    options = SourceOptions(journal, (ORDERS.table,))
    found = load_columns(JournalReader(journal), options)
    wanted = [pa.field(column.name, pa.string()) for column in META_COLUMNS]
    schema = pa.schema([*wanted, *found.schemas[ORDERS.table].arrow])
    planner = SegmentPlanner(options, schema, found.at)
    begin = planner.begin()
    end = planner.end(begin, MicroBatchLimit())
    files = [file for task in planner.tasks(begin, end) for file in task]
    columns = pa.schema([*found.schemas[ORDERS.table].arrow])
    batches = FileRows(journal, columns, several=False).read(files)
    return (
        end.segment,
        [Path(file.path).name for file in files],
        [row for rows in batches for row in rows.to_pylist()],
    )


async def test_a_stream_reads_the_same_through_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_files, "MOST_ANSWER_BYTES", 700)  # a file comes in several parts
    monkeypatch.setattr(served_files, "ASK_AGAIN_S", 0.01)
    async with tapped(tmp_path) as tap:
        for name in ("journal_names", "journal_file"):
            (resource,) = (
                each for each in tap.bench.server._bucket_of if name.replace("_", "/") in str(each)
            )
            # And a request is refused now and then.
            tap.bench.server._bucket_of[resource] = TokenBucket(Allowance(1, 200.0))
        for _ in range(3):
            tap.commit(3, rows=4)
            tap.seal()
        local = await apart(lambda: read(str(tap.history.store.directory)))
        assert await apart(lambda: read(tap.url)) == local
        assert local[0] == 3 and len(local[2]) == 18


async def test_what_the_service_does_not_have_or_give_is_named(tmp_path: Path) -> None:
    async with tapped(tmp_path) as tap:
        tap.commit()
        tap.seal()
        files = ServedFiles(tap.url + "/")
        with pytest.raises(FileNotFoundError, match="has no file manifest/none"):
            await apart(lambda: files.read("manifest/none"))
        (path,) = (file for file in await apart(lambda: read(tap.url)[1]))
        await apart(lambda: gone(tap, path))
        with pytest.raises(Definite, match="folder: 'lock' is none of"):
            await apart(lambda: files.listed("lock"))
        for write in (
            lambda: files.make(["x"]),
            lambda: files.put("x", b""),
            lambda: files.rename("x", "y"),
            lambda: files.remove("x"),
            lambda: JournalReader(tap.url).consumers.record_progress("reports", 1),
        ):
            with pytest.raises(
                Definite, match=r"can only be read through it; give journal\.path, or the option"
            ):
                await apart(write)
    with pytest.raises(Transient, match=r"the journal in http://127\.0\.0\.1:1 failed"):
        JournalReader("http://127.0.0.1:1")


def gone(tap: Tapped, name: str) -> None:
    """Retention removes a file that a task was given."""
    (path,) = tap.history.store.directory.glob(f"segments/*/{name}")
    file = ChangeFile(str(path.relative_to(tap.history.store.directory)), 1, ORDERS.table, 1, 1)
    path.unlink()
    with pytest.raises(Definite, match="is gone: retention has removed segment 1"):
        list(FileRows(tap.url, ORDERS.arrow, several=False).read([file]))


async def test_a_token_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = HttpSettings("0.0.0.0", 0, Secret("a" * 32), Secret("b" * 32))
    async with tapped(tmp_path, settings) as tap:
        tap.seal()
        monkeypatch.delenv(TOKEN, raising=False)
        with pytest.raises(Definite, match=f"answers 401: .*; set {TOKEN} to the token for reading"):
            await apart(lambda: JournalReader(tap.url))
        monkeypatch.setenv(TOKEN, "b" * 32)
        assert await apart(lambda: JournalReader(tap.url).last_segment()) == 1


def test_an_address_with_a_password_is_refused() -> None:
    with pytest.raises(Definite, match="who may use it doesn't belong into a URI"):
        open_files("http://reader:secret@127.0.0.1:1")
