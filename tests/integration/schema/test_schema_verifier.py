"""Tables that begin to match while a journal is there, known before their first change; columns that aren't logged;
two maps of one table.
"""

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from actors.journal.store import JournalReader
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS, MysqlServer
from pipeline.config.column_protection import UNPROTECTED
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.segment import segment_tables
from pipeline.messages.changes import ChangesVerified
from pipeline.messages.journal import ChangePart
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.journal_oracle import entries
from tests.servers.log import read_log
from tests.servers.mysql import MysqlFactory
from tests.servers.service import Running, pipeline, running
from tests.servers.source import connected


async def known(service: Running, table: str) -> None:
    """Waits until the server knows a table."""
    await service.until(lambda: table in service.status().get("captured", ()), f"{table} is captured")


async def test_a_table_that_the_configuration_takes_in_later(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE first (id INT PRIMARY KEY)", database=database)
    mysql.sql("CREATE TABLE later (id INT PRIMARY KEY)", "INSERT INTO later VALUES (1)", database=database)
    settings = pipeline(mysql, tmp_path, database)
    narrow = replace(settings, tables=TableFilter((rf"{database}\.first",)))
    async with running(narrow) as service:
        await service.begun()
        assert service.status()["captured"] == [f"{database}.first"]
        await service.stop()
    async with running(settings) as service:
        await known(service, f"{database}.later")
        await service.execute("s", rf"{database}\.later")
        await service.completed("s")
        assert service.tables("s")["later"]["rows"] == 1
        await service.stop()
    # Taken out again it's stopped, since its further changes are missing.
    async with running(narrow) as service:
        await service.until(lambda: service.status().get("stopped"), "it's stopped")
        assert service.status()["stopped"].keys() == {f"{database}.later"}
        await service.stop()


async def test_a_table_that_was_created_in_between(mysql_factory: MysqlFactory, tmp_path: Path) -> None:
    """Its creation is still to come at the start, so it's known after that, whether it's empty or not."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop", "CREATE TABLE shop.first (id INT PRIMARY KEY)")
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        await service.stop()
    server.sql("CREATE TABLE shop.empty (id INT PRIMARY KEY)", "INSERT INTO shop.first VALUES (1)")
    async with running(settings) as service:
        await known(service, "shop.empty")
        await service.execute("s", r"shop\.empty")
        await service.completed("s")
        await service.stop()


async def test_columns_that_the_log_leaves_out_are_named_in_the_journal(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
        "INSERT INTO t VALUES (1, 1, 1)",
        database=database,
    )
    async with running(pipeline(mysql, tmp_path, database)) as service:
        await service.begun()
        mysql.sql(
            "SET SESSION binlog_row_image = MINIMAL",
            "UPDATE t SET a = 2",
            "INSERT INTO t (id, b) VALUES (2, NULL)",
            "DELETE FROM t WHERE id = 1",
            "SET SESSION binlog_row_image = FULL",
            "INSERT INTO t VALUES (3, NULL, NULL)",
            database=database,
        )
        await service.caught_up(mysql)
        await service.stop()
    reader = JournalReader(tmp_path / "journal")
    files = [(entry, file) for entry in entries(tmp_path / "journal") for file in entry.files]
    tables = [pq.read_table(reader.path(entry, file)) for entry, file in files]
    assert [file.absent for _, file in files] == [
        table["__absent"].null_count < len(table) for table in tables
    ]
    told = pa.concat_tables(tables).select(["__op", "id", "a", "b", "__absent"])
    assert [tuple(row.values()) for row in told.to_pylist()] == [
        ("u", 1, 2, None, ["b"]),
        ("c", 2, None, None, ["a"]),
        ("d", 1, None, None, ["a", "b"]),
        ("c", 3, None, None, None),
    ]


async def test_a_statement_that_began_before_the_metadata_was_set_keeps_its_place(
    mysql_factory: MysqlFactory,
) -> None:
    """It logs its earlier map after a transaction with the new one, and all of them come in one slice."""
    server = mysql_factory(GTIDS)  # binlog_row_metadata=MINIMAL, the default
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO shop.t VALUES (1, 0), (7, 0)",
    )
    account = server.create_capture_user("shop")
    position = GtidSet.parse(server.executed())
    with closing(server.connect()) as second, second.cursor() as newer:
        newer.execute("BEGIN")
        newer.execute("SELECT * FROM shop.t WHERE id = 7 FOR UPDATE")
        older = asyncio.create_task(asyncio.to_thread(server.sql, "UPDATE shop.t SET v = 2"))
        waits = (
            "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_rows_modified"
        )
        # InnoDB shows its transactions as they were, unless nobody has looked for 0.1 s.
        await until(lambda: server.sql(waits), "the older statement has changed row 1 and waits", every_s=0.2)
        server.sql("SET GLOBAL binlog_row_metadata = FULL")
        newer.execute("UPDATE shop.t SET v = 1 WHERE id = 7")
        second.commit()
        await older
    server.sql("UPDATE shop.t SET v = 3 WHERE id = 7")
    table = TableId("shop", "t")
    async with connected(server, "shop") as source:
        known = KnownSchemas({table: (await source.describe([table]))[table].schema}, position)
    said = await read_log(server, account, TableFilter((r"shop\.t",)), position, known)
    (changes,) = [each for each in said if isinstance(each, ChangesVerified)]
    parts = [ChangePart(each, changes.transactions, 1) for each in changes.tables]
    (file,) = segment_tables(1, parts, (), UNPROTECTED)
    assert [tuple(row.values()) for row in file.rows.select(["__scn", "id", "v"]).to_pylist()] == [
        (1, 7, 1), (2, 1, 2), (2, 7, 2), (3, 7, 3),
    ]  # fmt: skip
