"""Changes without a GTID, which a log that is read by GTIDs leaves out: on a real server, judged on the journal."""

from dataclasses import replace
from pathlib import Path

import pytest

from actors.source import unnamed_transactions
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import Settings, SnapshotMode
from pipeline.errors import Definite, UndecodableError
from tests.integration.service.test_resume import A, B, anew_with, ended, server, snapshots
from tests.servers.journal_oracle import entries, unequal
from tests.servers.service import pipeline, running

__all__ = ["server"]


def set_gtid_mode(server: MysqlServer, *modes: str) -> None:
    """Sets one after the other, as the manual wants it."""
    server.sql(*(f"SET GLOBAL gtid_mode = {mode}" for mode in modes))


def commit_without_gtid(server: MysqlServer) -> None:
    set_gtid_mode(server, "ON_PERMISSIVE", "OFF_PERMISSIVE")
    server.sql("INSERT INTO shop.a VALUES (9001, 1)", "DELETE FROM shop.b WHERE id = 3")


async def refused(settings: Settings, journal: Path) -> str:
    """Returns why a start is refused. The journal stays as it is."""
    before = entries(journal)
    async with running(settings) as service:
        outcome = await service.end()
    assert entries(journal) == before
    return outcome.message


async def test_a_change_without_a_gtid_amid_a_stop_is_not_left_out(
    server: MysqlServer, tmp_path: Path
) -> None:
    """No transaction has passed before it, or since."""
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    needed = replace(settings, snapshot=replace(settings.snapshot, mode=SnapshotMode.WHEN_NEEDED))
    async with running(settings) as service:
        await service.completed("initial-0")
        await service.stop()
    commit_without_gtid(server)
    set_gtid_mode(server, "ON_PERMISSIVE", "ON")
    told = await refused(settings, tmp_path / "journal")
    assert "a change without a GTID was committed" in told
    assert 'set snapshot.mode = "when_needed"' in told
    async with running(needed) as service:
        anew = await anew_with(service, 0)
        assert await ended(service, anew) == ["a", "b"]
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []
    async with running(settings) as service:  # from here on as ever
        await service.begun()
        server.sql("DELETE FROM shop.a WHERE id = 1")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []
    assert snapshots(settings) == ["initial-0", anew]


async def test_a_change_without_a_gtid_that_ended_capture_is_not_left_out(
    server: MysqlServer, tmp_path: Path
) -> None:
    """Transactions have passed before it, and there are others after it. Rotated logs alone are nothing."""
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql("UPDATE shop.a SET v = 5 WHERE id < 9")
        await service.caught_up(server)
        await service.stop()
    server.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "UPDATE shop.b SET v = 5 WHERE id < 9")
    async with running(settings) as service:
        await service.caught_up(server)
        commit_without_gtid(server)
        outcome = await service.end()
    assert "set gtid_mode = ON, and start Tidemark again" in outcome.message
    set_gtid_mode(server, "ON_PERMISSIVE", "ON")
    server.sql("UPDATE shop.a SET v = 6 WHERE id < 9", "FLUSH BINARY LOGS")
    for _ in range(2):
        told = await refused(settings, tmp_path / "journal")
        assert "a change without a GTID was committed" in told


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        (Definite("a replica with the same server_uuid/server_id has connected"), False),
        (UndecodableError("it is no event"), True),
    ],
)
async def test_only_what_is_wrong_at_the_place_is_borne(
    server: MysqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Definite, begins: bool
) -> None:
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    async with running(settings) as service:
        await service.completed("initial-0")
        await service.stop()
    server.sql("FLUSH BINARY LOGS", "FLUSH BINARY LOGS")

    def follow(*_: object) -> None:
        raise error

    monkeypatch.setattr(unnamed_transactions, "_follow", follow)
    if not begins:
        assert str(error) in await refused(settings, tmp_path / "journal")
        return
    async with running(settings) as service:
        server.sql("UPDATE shop.a SET v = 6 WHERE id < 9")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []


async def test_a_log_that_began_again_with_the_same_history_is_read_on(
    server: MysqlServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a file of the name where the last checkpoint ends, and no event at that place."""
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    server.rotate_binlog()
    async with running(settings) as service:
        await service.completed("initial-0")
        server.sql("UPDATE shop.a SET v = 5 WHERE id < 9")
        await service.caught_up(server)
        await service.stop()
    [(file, *_)] = server.sql("SHOW BINARY LOG STATUS")
    passed = server.executed()
    server.sql("RESET BINARY LOGS AND GTIDS", f"SET GLOBAL gtid_purged = '{passed}'")
    while server.rotate_binlog() <= file:
        pass
    async with running(settings) as service:
        server.sql("UPDATE shop.a SET v = 6 WHERE id < 9")
        await service.caught_up(server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", A, B) == []
    assert "the log can't be searched for changes without a GTID" in capsys.readouterr().out
