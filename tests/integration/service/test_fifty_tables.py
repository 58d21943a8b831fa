"""A pipeline of fifty tables, of which ten are hostile: the other forty are delivered as if these weren't there."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from actors.service.assembly import Assembly
from actors.service.live_view_text import live_view_text
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import LakeSettings, SnapshotMode, SparkSettings
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import until
from tests.servers.duckdb_engine import engine
from tests.servers.journal_oracle import unequal
from tests.servers.lake_oracle import unequal_lake
from tests.servers.service import Running, WithoutLake, pipeline, running

# A busy machine makes a hundred lake tables.
WITHIN_S: Final = 500.0

PLAIN: Final = ("orders", *(f"plain_{number}" for number in range(39)))

# As many characters as a server makes a file's name of; it has none beyond U+FFFF in names.
LONG: Final = "☃" * 50

# Of each hostile table its columns, its first rows, and the statements while capture runs.
HOSTILE: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "a_column_m": ("id INT PRIMARY KEY, m INT", "(1, 1), (2, 2)", ("UPDATE a_column_m SET m = m + 1",)),
    "a_metadata": (
        "id INT PRIMARY KEY, _metadata INT",
        "(1, 1), (2, 2)",
        ("UPDATE a_metadata SET _metadata = _metadata + 1", "DELETE FROM a_metadata WHERE id = 2"),
    ),
    "of_ours": ("id INT PRIMARY KEY, __op CHAR(1)", "(1, 'c')", ("INSERT INTO of_ours VALUES (2, 'd')",)),
    "equal_keys": (
        "a INT NOT NULL, b INT NOT NULL, UNIQUE z (a, b), UNIQUE y (b, a)",
        "(1, 2), (2, 1)",
        ("INSERT INTO equal_keys VALUES (3, 4)", "DELETE FROM equal_keys WHERE a = 1"),
    ),
    "Orders": (
        "id INT PRIMARY KEY, total INT",
        "(1, 100), (7, 700)",
        ("UPDATE Orders SET total = 101 WHERE id = 1", "DROP TABLE IF EXISTS ORDERS"),
    ),
    "year_0": (
        "d DATE PRIMARY KEY, v INT",
        "('0000-03-01', 1), ('2020-01-01', 2)",
        ("INSERT INTO year_0 VALUES ('0000-12-31', 3)", "UPDATE year_0 SET v = 4 WHERE d = '0000-03-01'"),
    ),
    "labels": (
        "id INT PRIMARY KEY, e ENUM('😀', '?', 'b')",
        "(1, '😀'), (2, 'b')",
        ("UPDATE labels SET e = 1 WHERE id = 2", "INSERT INTO labels VALUES (3, '?')"),
    ),
    "zero_dates": (
        "d DATE PRIMARY KEY, v INT",
        "('2020-01-01', 1)",
        ("INSERT INTO zero_dates VALUES ('0000-00-00', 2), ('2020-00-00', 3)",),
    ),
    "twins": (
        "k VARCHAR(9) CHARACTER SET sjis PRIMARY KEY, v INT",
        "('a', 1)",
        ("INSERT INTO twins VALUES (_sjis x'5C', 2), (_sjis x'815F', 3)",),
    ),
    LONG: ("id INT PRIMARY KEY, `ü 'x' ${y}` INT", "(1, 1)", (f"INSERT INTO `{LONG}` VALUES (2, NULL)",)),
    "..": ("id INT PRIMARY KEY, v INT", "(1, 1)", ("INSERT INTO `..` VALUES (2, 2)",)),
    "select": (
        "`from` INT PRIMARY KEY, `table` INT, `group` INT, `c` INT, `delta` INT, `.` INT",
        "(1, 1, 1, 1, 1, 1)",
        ("UPDATE `select` SET `table` = 2, `.` = 3", "INSERT INTO `select` VALUES (2, 2, 2, 2, 2, 2)"),
    ),
}
STOPPED: Final = {
    "of_ours": "the name of a column that Tidemark adds",
    "zero_dates": "zero or partial date",
    "twins": "two codes in its character set",
}
# Names that Spark keeps for itself, or that are our own.
NOT_IN_THE_LAKE: Final = ("a_metadata", "of_ours")


def rows(server: MysqlServer, database: str, name: str) -> list[Any]:
    """The source's rows in their order, as their texts."""
    return sorted(server.sql(f"SELECT * FROM `{database}`.`{name}`"), key=repr)


def viewed(lake: str, database: str, name: str, columns: str) -> list[Any]:
    """The live view's rows in their order."""
    view = live_view_text(lake, f"{database}.{name}", Dialect.DUCKDB)
    with closing(engine()) as duck:
        return sorted(duck.sql(f"SELECT {columns} FROM ({view}) v").fetchall(), key=repr)


async def filled(service: Running, names: set[str]) -> None:
    """Until the snapshots of these tables are complete."""

    def done() -> bool:
        snapshots = service.status().get("snapshots", [])
        tables = [table for snapshot in snapshots for table in snapshot["tables"]]
        return names <= {table["table"] for table in tables if table["state"] == "completed"}

    await until(done, "all are filled", WITHIN_S, service.outcome.done)


async def delivered(service: Running) -> None:
    """Waits until the lake has what's sealed, and shows every table that it takes."""

    def done() -> bool:
        sealed = service.status(Name.JOURNAL_WRITER).get("segment")
        sink = service.status(Name.SPARK_SINK)
        shown = all(
            table["stopped"] or table["rebuilding_since"] is None for table in sink.get("tables", {}).values()
        )
        return bool(sealed) and sink.get("segment") == sealed and shown

    await until(done, "the lake shows it", WITHIN_S, service.outcome.done)


@pytest.mark.parametrize(
    "assembly",
    [pytest.param(WithoutLake, id="journal"), pytest.param(Assembly, marks=pytest.mark.full, id="lake")],
)
async def test_forty_tables_are_delivered_as_if_ten_hostile_ones_were_not_there(
    mysql: MysqlServer,
    database: str,
    tmp_path: Path,
    spark_settings: SparkSettings,
    assembly: type[Assembly],
) -> None:
    mysql.sql(
        "SET NAMES utf8mb4",
        *(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in PLAIN),
        *(f"INSERT INTO {name} VALUES (1, 1), (2, 2)" for name in PLAIN),
        *(f"CREATE TABLE `{name}` ({columns})" for name, (columns, _, _) in HOSTILE.items()),
        *(f"INSERT INTO `{name}` VALUES {first}" for name, (_, first, _) in HOSTILE.items()),
        database=database,
    )
    lake = LakeSettings(str(tmp_path / "lake"), drain_s=60.0, merge_rows=3, merge_after_s=1e6)
    settings = pipeline(mysql, tmp_path, database, mode=SnapshotMode.INITIAL)
    settings = replace(settings, spark=spark_settings, lake=lake)
    in_lake = assembly is Assembly
    async with running(settings, assembly) as service:
        await filled(service, {*PLAIN, *HOSTILE} - {"of_ours"})
        mysql.sql(
            "SET NAMES utf8mb4",
            "SET sql_mode = ''",
            *(deed for _, _, deeds in HOSTILE.values() for deed in deeds),
            *(f"INSERT INTO {name} VALUES (3, 3)" for name in PLAIN),
            *(f"UPDATE {name} SET v = 4 WHERE id = 1" for name in PLAIN),
            database=database,
        )
        await service.caught_up(mysql)
        stopped = service.status()["stopped"]
        if in_lake:
            await delivered(service)
            told = service.status(Name.SPARK_SINK)["tables"]
            assert {name for name, table in told.items() if table["stopped"]} == {
                f"{database}.{name}" for name in NOT_IN_THE_LAKE
            }
        await service.stop()
    assert {name.removeprefix(f"{database}.") for name in stopped} == STOPPED.keys()
    assert all(why in stopped[f"{database}.{name}"] for name, why in STOPPED.items())
    judged = [
        TableId(database, name)
        for name in (*PLAIN, *HOSTILE)
        if name not in {*STOPPED, "year_0", "equal_keys"}
    ]
    assert unequal(mysql, tmp_path / "journal", *judged) == []
    if in_lake:
        there = [table for table in judged if table.name not in NOT_IN_THE_LAKE]
        assert unequal_lake(mysql, lake.path, *there) == []
        assert viewed(lake.path, database, "equal_keys", "*") == rows(mysql, database, "equal_keys")
        assert viewed(lake.path, database, "year_0", "v") == [(2,), (3,), (4,)]
