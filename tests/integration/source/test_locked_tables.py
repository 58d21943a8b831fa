"""What the source says of its tables while another session keeps some of them from being opened."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

from actors.source.preflight import preflight, query_tables
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.service import pipeline
from tests.servers.source import process_list, waits_for_lock


@asynccontextmanager
async def locked(server: MysqlServer, database: str, *tables: str) -> AsyncIterator[None]:
    """A statement that renames these tables has locked them, and waits for another one."""
    server.sql("CREATE TABLE zz (id INT)", database=database)
    renames = ", ".join(f"{name} TO {name}_renamed" for name in (*tables, "zz"))
    with closing(server.connect(database=database)) as other, other.cursor() as session:
        session.execute("BEGIN")
        session.execute("SELECT * FROM zz")
        rename = asyncio.create_task(
            asyncio.to_thread(server.sql, f"RENAME TABLE {renames}", database=database)
        )
        try:
            await until(lambda: any(map(waits_for_lock, process_list(server))), "it waits")
            yield
        finally:
            session.execute("COMMIT")
            await rename


async def test_a_locked_merge_table_leaves_out_those_that_it_may_have_in_its_union(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY) ENGINE=MyISAM" for name in ("free", "hers", "his")),
        "CREATE TABLE her_merge (id INT PRIMARY KEY) ENGINE=MERGE UNION=(hers)",
        "CREATE TABLE his_merge (id INT PRIMARY KEY) ENGINE=MERGE UNION=(his)",
        "CREATE TABLE plain (id INT PRIMARY KEY)",
        database=database,
    )
    free, hers, his, plain = (TableId(database, name) for name in ("free", "hers", "his", "plain"))
    merge = TableId(database, "his_merge")
    capture, tables = pipeline(mysql, tmp_path, database), frozenset({free, hers, his, plain})
    async with locked(mysql, database, merge.name):
        assert (await preflight(capture)).known.unsettled == {free, his, merge}
        answer = await query_tables(capture.source, mysql.uuid, tables)
        assert answer.tables == {hers, plain}
        assert answer.traits[hers].merged_by == TableId(database, "her_merge")
    assert not (await preflight(capture)).known.unsettled
    answer = await query_tables(capture.source, mysql.uuid, tables)
    assert answer.tables == tables
    assert answer.traits[his].merged_by == TableId(database, "his_merge_renamed")
