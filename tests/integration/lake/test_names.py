"""A name of theirs in a text of ours: the lake has a column whatever MySQL lets it be called, or refuses it by name."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest
import sqlglot

from actors.lake.spark.spark_session import Spark
from actors.service.live_view_text import live_view_text
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.lake.live_view import CHANGED, MIRROR, RANK, WHOLE
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.maintenance import Trim
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer
from tests.integration.history import Table
from tests.integration.lake.test_lake import Delivery, expected, rows
from tests.pipeline.hostile_names import COLUMNS, REFUSED, random_columns
from tests.servers.duckdb_engine import engine

INT = Integer(8, unsigned=False)
NAMES = tuple(dict.fromkeys((*COLUMNS, *random_columns(7, 12))))


def schema(*names: str, table: str = "t") -> TableSchema:
    columns = (Column("id", INT, nullable=False), *(Column(name, INT, nullable=True) for name in names))
    return TableSchema(TableId("it's `${x}`", table), columns, (0,))


class Hostile:
    """A table whose columns have hostile names, in a lake."""

    def __init__(self, delivery: Delivery, names: tuple[str, ...]) -> None:
        self.delivery = delivery
        self.table: Table = delivery.history.table(schema(*names))

    def put(self, op: str, id_: int, value: int, *absent: str) -> None:
        """A row, with values of their own in all columns; those that are absent stay as they were."""
        names = [column.name for column in self.table.schema.columns]
        before = self.table.source.get((id_,), (None,) * len(names))
        row = tuple(
            old if name in absent else id_ if at == 0 else value + at
            for at, (name, old) in enumerate(zip(names, before, strict=True))
        )
        self.delivery.history.transaction((self.table, op, row))
        if absent:
            _, scn, ordinal, _ = self.table.changes[-1]
            lacking = tuple(None if name in absent else v for name, v in zip(names, row, strict=True))
            self.table.changes[-1] = (op, scn, ordinal, lacking)
            self.table.absent[scn, ordinal] = list(absent)

    def shown(self) -> None:
        """Deliver; each engine shows the source's rows."""
        self.delivery.deliver()
        id_ = self.table.schema.table
        assert self.delivery.delivered[id_].stopped is None
        self.the_same()

    def the_same(self) -> None:
        wanted = expected(self.table)
        assert self.delivery.view(self.table) == wanted
        name = str(self.table.schema.table)
        once, _ = live_view_text(self.delivery.root, name, Dialect.SPARK).split("\n", 1)
        assert once == "-- once: SET spark.sql.variable.substitute = false;"
        with closing(engine()) as duck:
            found = duck.execute(live_view_text(self.delivery.root, name, Dialect.DUCKDB)).fetchall()
        assert sorted(found, key=repr) == wanted
        (query,) = sqlglot.parse(live_view_text(self.delivery.root, name, Dialect.TRINO), read="trino")
        assert isinstance(query, sqlglot.expressions.Union)
        assert query.named_selects == [column.name for column in self.table.schema.columns]

    def merged(self) -> None:
        self.delivery.merge(self.table)
        names = [column.name for column in self.table.schema.columns]
        mirror = self.delivery.tier(self.table, Tier.MIRROR)
        own = mirror.select(*(mirror[f"`{name.replace('`', '``')}`"] for name in names))
        assert rows(own) == expected(self.table)
        self.the_same()


@pytest.mark.parametrize("partial", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_column_may_be_called_whatever_mysql_allows(spark: Spark, tmp_path: Path, partial: bool) -> None:
    """A table's whole life, with columns that come and go; by updates that lack columns, where it's partial."""
    delivery = Delivery(spark, tmp_path)
    early, late = NAMES[::2], NAMES[1::2]
    with closing(delivery.history.store):
        table = Hostile(delivery, early)
        for id_ in range(4):
            table.put("c", id_, 100 * id_)
        delivery.deliver()
        absent = early[::3] if partial else ()
        table.put("u", 1, 1000, *absent)
        table.put("d", 2, 0)
        table.shown()
        delivery.merge(table.table)
        # Half of the columns goes, and others come.
        kept = tuple(name for name in early if name not in early[1::2])
        delivery.history.seal()
        before = table.table.schema
        after = replace(before, columns=(*before.columns, *schema(*late).columns[1:]))
        table.table.schema = after
        for known in (table.table.source, table.table.rows):
            known.update({key: (*row, *(None for _ in late)) for key, row in known.items()})
        table.put("c", 5, 5000)
        table.put("u", 3, 6000, *(late[::3] if partial else ()))
        delivery.deliver()
        table.merged()
        delivery.history.restart(table.table, schema(*kept, *late), type(table.table.mirror))  # type: ignore[arg-type]
        table.put("c", 7, 7000)
        delivery.deliver()
        upkeep = delivery.lake.upkeep
        for tier in Tier:
            upkeep.compact(before.table, tier)
        upkeep.trim(before.table, Trim(merged=2, hours=None))
        table.the_same()


def test_a_table_of_which_a_column_cannot_be_is_refused_by_its_name(spark: Spark, tmp_path: Path) -> None:
    delivery = Delivery(spark, tmp_path)
    with closing(delivery.history.store):
        refused = [names for names in REFUSED if not names[-1].lower().startswith(("__op", "__seg"))]
        for number, names in enumerate(refused):
            delivery.history.table(schema(*names, table=f"t{number}"))
        well = delivery.history.table(schema("v", table="well"))
        delivery.history.transaction((well, "c", (1, 2)))
        delivery.deliver()
        for number, names in enumerate(refused):
            stopped = delivery.delivered[schema(table=f"t{number}").table].stopped
            assert stopped is not None
            assert repr(names[-1]) in stopped.reason
        assert delivery.view(well) == [(1, 2)]


def test_mysql_refuses_the_names_that_our_queries_give(mysql: MysqlServer, mysql56: MysqlServer) -> None:
    for server in (mysql, mysql56):
        server.sql("CREATE DATABASE names_of_ours")
        for name in (MIRROR, CHANGED, RANK, WHOLE):
            with pytest.raises(pymysql.Error, match="Incorrect column name"):
                server.sql(f"CREATE TABLE names_of_ours.t (`{name}` INT)")
            with pytest.raises(pymysql.Error, match="Incorrect table name"):
                server.sql(f"CREATE TABLE names_of_ours.`{name}` (a INT)")
        server.sql("DROP DATABASE names_of_ours")


def test_mysql_takes_the_names_that_are_tried(mysql: MysqlServer, mysql56: MysqlServer) -> None:
    taken = [
        names for names in REFUSED if names[-1] != "\u212a"
    ]  # the Kelvin sign, which is a k to MySQL too
    for server in (mysql, mysql56):
        server.sql("CREATE DATABASE hostile")
        for number, names in enumerate([NAMES, *taken]):
            columns = ", ".join(f"`{name.replace('`', '``')}` INT" for name in names)
            server.sql(f"CREATE TABLE hostile.t{number} ({columns})")
        server.sql("DROP DATABASE hostile")
