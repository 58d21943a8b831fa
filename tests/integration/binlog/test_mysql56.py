"""The log of MySQL 5.6, through the complete service: lacking columns, altered tables, temporals in their first form.

`mysqlbinlog` of a newer MySQL prints the same log in its own words.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from actors.journal.store import JournalReader
from actors.source.binlog_dump import BinlogDump
from deploy.toolchain.mysql_server import GTIDS_56, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.errors import Transient
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId
from tests.servers.journal_oracle import Row, replay
from tests.servers.mysql import MysqlFactory
from tests.servers.mysqlbinlog import printed_rows
from tests.servers.old_temporals import create_old_table
from tests.servers.service import pipeline, running
from tests.servers.source import settings

# The values of a row image by the numbers of their columns, from 1.
Image = dict[int, Any]


def in_journal(journal: Path, table: TableId) -> list[tuple[str, Image]]:
    """The table's changes in their order, each with what the log has of its row."""
    reader = JournalReader(journal)
    changes: list[tuple[int, int, str, Image]] = []
    for entry in reader.entries(0, reader.last_segment()):
        for file in entry.files:
            if file.table == table:
                for row in pq.read_table(reader.path(entry, file)).to_pylist():
                    values = {name: value for name, value in row.items() if not name.startswith("__")}
                    absent = row["__absent"] or ()
                    there = {n: v for n, (name, v) in enumerate(values.items(), 1) if name not in absent}
                    changes.append((row["__scn"], row["__ordinal"], row["__op"], there))
    return [(op, there) for _, _, op, there in sorted(changes, key=lambda change: change[:2])]


def by_mysqlbinlog(parts: Parts, server: MysqlServer) -> list[tuple[str, Image]]:
    """The same of the server's newest log file; an update's image is its after one over its before one."""
    [(file, *_)] = server.sql("SHOW MASTER STATUS")
    return [
        (row.op, {place + 1: value.decode() for place, value in {**row.where, **row.set}.items()})
        for row in printed_rows(parts.mysql.bin / "mysqlbinlog", server.data / file)
    ]


def as_mysqlbinlog(value: object, bits: int) -> str:
    """A value as mysqlbinlog prints it: an integer that may be unsigned (of so many bits) in both ways."""
    match value:
        case None:
            return "NULL"
        case int() if value >= 2 ** (bits - 1):
            return f"{value - 2**bits} ({value})"
        case str():
            return f"'{value}'"
        case _:
            return str(value)


async def test_what_the_log_has_of_each_row(
    mysql56_factory: MysqlFactory, parts: Parts, tmp_path: Path
) -> None:
    """In rows events of version 1, which MySQL 5.5 wrote, the same as in those of version 2, and as mysqlbinlog says.

    The newer mysqlbinlog doesn't read version 1 any more.
    """
    columns = "id INT PRIMARY KEY, m MEDIUMINT UNSIGNED, u INT UNSIGNED, v VARCHAR(9), x TEXT"
    stories: list[list[tuple[str, Image]]] = []
    told: list[tuple[str, Image]] = []
    for version_1 in ("ON", "OFF"):
        server = mysql56_factory({**GTIDS_56, "log_bin_use_v1_row_events": version_1})
        server.sql("CREATE DATABASE d", f"CREATE TABLE d.t ({columns})")
        async with running(pipeline(server, tmp_path / version_1, "d")) as service:
            await service.begun()
            server.sql("FLUSH BINARY LOGS")
            for image in ("FULL", "MINIMAL", "NOBLOB"):
                server.sql(
                    f"SET binlog_row_image = {image}",
                    "INSERT INTO t (id, m, u) VALUES (1, 16777215, 4294967295), (2, 8388608, 1), (3, NULL, NULL)",
                    "UPDATE t SET u = 4294967294 WHERE id < 3",
                    "UPDATE t SET v = 'word', x = 'text' WHERE id = 2",
                    "DELETE FROM t",
                    database="d",
                )
            await service.caught_up(server)
            await service.stop()
        stories.append(in_journal(tmp_path / version_1 / "journal", TableId("d", "t")))
        told = by_mysqlbinlog(parts, server) if version_1 == "OFF" else []
    assert stories[0] == stories[1]
    assert [
        (op, {n: as_mysqlbinlog(value, 24 if n == 2 else 32) for n, value in image.items()})
        for op, image in stories[1]
    ] == told
    assert len(stories[1]) == 3 * 9
    assert len({(op, *image) for op, image in stories[1]}) == 10  # as many sets of columns


@pytest.mark.parametrize("engine", ["MyISAM", "InnoDB"])
async def test_temporals_in_their_first_form(
    mysql56_factory: MysqlFactory, tmp_path: Path, engine: str
) -> None:
    server = mysql56_factory({**GTIDS_56, "avoid_temporal_upgrade": "ON", "show_old_temporals": "ON"})
    server.sql("CREATE DATABASE d")
    create_old_table(server, "d", "t", t="TIME", d="DATETIME", s="TIMESTAMP")
    server.sql(f"ALTER TABLE d.t ENGINE = {engine}")
    [(_, definition)] = server.sql("SHOW CREATE TABLE d.t")
    assert definition.count("/* 5.5 binary format */") == 3
    zone = "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'"
    rows = {
        1: ("-838:59:59", "1000-01-01 00:00:00", "1970-01-01 00:00:01"),
        2: ("838:59:59", "9999-12-31 23:59:59", "2038-01-19 03:14:07"),
        3: ("-00:00:01", "2024-02-29 12:34:56", "2024-02-29 12:34:56"),
        4: ("00:00:00", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        5: ("99:00:07", "2024-02-30 00:00:00", None),
        6: (None, None, None),
    }

    def insert(first: int) -> None:
        values = ", ".join(
            f"({first + i}, {', '.join('NULL' if v is None else repr(v) for v in row)})"
            for i, row in rows.items()
        )
        server.sql(zone, f"INSERT INTO d.t VALUES {values}")

    insert(0)
    async with running(pipeline(server, tmp_path, "d")) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        insert(10)
        server.sql("DELETE FROM d.t WHERE id > 10")
        await service.caught_up(server)
        await service.stop()
    told = server.sql(
        zone,
        "SELECT id, TIME_TO_SEC(t) * 1000000, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', d),"
        " TIMESTAMPDIFF(MICROSECOND, '1970-01-01', s) FROM d.t",
    )
    # No calendar has February 30, which this server reckons with, nor the zero date, which it doesn't.
    expected = {id_: (t, None if id_ == 5 else d, s) for id_, t, d, s in told}
    story = replay(tmp_path / "journal", TableId("d", "t"))

    def values(row: Row) -> tuple[int | None, ...]:
        moments = (row["d"], row["s"])
        return row["t"], *(None if m is None else int(np.datetime64(m, "us").astype(int)) for m in moments)

    assert {key: values(row) for (key,), (_, row) in story.mirror.items()} == expected
    for op in "cd":
        found = {change.key[0] - 10: values(change.row) for change in story.changes if change.op == op}
        assert found == expected


async def test_a_table_that_is_altered_goes_on_with_its_new_signs(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """Nothing in the log says that the numbers have lost their sign, but the server does."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT)")
    async with running(pipeline(server, tmp_path, "d")) as service:
        await service.begun()
        server.sql(
            "INSERT INTO d.t VALUES (1, -1)",
            "ALTER TABLE d.t MODIFY n INT UNSIGNED",
            "INSERT INTO d.t VALUES (2, 4294967295)",
        )
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert in_journal(tmp_path / "journal", TableId("d", "t")) == [
        ("c", {1: 1, 2: -1}),
        ("c", {1: 2, 2: 4294967295}),
    ]


async def test_a_table_that_was_altered_in_between_goes_on(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """The server reports the schema, which holds once the statement has passed that made it so."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, n INT)")
    settings = pipeline(server, tmp_path, "d")
    async with running(settings) as service:
        await service.begun()
        server.sql("INSERT INTO d.t VALUES (1, -1)")
        await service.caught_up(server)
        await service.stop()
    server.sql("ALTER TABLE d.t MODIFY n INT UNSIGNED")
    async with running(settings) as service:
        await service.begun()
        server.sql("INSERT INTO d.t VALUES (2, 4294967295)")
        await service.caught_up(server)
        await service.stop()
    assert in_journal(tmp_path / "journal", TableId("d", "t")) == [
        ("c", {1: 1, 2: -1}),
        ("c", {1: 2, 2: 4294967295}),
    ]


async def test_an_idle_log_a_new_file_and_a_restart_are_followed(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """Heartbeats of the first form have the position of an idle log; the old file ends with ROTATE, then with STOP."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    async with running(pipeline(server, tmp_path, "d")) as service:

        async def at_the_end() -> None:
            [(file, offset, *_)] = server.sql("SHOW MASTER STATUS")
            await service.until(
                lambda: service.status().get("stream") == f"{file}:{offset}", "the end of the log"
            )

        await service.begun()
        server.sql("INSERT INTO d.t VALUES (1)", "FLUSH BINARY LOGS")
        await at_the_end()
        server.stop()
        server.start()
        await at_the_end()
        server.sql("INSERT INTO d.t VALUES (2)")
        await service.caught_up(server)
        await service.stop()
    assert in_journal(tmp_path / "journal", TableId("d", "t")) == [("c", {1: 1}), ("c", {1: 2})]


async def test_checksums_that_come_and_go_are_followed(mysql56_factory: MysqlFactory, tmp_path: Path) -> None:
    """Each change begins a new file; the events between the two files are of the old kind or of the new one."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    async with running(pipeline(server, tmp_path, "d")) as service:
        await service.begun()
        for number, checksum in enumerate(("NONE", "CRC32", "NONE")):
            server.sql(f"SET GLOBAL binlog_checksum = {checksum}", f"INSERT INTO d.t VALUES ({number})")
            await service.caught_up(server)
        # The next file is of the same kind, and so is what a reader that comes late is sent.
        server.sql("FLUSH BINARY LOGS", "INSERT INTO d.t VALUES (3)")
        await service.caught_up(server)
        await service.drop()
    async with running(pipeline(server, tmp_path, "d")) as service:
        server.sql("INSERT INTO d.t VALUES (4)")
        await service.caught_up(server)
        await service.stop()
    assert in_journal(tmp_path / "journal", TableId("d", "t")) == [("c", {1: number}) for number in range(5)]


async def test_a_temporary_table_of_the_same_name_is_another_table(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """MySQL 5.6 logs that it's dropped at its session's end, and nothing else of it."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY)")
    async with running(pipeline(server, tmp_path, "d")) as service:
        await service.begun()
        server.sql("CREATE TEMPORARY TABLE d.t (other TEXT)", "INSERT INTO d.t VALUES ('a')")
        server.sql("INSERT INTO d.t VALUES (1)")
        await service.caught_up(server)
        assert service.status()["stopped"] == {}
        await service.stop()
    [(file, *_)] = server.sql("SHOW MASTER STATUS")
    assert any(
        "DROP /*!40005 TEMPORARY */ TABLE" in row[-1] for row in server.sql(f"SHOW BINLOG EVENTS IN '{file}'")
    )
    assert in_journal(tmp_path / "journal", TableId("d", "t")) == [("c", {1: 1})]


async def test_a_purged_log_is_told_before_it_is_asked_for(mysql56_factory: MysqlFactory) -> None:
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE d")
    server.purge_binlogs()
    with pytest.raises(Transient, match=f"was purged: {server.uuid}:1"):
        await BinlogDump.open(settings(server, server.create_capture_user("d")), GtidSet())
