"""Capture continues at another server, or says why it can't: a primary and its replicas, all of them real.

The tests decide which server takes over, like an operator or an operator's tool. The writers note what they committed.
So the source judges the journal at the end, and each change is counted.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pymysql
import pytest
from structlog.testing import capture_logs

from actors.runtime.supervisor import ExitCode
from actors.source import failover
from deploy.toolchain.mysql_server import MysqlServer
from pipeline import metrics as catalogue
from pipeline.config.settings import SnapshotMode
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.topology import ActorName as Name
from pipeline.source import failover as judgement
from tests.integration.schema.test_inferred_changes import at_rest
from tests.servers.at_work import at_work
from tests.servers.delay import HELD, DelayedLog
from tests.servers.journal_oracle import replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.replicas import (
    ROWS,
    T,
    at,
    begun,
    caught_up,
    cluster,
    fill,
    follow,
    listing,
    promote,
    reached,
    server,
)
from tests.servers.service import Running, running

WRITERS: Final = 2


@pytest.fixture(autouse=True)
def looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for longer than that takes."""
    monkeypatch.setattr(failover, "SERVERS_EVERY_S", 0.05)
    monkeypatch.setattr(judgement, "COMMITTING_S", 0.2)


@dataclass
class Writers:
    """Threads that change rows of their own, and note what they committed: how, the key, and the value."""

    done: list[tuple[str, int, int]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1, 1 << 30)))
    there: list[dict[int, bool]] = field(default_factory=lambda: [{} for _ in range(WRITERS)])

    @contextmanager
    def on(self, server: MysqlServer) -> Iterator[None]:
        """At work on this server; if it dies, what was under way isn't noted."""
        before = len(self.done)
        with at_work([partial(self._write, index, server) for index in range(WRITERS)]):
            yield
        assert len(self.done) > before, "nothing was written"

    def _write(self, index: int, server: MysqlServer, stop: threading.Event) -> None:
        there, chosen = self.there[index], random.Random(index + len(self.done))
        with (
            suppress(pymysql.err.OperationalError),
            closing(server.connect(database="d")) as connection,
            connection.cursor() as cursor,
        ):
            # The servers of today name the transactions of some clients with tags.
            cursor.execute(f"SET SESSION gtid_next = 'AUTOMATIC{':tagged' if index else ''}'")
            while not stop.wait(0.004):
                key, value = chosen.randrange(index, ROWS + 200, WRITERS), next(self.numbers)
                kind = chosen.choice("uud") if there.get(key, key < ROWS) else "c"
                cursor.execute(
                    {
                        "c": f"INSERT INTO t VALUES ({key}, {value})",
                        "u": f"UPDATE t SET v = {value} WHERE id = {key}",
                        "d": f"DELETE FROM t WHERE id = {key}",
                    }[kind]
                )
                there[key] = kind != "d"
                self.done.append((kind, key, value))

    def untrue(self, journal: Path) -> list[str]:
        """Where the journal's changes aren't just these, once each."""
        changes = [change for change in replay(journal, T, since=0).changes if change.op in "cud"]
        told = Counter((c.op, *c.key, c.row["v"] if c.op != "d" else 0) for c in changes)
        done = Counter((kind, key, value if kind != "d" else 0) for kind, key, value in self.done)
        return [f"missing: {each}" for each in (done - told)] + [f"too much: {e}" for e in (told - done)]


async def sealed(service: Running, server: MysqlServer) -> None:
    """Until all that the server has executed is sealed: what has only passed is read again after a failover."""
    all_of_it = GtidSet.parse(server.executed())
    await service.until(
        lambda: all_of_it <= GtidSet.parse(service.status(Name.JOURNAL_WRITER).get("position") or ""),
        "all is sealed",
    )


async def received(service: Running, primary: MysqlServer, replica: MysqlServer) -> None:
    """Until the replica has, applied or not, what the primary has executed by now."""
    last = GtidSet.parse(primary.executed())
    told = "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status"
    await service.until(lambda: last <= GtidSet.parse(replica.sql(told)[0][0]), "it's received")


async def wrote(service: Running, writers: Writers) -> None:
    """Until some more has been written."""
    enough = len(writers.done) + 30
    await service.until(lambda: len(writers.done) > enough, "some writes")


async def lost(service: Running, primary: MysqlServer, *replicas: MysqlServer) -> None:
    """Kill the primary behind a change that all its replicas have; capture is at the last of them then."""
    primary.sql("UPDATE d.t SET v = 1 WHERE id = 7")
    await sealed(service, primary)
    for replica in replicas:
        caught_up(primary, replica)
    primary.kill()
    await reached(service, replicas[-1])


@pytest.mark.usefixtures("small_ranges")
async def test_a_planned_switch_in_the_middle_of_a_snapshot(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    primary, second, third = cluster(mysql_factory, "second", "another-name")
    writers = Writers()
    async with begun(listing(tmp_path, primary, second, third)) as service:
        with writers.on(primary):
            await wrote(service, writers)
            await service.execute("s")
            await service.until(lambda: service.tables("s")["t"]["chunks"], "a chunk")
        for replica in (second, third):
            caught_up(primary, replica)
        primary.stop()
        promote(third)
        follow(second, third)
        second.stop()  # so that it's the last of the list
        with writers.on(third), capture_logs() as logs:
            await reached(service, third)
            await service.completed("s")
            await wrote(service, writers)
        await service.caught_up(third)
        [told] = [each for each in logs if each["event"] == "failed over"]
        assert (told["from"], told["to"]) == tuple(
            f"{each.host}:{each.port} ({each.uuid})" for each in (primary, third)
        )
        metrics = service.assembly.metrics
        assert metrics.value(catalogue.FAILOVERS) == 1
        labels = {"host": third.host, "port": str(third.port), "server": third.uuid}
        assert metrics.value(catalogue.SOURCE_INFO, **labels) == 1
        await service.stop()
    assert unequal(third, tmp_path / "journal", T) == []
    assert writers.untrue(tmp_path / "journal") == []


@pytest.mark.usefixtures("small_ranges")
async def test_the_primary_is_killed_under_writes(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    primary, second = cluster(mysql_factory, "second")
    writers = Writers()
    with ExitStack() as way:
        proxy = way.enter_context(DelayedLog(primary.port))
        async with begun(listing(tmp_path, primary, second, port=proxy.port)) as service:
            await service.execute("s")
            with writers.on(primary):
                await service.until(lambda: service.tables("s")["t"]["chunks"], "a chunk")
                # From here on nothing passes, and what had passed is on the replica before the primary dies.
                proxy.delay_s = HELD
                await wrote(service, writers)
                await received(service, primary, second)
                primary.kill()
            way.close()
            promote(second)
            writers.there = [{} for _ in range(WRITERS)]  # what was under way may have come or not
            second.sql("DELETE FROM d.t WHERE id >= 1000")
            rows = ", ".join(f"({key}, 0)" for key in range(ROWS))
            second.sql(f"INSERT IGNORE INTO d.t VALUES {rows}")
            with writers.on(second):
                await wrote(service, writers)
                await service.completed("s")
            await service.caught_up(second)
            await service.stop()
    assert unequal(second, tmp_path / "journal", T) == []


async def test_a_replica_that_is_behind_is_waited_for(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    primary, second = cluster(mysql_factory, "second")
    async with begun(listing(tmp_path, primary, second)) as service:
        second.sql("STOP REPLICA SQL_THREAD")
        primary.sql("UPDATE d.t SET v = 1 WHERE id < 9")
        await sealed(service, primary)
        await received(service, primary, second)  # and not applied
        with capture_logs() as logs:
            primary.kill()
            await service.until(
                lambda: any(each["event"] == "waiting for a server" for each in logs), "it's waited for"
            )
        [told] = [each["servers"] for each in logs if each["event"] == "waiting for a server"][:1]
        assert f"{second.host}:{second.port}" in told
        second.sql("START REPLICA SQL_THREAD")
        await reached(service, second)
        promote(second)
        second.sql("UPDATE d.t SET v = 2 WHERE id < 5")
        await service.caught_up(second)
        await service.stop()
    changes = replay(tmp_path / "journal", T).changes
    assert [change.row["v"] for change in changes] == [1] * 9 + [2] * 5


async def test_a_commit_that_waits_for_an_acknowledgement_is_waited_for(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    primary = server(mysql_factory, plugin_load_add="semisync_source.so")
    fill(primary)
    settings = listing(tmp_path, primary)
    primary.sql(
        "SET GLOBAL rpl_semi_sync_source_timeout = 3600000",
        "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
    )
    async with begun(settings) as service:
        await service.caught_up(primary)
        before = GtidSet.parse(primary.executed())
        primary.sql("SET GLOBAL rpl_semi_sync_source_enabled = ON")
        committing = threading.Thread(target=primary.sql, args=("UPDATE d.t SET v = 1 WHERE id = 7",))
        committing.start()
        await service.until(
            lambda: GtidSet.parse(service.status(Name.JOURNAL_WRITER).get("position") or "") - before,
            "the change is sealed",
        )
        await service.stop()
    try:
        async with running(settings) as service:
            await service.until(
                lambda: "is still committing" in service.supervisor.failures.get(Name.BINLOG_READER, ""),
                "it's waited for",
            )
            assert GtidSet.parse(primary.executed()) == before
            primary.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
            await service.caught_up(primary)
            await service.stop()
    finally:
        primary.sql("SET GLOBAL rpl_semi_sync_source_enabled = OFF")
        committing.join()
    assert [change.row["v"] for change in replay(tmp_path / "journal", T).changes] == [1]


async def test_where_none_can_go_on_it_stops_and_names_what_each_lacks(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judgement, "CATCH_UP_S", 0.5)
    primary, behind, purged = cluster(mysql_factory, "second", "third")
    settings = listing(tmp_path, primary, behind, purged)
    async with begun(settings) as service:
        await service.stop()
    passed = GtidSet.parse(primary.executed())
    primary.sql("UPDATE d.t SET v = 1 WHERE id < 9")
    gone = GtidSet.parse(primary.executed()) - passed
    caught_up(primary, purged)
    purged.purge_binlogs()
    behind.sql("STOP REPLICA", "RESET REPLICA ALL", "RESET BINARY LOGS AND GTIDS")
    primary.kill()
    async with running(settings) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    told = outcome.message.splitlines()
    assert f"{primary.host}:{primary.port}: " in told[1] and "connect" in told[1]
    lacks = str(passed).replace("\n", "")
    assert f"{behind.port}: the source is a divergent server: it hasn't executed {lacks}" in told[2]
    assert f"{purged.port}: the binlog that we need was purged: {gone}; " in told[3]
    # The same ones, with permission to begin again.
    anew = replace(settings, snapshot=replace(settings.snapshot, mode=SnapshotMode.WHEN_NEEDED))
    async with running(anew) as service:
        await reached(service, purged)
        await service.until(lambda: service.status().get("snapshots"), "a snapshot of everything")
        await service.completed(service.status()["snapshots"][-1]["id"])
        await service.caught_up(purged)
        await service.stop()
    assert unequal(purged, tmp_path / "journal", T) == []


async def test_a_replica_that_leaves_out_changes_of_a_captured_table_is_passed_over(
    mysql_factory: MysqlFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judgement, "CATCH_UP_S", 0.5)
    primary, partial_, sound = cluster(mysql_factory, "second", "third")
    for replica, left_out in ((partial_, "d.%"), (sound, "elsewhere.%")):
        replica.sql(
            "STOP REPLICA",
            f"CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('{left_out}')",
            "START REPLICA",
        )
    async with begun(listing(tmp_path, primary, partial_, sound)) as service:
        await service.execute("first")
        await service.completed("first")
        await lost(service, primary, partial_, sound)
        promote(sound)
        sound.sql("UPDATE d.t SET v = 2 WHERE id = 8")
        await service.caught_up(sound)
        await service.stop()
    assert partial_.sql("SELECT v FROM d.t WHERE id = 7") == [(0,)]
    assert unequal(sound, tmp_path / "journal", T) == []
    async with running(listing(tmp_path / "new", partial_, primary)) as service:
        outcome = await service.end()
    assert "doesn't apply all changes of d.t (Replicate_Wild_Ignore_Table=d.%)" in outcome.message


async def test_another_server_at_the_one_address_must_not_leave_out_changes_either(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    primary, partial_ = cluster(mysql_factory, "second")
    partial_.sql(
        "STOP REPLICA", "CHANGE REPLICATION FILTER REPLICATE_WILD_IGNORE_TABLE = ('d.%')", "START REPLICA"
    )
    async with begun(listing(tmp_path, primary)) as service:
        primary.sql("UPDATE d.t SET v = 1 WHERE id = 7")
        await sealed(service, primary)
        await service.stop()
    caught_up(primary, partial_)
    async with running(listing(tmp_path, partial_)) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert "doesn't apply all changes of d.t (Replicate_Wild_Ignore_Table=d.%)" in outcome.message


async def test_a_server_that_folds_names_is_refused_where_it_has_other_ones(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    primary, folding = server(mysql_factory), server(mysql_factory, lower_case_table_names="1")
    primary.sql("CREATE DATABASE d", "CREATE TABLE d.Orders (id INT PRIMARY KEY)")
    follow(folding, primary)
    async with begun(listing(tmp_path, primary)) as service:
        primary.sql("INSERT INTO d.Orders VALUES (1)")
        await sealed(service, primary)
        await service.stop()
    caught_up(primary, folding)
    folding.sql("STOP REPLICA", "SET GLOBAL read_only = OFF", "INSERT INTO d.orders VALUES (2)")
    async with running(listing(tmp_path, folding)) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert "d.Orders is called d.orders" in outcome.message


async def test_a_server_that_has_other_columns_has_their_names(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """As after an ALTER on a replica alone. The log has minimal metadata, and changes come before and after."""
    primary, second = cluster(mysql_factory, "second")
    primary.sql("ALTER TABLE d.t ADD COLUMN w INT")
    caught_up(primary, second)
    second.sql("SET sql_log_bin = 0", "ALTER TABLE d.t RENAME COLUMN v TO w, RENAME COLUMN w TO v")
    for each in (primary, second):
        each.sql("SET GLOBAL binlog_row_metadata = MINIMAL")
    settings = listing(tmp_path, primary, second)
    settings = replace(settings, snapshot=replace(settings.snapshot, mode=SnapshotMode.INITIAL))
    async with begun(settings) as service:
        await at_rest(service, primary)
        await service.stop()
    primary.sql("UPDATE d.t SET v = 1, w = 2 WHERE id < 9")
    caught_up(primary, second)
    primary.kill()
    promote(second)
    second.sql("UPDATE d.t SET v = 3 WHERE id < 5")
    async with running(settings) as service:
        await reached(service, second)
        await at_rest(service, second)
        second.sql("UPDATE d.t SET v = 4 WHERE id < 3")
        await at_rest(service, second)
        await service.stop()
    assert [row[1:] for row in second.sql("SELECT * FROM d.t WHERE id IN (2, 4, 6, 9)")] == [
        (1, 4), (1, 3), (1, 2), (0, None),
    ]  # fmt: skip
    assert unequal(second, tmp_path / "journal", T) == []


async def test_what_was_written_on_a_replica_must_not_overwrite_what_came_behind_it(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    primary, errant, sound = cluster(mysql_factory, "second", "third")
    async with begun(listing(tmp_path, primary, errant, sound)) as service:
        errant.sql("UPDATE d.t SET v = -1 WHERE id = 7")
        await lost(service, primary, errant, sound)
        await service.stop()
    settings = listing(tmp_path, errant)
    async with running(settings) as service:
        outcome = await service.end()
    assert outcome.code is ExitCode.DEFINITE
    assert f"{errant.uuid}:1 are in its log before others that have passed here" in outcome.message
    assert {change.row["v"] for change in replay(tmp_path / "journal", T).changes} == {1}


async def test_what_a_new_primary_wrote_before_we_came_passes(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    primary, second = cluster(mysql_factory, "second")
    settings = listing(tmp_path, primary, second)
    async with begun(settings) as service:
        primary.sql("UPDATE d.t SET v = 1 WHERE id = 8")
        await service.caught_up(primary)
        await service.stop()
    caught_up(primary, second)
    primary.stop()
    promote(second)
    second.sql("UPDATE d.t SET v = 2 WHERE id = 8", "CREATE TABLE d.u (id INT PRIMARY KEY)")
    async with running(settings) as service:
        await service.caught_up(second)
        primary.start()
        follow(primary, second)
        caught_up(second, primary)
        # It doesn't go back by itself, neither while it runs nor with the next start.
        assert at(service) == second.uuid
        await service.stop()
    async with running(settings) as service:
        await service.until(lambda: at(service), "it has begun")
        assert at(service) == second.uuid
        await service.stop()
    assert [change.row["v"] for change in replay(tmp_path / "journal", T).changes] == [1, 2]


@pytest.mark.full
@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("seed", range(5))
async def test_ten_switches_in_a_row(mysql_factory: MysqlFactory, tmp_path: Path, seed: int) -> None:
    """Planned and by SIGKILL, half of them in the middle of a snapshot, in turn over three servers."""
    chosen = random.Random(seed)
    present, *replicas = servers = cluster(mysql_factory, "second", "third")
    writers = Writers()
    async with begun(listing(tmp_path, *servers)) as service:
        for number in range(10):
            snapshot = f"s{number}" if number % 2 else ""
            with writers.on(present):
                if snapshot:
                    await service.execute(snapshot)
                    await service.until(lambda: service.tables(snapshot)["t"]["chunks"], "a chunk")  # noqa: B023
                await wrote(service, writers)
            for replica in replicas:
                caught_up(present, replica)
            gone = present
            (gone.kill if chosen.random() < 0.5 else gone.stop)()
            await service.until(lambda: at(service) not in (None, gone.uuid), "a failover")  # noqa: B023
            replicas.sort(key=lambda replica: replica.uuid == at(service))
            other, present = replicas
            promote(present)
            follow(other, present)
            with writers.on(present):
                await wrote(service, writers)
                if snapshot:
                    await service.completed(snapshot)
            gone.start()
            follow(gone, present)
            replicas = [gone, other]
            for replica in replicas:
                caught_up(present, replica)
            await service.caught_up(present)
        await service.stop()
    assert unequal(present, tmp_path / "journal", T) == []
    assert writers.untrue(tmp_path / "journal") == []
