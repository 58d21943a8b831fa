"""What the source says of its tables while another session keeps some of them from being opened."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import pytest

from actors.source.connection import Source
from actors.source.errors import Locked
from actors.source.preflight import preflight, query_tables
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.service import pipeline
from tests.servers.source import ask, connected, process_list, waits_for_lock

# What information_schema says of a table, or of all.
LOOKS: Final[dict[str, Callable[[Source, TableId], Awaitable[Any]]]] = {
    "all tables": lambda source, _: source.tables(),
    "columns": lambda source, table: source.descriptions([table]),
    "indexes": lambda source, table: source.indexes(table),
    "foreign keys": lambda source, _: source.cascading(),
}


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


async def test_a_locked_table_holds_up_no_snapshot_of_another(either: tuple[MysqlServer, str]) -> None:
    """Chunks needn't know which MERGE tables have a MyISAM table in their UNION."""
    server, database = either
    server.sql(
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY) ENGINE=MyISAM" for name in ("free", "his")),
        "CREATE TABLE his_merge (id INT PRIMARY KEY) ENGINE=MERGE UNION=(his)",
        database=database,
    )
    free = TableId(database, "free")
    async with (
        connected(server, database) as source,
        locked(server, database, "his_merge"),
        source.waiting_briefly(),
    ):
        assert free in await source.describe([free])
        assert "PRIMARY" in await source.indexes(free)
        assert await source.estimate(free) == 0


@pytest.mark.parametrize("waits", [True, False], ids=["waits", "within a transaction"])
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS.keys())
async def test_an_answer_that_leaves_out_a_locked_table_is_none_on_an_old_server(
    mysql56: MysqlServer, database56: str, look: Callable[[Source, TableId], Awaitable[Any]], waits: bool
) -> None:
    """It looked as if there were no such table, no index or no foreign key. Broken views give warnings, too."""
    views = [f"v{number}" for number in range(70)]
    mysql56.sql(
        "CREATE TABLE free (id INT PRIMARY KEY)",
        "CREATE TABLE held (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES free (id) ON DELETE CASCADE)",
        "CREATE TABLE lost (id INT)",
        *(f"CREATE VIEW {name} AS SELECT * FROM lost" for name in views),
        "DROP TABLE lost",
        database=database56,
    )
    table = TableId(database56, "held")
    async with connected(mysql56, database56) as source:
        async with locked(mysql56, database56, table.name):
            if waits:
                async with source.waiting_briefly():
                    with pytest.raises(Locked):
                        await look(source, table)
            else:
                await source.begin()
                await ask(source, f"SELECT * FROM {database56}.free")
                with pytest.raises(Locked):
                    await look(source, table)
                await source.leave()
        assert await look(source, table) is not None
