"""Who only looks is begun again; the rest of the assembly is in tests/integration/service/test_run.py."""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from actors.journal.store import JournalStore
from actors.runtime.recent_events import RecentEvents
from actors.service import assembly
from pipeline.config.settings import (
    JournalSettings,
    LakeSettings,
    Settings,
    SourceSettings,
)
from pipeline.errors import Definite
from pipeline.messages.topology import ActorName, inbox
from pipeline.metrics import MAILBOX_DEPTH
from pipeline.schema.table_filter import TableFilter
from tests.actors.segments import seal


def settings_of(folder: Path, lake: LakeSettings | None = None) -> Settings:
    return Settings(
        "shop",
        TableFilter(("a.b",)),
        SourceSettings("127.0.0.1", "u", 1, server_id=7),
        JournalSettings(str(folder / "journal")),
        lake,
    )


@pytest.mark.measuring_fails
async def test_who_fails_looking_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "LOOKS_AGAIN_S", 0.0)
    looks, again = iter([ZeroDivisionError("a bug")]), asyncio.Event()

    async def look() -> None:
        if (failure := next(looks, None)) is not None:
            raise failure
        again.set()
        await asyncio.Event().wait()

    looking = asyncio.create_task(assembly._look(look))
    await asyncio.wait_for(again.wait(), 10)
    looking.cancel()
    await asyncio.wait({looking})
    assert looking.cancelled()


def test_a_consumer_without_its_section_is_named_at_a_start(tmp_path: Path) -> None:
    """The journal keeps segments for it up to the quota."""
    settings = settings_of(tmp_path, LakeSettings(str(tmp_path / "lake")))
    with closing(JournalStore.open_single_writer(settings.journal.path, "shop")) as store:
        for name in ("lake", "kafka", "reports"):
            store.consumers.record_progress(name, 0)
        for lake, named in ((settings.lake, ["kafka"]), (None, ["kafka", "lake"])):
            with capture_logs() as logged:
                assembly.Assembly(replace(settings, lake=lake), store)
            assert [each["consumer"] for each in logged if "section" in each["event"]] == named


def test_a_mailbox_has_its_depth_measured(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    with closing(JournalStore.open_single_writer(settings.journal.path, "shop")) as store:
        built = assembly.Assembly(settings, store)
        coordinator, writer = ActorName.WATERMARK_COORDINATOR, ActorName.JOURNAL_WRITER
        asyncio.run(built.mailboxes[coordinator].put(inbox(coordinator)[0], "waits"))
        depths = [built.metrics.value(MAILBOX_DEPTH, actor=name) for name in (coordinator, writer)]
    assert depths == [1, 0]


def test_a_lake_is_compared_also_with_a_journal_that_does_not_know_it(tmp_path: Path) -> None:
    """It may be a copy from before the lake was added. The lake has what the journal seals under other numbers now."""
    settings = settings_of(tmp_path, LakeSettings(str(tmp_path / "lake")))
    with closing(JournalStore.open_single_writer(settings.journal.path, "shop")) as store:
        seal(store, 1)
        assembly.Assembly(settings, store)
        assert store.consumers.all()["lake"].unchecked_end == 1
        without = replace(settings, lake=None)
        store.consumers.forget("lake")
        assembly.Assembly(without, store)
        assert store.consumers.all() == {}


@pytest.mark.parametrize(
    ("path", "wrong"), [("hdfs://house/lake", "hdfs:// isn't"), ("s3://lake", "no s3://")]
)
async def test_a_run_is_refused_whose_lake_has_no_filesystem(path: str, wrong: str, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, LakeSettings(path))
    with pytest.raises(Definite, match=f"lake.path: .*{wrong}"):
        await assembly.serve(settings, RecentEvents())
    assert not (tmp_path / "journal").exists()
