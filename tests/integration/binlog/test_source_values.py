"""What a SELECT answers that isn't rows of the table as it was described."""

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.errors import Definite
from pipeline.schema.table_schema import TableId
from pipeline.snapshot import chunk_queries
from pipeline.source.result_columns import mismatch
from pipeline.source.statement import Statement
from tests.pipeline.builders import primary_index
from tests.servers.source import connected, select


async def test_an_error_behind_the_first_rows_is_told_and_the_connection_lives(
    mysql: MysqlServer, database: str
) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2), (3)", database=database)
    async with connected(mysql, database) as source:
        # The subquery gives two rows only for the last id.
        sql = f"SELECT (SELECT u.id FROM {database}.t u WHERE u.id > 1 AND t.id = 3) FROM {database}.t ORDER BY id"
        with pytest.raises(Definite, match="Subquery returns more than 1 row"):
            await select(source, Statement(sql))
        assert await source.executed()


async def test_a_result_that_is_not_one_is_refused(mysql: MysqlServer) -> None:
    async with connected(mysql) as source:
        with pytest.raises(Definite, match="something else than rows"):
            await select(source, Statement("DO 1"))


@pytest.mark.parametrize(
    "altered",
    [
        "MODIFY c BIGINT",
        "MODIFY c INT UNSIGNED",
        "MODIFY c VARCHAR(9)",
        "DROP c",
        "ADD d INT",
        "MODIFY c DECIMAL(9,1)",
    ],
)
async def test_a_result_of_an_altered_table_is_seen(mysql: MysqlServer, database: str, altered: str) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY, c INT)", database=database)
    async with connected(mysql, database) as source:
        [found] = (await source.describe([TableId(database, "t")])).values()
        mysql.sql(f"ALTER TABLE t {altered}", database=database)
        [now] = (await source.describe([TableId(database, "t")])).values()
        columns, _ = await select(
            source, chunk_queries.select_chunk(now.schema, primary_index(now.schema), None, (9,), 9)
        )
    assert mismatch(now.schema, columns) is None
    assert mismatch(found.schema, columns) is not None
