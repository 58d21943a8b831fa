"""The log doesn't say what a statement did to rows: each history ends with a mirror that equals the source.

A step's statements run in one session; then capture catches up, and has the server's answer.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final

import pytest
from pymysql.err import DataError, OperationalError

from deploy.toolchain.mysql_server import (
    CENTRAL_EUROPE,
    FULL_METADATA,
    GTIDS,
    GTIDS_56,
    SMALL_AND_QUICK,
    MysqlServer,
)
from deploy.toolchain.parts import Parts
from pipeline import metrics as catalogue
from pipeline.binlog.slice import SliceBound
from pipeline.config.settings import SnapshotMode
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_schema import TableId
from tests.servers.journal_oracle import entries, replay, unequal
from tests.servers.mysql import MysqlFactory
from tests.servers.old_temporals import create_old_table
from tests.servers.service import Running, pipeline, running

Steps = Sequence[Sequence[str]]

T: Final = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"
NEW: Final = "CREATE TABLE t_new (id INT PRIMARY KEY, v INT)"
ROWS: Final = "INSERT INTO t VALUES (1, 1), (2, 2)"
FILLED: Final = (T, ROWS, NEW, "INSERT INTO t_new VALUES (1, 10), (2, 20), (3, 30)")
GONE: Final = {
    "rename": "RENAME TABLE t TO t_old",
    "drop": "DROP TABLE t",
    "alter": "ALTER TABLE t RENAME TO t_old",
}
BACK: Final = {
    "rename": "RENAME TABLE t_new TO t",
    "alter": "ALTER TABLE t_new RENAME TO t",
    "exchange": "ALTER TABLE parted EXCHANGE PARTITION p WITH TABLE t",
    "select": "CREATE TABLE t (PRIMARY KEY (id)) SELECT * FROM t_new",
}
# What takes a table away has passed before anything brings it back: each once is enough for `make test`.
COMMON: Final = {("rename", "rename"), ("drop", "select"), ("alter", "alter")}


async def history(
    server: MysqlServer,
    folder: Path,
    database: str,
    before: Sequence[str],
    steps: Steps,
    *tables: str,
    restarted: set[str] | None = None,
) -> None:
    """Capture it, and hold these tables against the source; `restarted`: those whose mirrors begin again, if said."""
    server.sql(*before, database=database)
    async with running(pipeline(server, folder, database)) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        for step in steps:
            with closing(server.connect(database=database)) as connection, connection.cursor() as cursor:
                for statement in step:
                    cursor.execute(statement)
                connection.commit()
            await at_rest(service, server)
        assert service.status()["stopped"] == {}
        value = service.assembly.metrics.value
        names = {
            table for table in service.status()["mirrors"] if value(catalogue.TABLE_RESTARTS, table=table)
        }
        await service.stop()
    assert unequal(server, folder / "journal", *(TableId(database, table) for table in tables)) == []
    assert restarted is None or names == {f"{database}.{table}" for table in restarted}


async def at_rest(service: Running, server: MysqlServer) -> None:
    """Until all has passed, the server has answered, and what begins again has been read."""
    await service.caught_up(server)
    doubtful = {"unproven", "awaited", "answered"}

    def proven() -> bool:
        verifier = service.status(Name.SCHEMA_VERIFIER)
        return not verifier["asked"] and doubtful.isdisjoint(verifier["tables"].values())

    def read() -> bool:
        tables = [table for snapshot in service.status()["snapshots"] for table in snapshot["tables"]]
        return all(table["state"] in ("completed", "failed", "stopped") for table in tables)

    await service.until(proven, "the server's answer")
    await service.until(read, "all that begins again has been read")


@pytest.mark.parametrize(
    ("gone", "back"),
    [
        pytest.param(*pair, id="-".join(pair), marks=() if pair in COMMON else pytest.mark.full)
        for pair in product(GONE, ("rename", "alter", "select"))
    ],
)
async def test_a_table_that_is_gone_and_comes_back_with_rows(
    mysql: MysqlServer, database: str, tmp_path: Path, gone: str, back: str
) -> None:
    steps = ((GONE[gone],), (BACK[back],), ("INSERT INTO t VALUES (4, 40)",))
    await history(mysql, tmp_path, database, FILLED, steps, "t")


async def test_a_table_that_is_gone_comes_back_empty_and_gets_a_partitions_rows(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    partitions = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))"
    parted = f"CREATE TABLE parted (id INT PRIMARY KEY, v INT) {partitions}"
    before = (*FILLED, parted, "INSERT INTO parted SELECT * FROM t_new")
    steps = ((GONE["drop"],), (T,), (BACK["exchange"],), ("INSERT INTO t VALUES (4, 40)",))
    await history(mysql, tmp_path, database, before, steps, "t", "parted")


async def test_it_comes_back_with_rows_behind_a_restart_of_the_service(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    mysql.sql(*FILLED, database=database)
    settings = pipeline(mysql, tmp_path, database)
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        mysql.sql(GONE["drop"], database=database)
        await at_rest(service, mysql)
        await service.stop()
    async with running(settings) as service:
        await service.begun()
        await at_rest(service, mysql)
        mysql.sql(BACK["rename"], database=database)
        await at_rest(service, mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", TableId(database, "t")) == []


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE IF EXISTS T",
        "DROP TABLE IF EXISTS strasse",
        "ALTER TABLE Orders DROP COLUMN v",
        "TRUNCATE Orders",
        "DROP TABLE Orders",
    ],
)
async def test_another_table_whose_name_differs_by_case_is_another_one(
    mysql: MysqlServer, database: str, tmp_path: Path, statement: str
) -> None:
    # `Orders` isn't captured: its key is of no matter, and nor are its rows.
    orders = "CREATE TABLE orders (id INT PRIMARY KEY, v INT)"
    names = ("t", "straße", "orders")
    before = (
        T, ROWS, "CREATE TABLE `straße` LIKE t", "INSERT INTO `straße` SELECT * FROM t", orders,
        "INSERT INTO orders SELECT * FROM t", "CREATE TABLE Orders LIKE t", "INSERT INTO Orders SELECT * FROM t",
    )  # fmt: skip
    more = tuple(f"INSERT INTO `{table}` VALUES (3, 3)" for table in names)
    other = {"Orders"} if statement in ("TRUNCATE Orders", "DROP TABLE Orders") else set[str]()
    await history(mysql, tmp_path, database, before, ((statement,), more), *names, restarted=other)


async def test_a_database_whose_name_differs_by_case_is_another_one(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    steps = ((f"DROP DATABASE IF EXISTS {database.upper()}",), ("INSERT INTO t VALUES (3, 3)",))
    await history(mysql, tmp_path, database, (T, ROWS), steps, "t", restarted=set())


async def test_a_server_that_folds_names_means_a_table_by_any_case(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA, "lower_case_table_names": "1"})
    server.sql("CREATE DATABASE shop")
    steps = (
        ("TRUNCATE TABLE T",),
        ("INSERT INTO T VALUES (3, 3)", "ALTER TABLE Shop.T RENAME COLUMN v TO w"),
        ("INSERT INTO t VALUES (4, 4)", "RENAME TABLE T TO U, T_NEW TO T"),
        ("INSERT INTO t VALUES (5, 5)",),
    )
    await history(server, tmp_path, "shop", FILLED, steps, "t")


COLUMNS: Final = (
    "CREATE TABLE t (k INT, id INT, v INT, w INT, `İi` INT, `ß` INT, PRIMARY KEY (k, id))",
    "INSERT INTO t VALUES (1, 1, 10, 100, 3, 4), (2, 2, 20, 200, 5, 6)",
)


@pytest.mark.parametrize(
    "step",
    [
        # Not every server reads what is in such a comment.
        ("ALTER TABLE t /*!80000 DROP COLUMN w */", "ALTER TABLE t ADD COLUMN w INT"),
        (
            "ALTER TABLE t /*!80000 RENAME COLUMN v TO x */",
            "ALTER TABLE t RENAME COLUMN w TO v",
            "ALTER TABLE t RENAME COLUMN x TO w",
        ),
        # MySQL takes İ for i, and not ß for ss.
        ("ALTER TABLE t DROP COLUMN `ii`", "ALTER TABLE t ADD COLUMN `İi` INT"),
        ("ALTER TABLE t ADD COLUMN ss INT", "ALTER TABLE t DROP COLUMN ss"),
        # A column that comes into the key has 0 in the rows that there were.
        (
            "ALTER TABLE t DROP COLUMN k",
            "ALTER TABLE t ADD COLUMN k INT FIRST, DROP PRIMARY KEY, ADD PRIMARY KEY (k, id)",
        ),
    ],
)
async def test_a_column_that_may_have_gone_before_it_is_there_again(
    mysql: MysqlServer, database: str, tmp_path: Path, step: Sequence[str]
) -> None:
    await history(mysql, tmp_path, database, COLUMNS, (step,), "t", restarted={"t"})


@pytest.mark.parametrize(
    "step",
    [
        ("ALTER TABLE t DROP COLUMN t.w", "ALTER TABLE t ADD COLUMN w INT"),
        ("ALTER TABLE t DROP t.w, ADD COLUMN w INT",),
    ],
)
async def test_a_column_goes_by_its_tables_name_on_the_oldest_server(
    mysql56: MysqlServer, database56: str, tmp_path: Path, step: Sequence[str]
) -> None:
    before = ("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", "INSERT INTO t VALUES (1, 10, 100)")
    await history(mysql56, tmp_path, database56, before, (step,), "t", restarted={"t"})


async def test_a_column_goes_and_comes_back_in_a_table_that_is_named_by_another_case(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA, "lower_case_table_names": "1"})
    server.sql("CREATE DATABASE shop")
    step = tuple(
        f"ALTER TABLE {table} {clause}"
        for table in ("T", "`Ü`")
        for clause in ("DROP COLUMN w", "ADD COLUMN w INT")
    )
    before = (*COLUMNS, "CREATE TABLE `ü` LIKE t", "INSERT INTO `ü` SELECT * FROM t")
    await history(server, tmp_path, "shop", before, (step,), "t", "ü", restarted={"ü"})


SPATIAL: Final = (
    "{verb} SPATIAL REFERENCE SYSTEM {srid} NAME 'X{srid}' DEFINITION "
    '\'GEOGCS["X",DATUM["Y",SPHEROID["Z",{radius},298.257223563]],PRIMEM["G",0],UNIT["degree",0.017453292519943278],'
    'AXIS["Lat",NORTH],AXIS["Lon",EAST]]\''
)
PADDED: Final = "SET sql_mode = 'STRICT_ALL_TABLES,PAD_CHAR_TO_FULL_LENGTH'"


@pytest.mark.parametrize(
    ("column", "value", "step"),
    [
        ("VARCHAR(400)", "CONCAT('x', SPACE(302))", ("ALTER TABLE t MODIFY v TINYTEXT",)),
        ("VARCHAR(400)", "CONCAT('x', SPACE(302))", ("ALTER TABLE t MODIFY v VARCHAR(9)",)),
        ("CHAR(5)", "'a'", (PADDED, "ALTER TABLE t MODIFY v VARCHAR(9)")),
        # 80 characters of two bytes each get three, so that 75 of the spaces have no room any more.
        (
            "TINYTEXT CHARACTER SET gb18030",
            "CONCAT(REPEAT('漢', 80), SPACE(90))",
            ("ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4",),
        ),
    ],
)
async def test_a_strict_conversion_that_still_changes_values(
    mysql: MysqlServer, database: str, tmp_path: Path, column: str, value: str, step: Sequence[str]
) -> None:
    before = (f"CREATE TABLE t (id INT PRIMARY KEY, v {column})", f"INSERT INTO t VALUES (1, {value})")
    await history(mysql, tmp_path, database, before, (step,), "t", restarted={"t"})


# Statements that copy a table, on a table each, and statements that don't.
COPIES: Final = {
    "digits": "ALTER TABLE digits MODIFY at TIMESTAMP(3) NULL",
    "wider": "ALTER TABLE wider MODIFY v BIGINT",
    "parted": "ALTER TABLE parted PARTITION BY HASH (id) PARTITIONS 2",
    "indexed": "CREATE INDEX i ON indexed (v) ALGORITHM=COPY",
}
LEAVES: Final = {
    "added": "ALTER TABLE added ADD x INT, ALGORITHM=INPLACE",
    "plain": "ALTER TABLE plain ADD INDEX (v)",
}


OLD_ENOUGH_S: Final = 4


def until_its_zone_counts(server: MysqlServer) -> None:
    """Waits until the server has run for some seconds: it says when it was started to within two, and then copies are
    trusted to be in its present time zone."""
    while int(server.sql("SHOW GLOBAL STATUS LIKE 'Uptime'")[0][1]) < OLD_ENOUGH_S:
        time.sleep(0.1)  # it counts whole seconds


@pytest.mark.parametrize("version", ["9.7", "5.6"])
@pytest.mark.parametrize(
    ("system", "session", "moves"),
    [(CENTRAL_EUROPE, "SYSTEM", True), (CENTRAL_EUROPE, "+02:00", False), ("UTC", "SYSTEM", False)],
    ids=["clocks that go back", "an offset", "UTC"],
)
async def test_instants_that_a_copy_takes_for_one_local_time(
    mysql_factory: MysqlFactory,
    mysql56_factory: MysqlFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    system: str,
    session: str,
    moves: bool,
) -> None:
    """The server gives the first of two equal local times the instant of the second one, in strict mode too."""
    with monkeypatch.context() as environment:
        environment.setenv("TZ", system)
        server = mysql56_factory(GTIDS_56) if version == "5.6" else mysql_factory(GTIDS)
    until_its_zone_counts(server)
    server.sql("CREATE DATABASE shop")
    copies = dict(COPIES)
    if version == "5.6":  # it gives the types of before MySQL 5.6.4 their new form with any statement
        create_old_table(server, "shop", "old", at="TIMESTAMP")
        copies["old"] = "ALTER TABLE old ADD x INT"
    made = [
        f"CREATE TABLE {table} (id INT PRIMARY KEY, at TIMESTAMP NULL, v INT)" for table in (*COPIES, *LEAVES)
    ]
    rows = [
        f"INSERT INTO {table} (id, at) VALUES (1, '2024-10-27 00:30:00'), (2, '2024-10-27 01:30:00')"
        for table in (*copies, *LEAVES)
    ]
    step = (
        f"SET time_zone = '{session}', sql_mode = 'STRICT_ALL_TABLES'", *copies.values(), *LEAVES.values()
    )  # fmt: skip
    tables = (*copies, *LEAVES)
    again = set(copies) if moves else set[str]()
    await history(
        server,
        tmp_path,
        "shop",
        ("SET time_zone = '+00:00'", *made, *rows),
        (step,),
        *tables,
        restarted=again,
    )
    for table in copies:
        instants = f"SELECT COUNT(DISTINCT UNIX_TIMESTAMP(at)) FROM {table}"
        assert server.sql(instants, database="shop") == [(1 if moves else 2,)]


async def test_a_server_that_has_utc_only_since_its_last_start(
    parts: Parts, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It moved instants while the service was down, and its settings don't show any more that its clocks went back."""
    options = {**SMALL_AND_QUICK, **GTIDS, **FULL_METADATA}
    with MysqlServer(parts.mysql, tmp_path_factory.mktemp("zone"), options, CENTRAL_EUROPE) as server:
        await altered_before_utc(server, tmp_path)


async def altered_before_utc(server: MysqlServer, tmp_path: Path) -> None:
    server.sql("CREATE DATABASE shop")
    server.sql(
        "SET time_zone = '+00:00'",
        "CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMP NULL, v INT)",
        "INSERT INTO t (id, at) VALUES (1, '2024-10-27 00:30:00'), (2, '2024-10-27 01:30:00')",
        database="shop",
    )
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        await service.stop()
    server.sql("ALTER TABLE t MODIFY v BIGINT", database="shop")
    assert server.sql("SELECT COUNT(DISTINCT UNIX_TIMESTAMP(at)) FROM shop.t") == [(1,)]
    server.stop()
    server.zone = "UTC"
    server.start()
    async with running(settings) as service:
        await service.begun()
        await at_rest(service, server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("shop", "t")) == []


def test_strict_mode_refuses_to_cut_what_has_no_spaces_to_spare(mysql: MysqlServer, database: str) -> None:
    """Also where it's spaces that are cut: a value of these types that passed is whole."""
    mysql.sql("CREATE TABLE t (a VARBINARY(400), b BLOB)", database=database)
    mysql.sql("INSERT INTO t SELECT s, s FROM (SELECT CONCAT('x', SPACE(302)) s) x", database=database)
    for column, kind in (("a", "TINYBLOB"), ("b", "TINYBLOB"), ("a", "VARBINARY(9)")):
        with pytest.raises((DataError, OperationalError)):
            mysql.sql(f"ALTER TABLE t MODIFY {column} {kind}", database=database)


@pytest.mark.parametrize(
    ("column", "value", "options"),
    [
        ("BLOB", "REPEAT('x', 303)", "MODIFY v TINYBLOB"),  # of these bytes it keeps 47
        ("TINYTEXT CHARACTER SET ujis", "CONCAT(REPEAT('漢', 80), SPACE(90))", "CONVERT TO CHARSET utf8"),
        (
            "TINYTEXT CHARACTER SET utf8mb4",
            "CONCAT(REPEAT('ä', 60), SPACE(130))",
            "MODIFY v TINYTEXT, DEFAULT CHARACTER SET ujis",
        ),
    ],
)
async def test_a_strict_conversion_that_still_cuts_on_the_oldest_server(
    mysql56: MysqlServer, database56: str, tmp_path: Path, column: str, value: str, options: str
) -> None:
    table = f"CREATE TABLE t (id INT PRIMARY KEY, v {column}) DEFAULT CHARSET utf8mb4"
    before = (table, f"INSERT INTO t VALUES (1, {value})")
    step = ("SET sql_mode = 'STRICT_ALL_TABLES'", f"ALTER TABLE t {options}")
    await history(mysql56, tmp_path, database56, before, (step,), "t", restarted={"t"})


FOLLOWS: Final = "w VARCHAR(40) AS (CONCAT(v)) "


@pytest.mark.parametrize(
    ("columns", "value", "statement"),
    [
        (
            "v VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, w INT AS (v = 'admin') VIRTUAL",
            "'ADMIN'",
            "ALTER TABLE t MODIFY v VARCHAR(9) COLLATE utf8mb4_bin",
        ),
        (
            "v VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, w INT AS (v = 'admin') VIRTUAL",
            "'ADMIN'",
            "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        ),
        (f"v FLOAT, {FOLLOWS} VIRTUAL", "0.1", "ALTER TABLE t MODIFY v DOUBLE"),
        (f"v DATE, {FOLLOWS} STORED", "'2020-01-01'", "ALTER TABLE t CHANGE v v DATETIME"),
    ],
)
async def test_a_generated_column_follows_a_strict_conversion(
    mysql: MysqlServer, database: str, tmp_path: Path, columns: str, value: str, statement: str
) -> None:
    before = (f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", f"INSERT INTO t (id, v) VALUES (1, {value})")
    await history(mysql, tmp_path, database, before, ((statement,),), "t", restarted={"t"})


@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
async def test_a_generated_column_follows_a_default(
    mysql: MysqlServer, database: str, tmp_path: Path, kind: str
) -> None:
    columns = f"v INT DEFAULT 5, w INT AS (DEFAULT(v)) {kind}"
    before = (f"CREATE TABLE t (id INT PRIMARY KEY, {columns})", "INSERT INTO t (id, v) VALUES (1, 1)")
    step = ("ALTER TABLE t ALTER COLUMN v SET DEFAULT 7",)
    await history(mysql, tmp_path, database, before, (step,), "t", restarted={"t"})


async def test_a_generated_column_follows_its_spatial_reference_system(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """All other tables stay, and so does any where the system is a new one."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop")
    far = "ST_Distance_Sphere(p, ST_GeomFromText('POINT(0 0)', 990000))"
    before = (
        SPATIAL.format(verb="CREATE", srid=990000, radius=6378137),
        f"CREATE TABLE t (id INT PRIMARY KEY, p POINT, far DOUBLE AS ({far}) VIRTUAL)",
        "INSERT INTO t (id, p) VALUES (1, ST_GeomFromText('POINT(1 1)', 990000))",
        "CREATE TABLE u (id INT PRIMARY KEY, p POINT)",
        "INSERT INTO u VALUES (1, ST_GeomFromText('POINT(1 1)', 990000))",
    )
    new = SPATIAL.format(verb="CREATE", srid=990001, radius=6378137)
    steps = ((new,), (SPATIAL.format(verb="CREATE OR REPLACE", srid=990000, radius=7378137),))
    await history(server, tmp_path, "shop", before, steps[:1], "t", "u", restarted=set())
    again = tmp_path / "again"
    await history(server, again, "shop", ("DO 1",), steps[1:], "t", "u", restarted={"t"})


async def test_ordinary_migrations_read_nothing_again(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    texts = "id INT PRIMARY KEY, a VARCHAR(20), b TEXT, c CHAR(5)"
    before = (
        f"CREATE TABLE t ({texts}, d INT, e ENUM('x'), f DECIMAL(5,2), g TIMESTAMP(0) NULL) COMMENT 'x'",
        "INSERT INTO t VALUES (1, 'a ', 'b ', 'c', 4, 'x', 1.5, NOW())",
    )
    steps = [
        (
            "SET time_zone = '+00:00'",
            f"ALTER TABLE t {options}",
            "INSERT INTO t (id, b, d) SELECT MAX(id) + 1, 'b', MAX(id) + 9 FROM t",
        )
        for options in (
            "MODIFY a VARCHAR(200)",
            "MODIFY a TEXT",
            "MODIFY b TEXT NOT NULL DEFAULT ('x')",
            "CHANGE b b MEDIUMTEXT COMMENT 'b'",
            "MODIFY c VARCHAR(5), MODIFY d BIGINT UNSIGNED",
            "MODIFY e ENUM('x', 'y'), MODIFY f DECIMAL(9,2)",
            "MODIFY g TIMESTAMP(6) NULL",
            "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "ADD INDEX (a(5)), ADD UNIQUE (d)",
            "ADD COLUMN h INT, ADD i VARCHAR(9) DEFAULT NULL AFTER a, ALGORITHM=INSTANT",
            "RENAME COLUMN h TO j, DROP INDEX d, ALTER COLUMN d SET DEFAULT 5",
            "ENGINE=InnoDB, ROW_FORMAT=DYNAMIC COMMENT 'y'",
            "PARTITION BY HASH (id) PARTITIONS 3",
            "COALESCE PARTITION 1",
            "DROP COLUMN j",
            "REMOVE PARTITIONING",
            "ENGINE=MyISAM",
        )
    ]
    await history(mysql, tmp_path, database, before, steps, "t", restarted=set())


async def test_a_comment_with_a_quote_reads_nothing_again(
    either: tuple[MysqlServer, str], tmp_path: Path
) -> None:
    """The log has the sql_mode by which the server found the string's end."""
    server, database = either
    steps = (
        (r"ALTER TABLE t ADD w INT COMMENT 'the buyer\'s', DROP COLUMN v",),
        ("SET sql_mode = 'NO_BACKSLASH_ESCAPES'", r"ALTER TABLE t ADD x INT NOT NULL COMMENT 'C:\'"),
        (r"ALTER TABLE t COMMENT 'rock\'n\'roll'", "UPDATE t SET w = 7 WHERE id = 1"),
    )
    await history(server, tmp_path, database, (T, ROWS), steps, "t", restarted=set())


async def test_a_key_that_the_server_numbers_gets_wider(
    either: tuple[MysqlServer, str], tmp_path: Path
) -> None:
    """A column that was numbered before keeps its zeros. Any other one gets numbers in their place."""
    server, database = either
    before = (
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        "CREATE TABLE u (id INT PRIMARY KEY, v INT)",
        *(f"INSERT INTO {table} VALUES (0, 1), (-5, 2), (7, 3)" for table in "tu"),
    )
    wider = "MODIFY id BIGINT NOT NULL AUTO_INCREMENT"
    strict = "SET sql_mode = 'STRICT_ALL_TABLES'"
    steps = (
        (strict, f"ALTER TABLE t {wider}", f"ALTER TABLE u {wider}"),
        ("INSERT INTO t (v) VALUES (4)", "UPDATE t SET v = 9 WHERE id = 0"),
    )
    await history(server, tmp_path, database, before, steps, "t", "u", restarted={"u"})
    assert server.sql("SELECT COUNT(*) FROM u WHERE id = 0", database=database) == [(0,)]


# A clause, and what comes of the rows that there were: `None` if they are read again.
CONSTANTS: Final = (
    "a INT NOT NULL DEFAULT 7, ADD b BIGINT UNSIGNED DEFAULT 18446744073709551615 AFTER id",
    "c TINYINT DEFAULT -128, ADD COLUMN (d SMALLINT UNSIGNED NOT NULL DEFAULT '65535', e MEDIUMINT DEFAULT +5)",
    "f DECIMAL(10,2) NOT NULL DEFAULT -12345678.9, ADD g NUMERIC(5) DEFAULT '00042', ADD h DECIMAL DEFAULT - 7.000",
    "i VARCHAR(20) NOT NULL DEFAULT 'it is: 5', ADD j CHAR(3) DEFAULT 'abc' COLLATE utf8mb4_bin, ADD k CHAR DEFAULT ''",
    "l DATE DEFAULT '2024-02-29', ADD m DATETIME(3) NOT NULL DEFAULT '1999-12-31 23:59:59' ON UPDATE NOW(3)",
    "n DATETIME DEFAULT '2020-01-01', ADD o TIME DEFAULT '23:59:59', ADD p YEAR NOT NULL DEFAULT 1999",
    "q BOOL NOT NULL DEFAULT FALSE, ADD r BOOLEAN DEFAULT true COMMENT 'x', ADD s FLOAT DEFAULT 3",
    "t DOUBLE DEFAULT -2",
    "u INT NOT NULL, ADD v2 DECIMAL(40,2), ADD w DECIMAL(30,5) NOT NULL, ADD x DOUBLE PRECISION NOT NULL",
    "y TEXT NOT NULL, ADD z VARCHAR(9) CHARACTER SET latin1 NOT NULL, ADD za VARBINARY(3) NOT NULL",
    "zb BLOB NOT NULL, ADD zd DECIMAL(0) NOT NULL, ADD ze DECIMAL(0,0) DEFAULT 1234567890",
    "zc INT DEFAULT 3 /* a comment */, ADD INDEX (zc), DROP COLUMN a, ALGORITHM=INPLACE",
)
READ_AGAIN: Final = (
    "x TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",
    "x DATETIME DEFAULT NOW()",
    "x TIMESTAMP NOT NULL DEFAULT '2020-01-01 00:00:00'",
    "x INT DEFAULT 1.5",
    "x DECIMAL(5,1) DEFAULT 1.25",
    "x DATE DEFAULT 20240229",
    "x VARCHAR(9) DEFAULT _latin1'abc'",
    "x VARCHAR(9) DEFAULT 'ü'",
    "x VARCHAR(9) DEFAULT 'a '",
    "x VARCHAR(9) DEFAULT 5",
    "x VARBINARY(9) DEFAULT 'abc'",
    "x BIT(3) NOT NULL DEFAULT b'101'",
    "x ENUM('a', 'b') NOT NULL",
    "x SET('a', 'b') DEFAULT 'a,b'",
    "x INT DEFAULT 0x41",
    "x DOUBLE DEFAULT 0.1",
    "x INT NOT NULL DEFAULT 1, ADD y BINARY(3) NOT NULL",
    f"x INT({'0' * 5_000}10) NOT NULL DEFAULT 1",
)
EXPRESSIONS: Final = (
    "x INT DEFAULT (1 + 1)",
    "x VARCHAR(40) DEFAULT (CONCAT('x', id))",
    "x INT AS (v + 1) STORED",
)


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
async def test_columns_that_come_with_constants_read_nothing_again(
    mysql_factory: MysqlFactory, tmp_path: Path, metadata: str
) -> None:
    """What is certain of the rows that there were is what the server has in them, and later NULLs stay NULL."""
    server = mysql_factory({**GTIDS, "binlog_row_metadata": metadata})
    server.sql("CREATE DATABASE shop")
    await history(server, tmp_path, "shop", (T, ROWS), constants(), "t", restarted=set())


async def test_columns_that_come_with_constants_on_the_oldest_server(
    mysql56: MysqlServer, database56: str, tmp_path: Path
) -> None:
    await history(mysql56, tmp_path, database56, (T, ROWS), constants(), "t", restarted=set())


def constants() -> Steps:
    """One clause after the other; of the rows, one has been changed before it, and one gets NULLs after it."""
    added = [f"ALTER TABLE t ADD COLUMN {clause}" for clause in CONSTANTS]
    return (
        *((statement, "INSERT IGNORE INTO t (id, v) SELECT MAX(id) + 1, 9 FROM t") for statement in added),
        ("UPDATE t SET r = NULL, zc = NULL, b = NULL WHERE id = 1", "UPDATE t SET v = 5 WHERE id = 2"),
        ("ALTER TABLE t ADD d1 INT DEFAULT 1", "ALTER TABLE t ADD d2 INT DEFAULT 2", "UPDATE t SET v = 6"),
        ("ALTER TABLE t DROP COLUMN d1", "ALTER TABLE t ADD COLUMN d1 VARCHAR(3) DEFAULT 'new'"),
        (
            "SET sql_mode = 'STRICT_ALL_TABLES'",
            "ALTER TABLE t CHANGE d2 d3 INT DEFAULT 4",
            "UPDATE t SET d3 = 8 WHERE id = 3",
        ),
    )


@pytest.mark.parametrize("statements", [READ_AGAIN, EXPRESSIONS], ids=["literals", "expressions"])
async def test_columns_whose_values_are_not_certain_are_read_again(
    mysql: MysqlServer, database: str, tmp_path: Path, statements: Sequence[str]
) -> None:
    tables = [f"t{number}" for number in range(len(statements))]
    before = [
        f"{text} {table} {rest}"
        for table in tables
        for text, rest in (("CREATE TABLE", "(id INT PRIMARY KEY, v INT)"), ("INSERT INTO", "VALUES (1, 1)"))
    ]
    steps = [(f"ALTER TABLE {table} ADD {added}",) for table, added in zip(tables, statements, strict=True)]
    await history(mysql, tmp_path, database, before, steps, *tables, restarted=set(tables))


def test_the_server_refuses_what_would_make_a_constant_uncertain(mysql: MysqlServer, database: str) -> None:
    mysql.sql(T, database=database)
    with pytest.raises(OperationalError, match="unsafe"):  # with a function whose value nobody can tell
        mysql.sql("ALTER TABLE t ADD x CHAR(36) DEFAULT (UUID())", database=database)
    for clause in ("ALTER x SET DEFAULT 2", "MODIFY x BIGINT", "CHANGE x y INT", "RENAME COLUMN x TO y"):
        with pytest.raises(OperationalError, match="Unknown column"):
            mysql.sql(f"ALTER TABLE t ADD x INT DEFAULT 1, {clause}", database=database)


BY_STATEMENT: Final = "SET SESSION binlog_format = 'STATEMENT'"
SESSION_TABLE: Final = (BY_STATEMENT, "CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, v INT, w INT)")
# Of each what comes before the snapshot, and the steps. `t`, `u` and `audit` are held against the source.
STATEMENTS: Final[dict[str, tuple[tuple[str, ...], Steps]]] = {
    "trigger": (
        ("CREATE TRIGGER a AFTER DELETE ON t FOR EACH ROW INSERT INTO audit VALUES (OLD.id, OLD.v)",),
        ((BY_STATEMENT, "DELETE FROM t"),),
    ),
    "cascade": (
        ("ALTER TABLE u ADD FOREIGN KEY (id) REFERENCES t (id) ON DELETE CASCADE",),
        ((BY_STATEMENT, "DELETE FROM t"),),
    ),
    "view": (("CREATE VIEW a_view AS SELECT * FROM t",), ((BY_STATEMENT, "DELETE FROM a_view"),)),
    "truncated temporary table": ((), ((*SESSION_TABLE, "TRUNCATE TABLE t"),)),
    "altered temporary table": ((), ((*SESSION_TABLE, "ALTER TABLE t DROP COLUMN v"),)),
    "renamed temporary table": ((), ((*SESSION_TABLE, "ALTER TABLE t RENAME TO elsewhere"),)),
    "XA transaction": (
        (),
        (
            (
                BY_STATEMENT,
                "XA START 'statements'",
                "UPDATE t SET v = v + 1",
                "DELETE FROM u",
                "XA END 'statements'",
                "XA PREPARE 'statements'",
            ),
            ("INSERT INTO audit VALUES (1, 1)",),
            ("XA COMMIT 'statements'",),
        ),
    ),
    "CREATE TABLE … SELECT": (
        (),
        (("DROP TABLE t",), (BY_STATEMENT, "CREATE TABLE t (id INT PRIMARY KEY) SELECT id, v FROM u")),
    ),
    "CREATE TABLE … TABLE": (
        (),
        (("DROP TABLE u",), (BY_STATEMENT, "create table if not exists u (primary key (id)) table t")),
    ),
}


@pytest.mark.parametrize("case", STATEMENTS)
async def test_a_session_that_logs_statements(
    mysql: MysqlServer, database: str, tmp_path: Path, case: str
) -> None:
    first, steps = STATEMENTS[case]
    others = [f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)" for name in ("u", "audit")]
    before = (T, *others, ROWS, "INSERT INTO u SELECT * FROM t", *first)
    await history(mysql, tmp_path, database, before, steps, "t", "u", "audit")


async def test_views_are_no_tables(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    mysql.sql(T, ROWS, "CREATE VIEW before_it AS SELECT * FROM t", database=database)
    async with running(pipeline(mysql, tmp_path, database, mode=SnapshotMode.INITIAL)) as service:
        await service.begun()
        mysql.sql("CREATE VIEW v AS SELECT * FROM t", "ALTER VIEW v AS SELECT id FROM t", database=database)
        mysql.sql("INSERT INTO t VALUES (3, 3)", "DROP VIEW v", database=database)
        await at_rest(service, mysql)
        assert service.status()["keyless"] == []
        assert set(service.status()["mirrors"]) == {f"{database}.t"}
        await service.stop()
    assert {table.name for table in entries(tmp_path / "journal")[-1].checkpoint.schemas} == {"t"}


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
async def test_a_table_whose_rows_are_elsewhere_stops_by_name(
    mysql_factory: MysqlFactory, tmp_path: Path, metadata: str
) -> None:
    server = mysql_factory({**GTIDS, "binlog_row_metadata": metadata})
    server.sql("CREATE DATABASE shop")
    server.sql(T, ROWS, "CREATE TABLE first (id INT PRIMARY KEY) ENGINE=BLACKHOLE", database="shop")
    merged = "(id INT, v INT, INDEX (id))"
    created = (
        "CREATE TABLE hole (id INT PRIMARY KEY, v INT) ENGINE=BLACKHOLE",
        "INSERT INTO hole VALUES (1, 1)",
        "SET default_storage_engine = BLACKHOLE",
        "CREATE TABLE silent (id INT PRIMARY KEY, v INT)",
        "INSERT INTO silent VALUES (1, 1)",
        f"CREATE TABLE a {merged} ENGINE=MyISAM",
        f"CREATE TABLE merged {merged} ENGINE=MERGE UNION=(a)",
        "CREATE TABLE rounded (f FLOAT NOT NULL) ENGINE=CSV",
        "INSERT INTO rounded VALUES (1.23456789)",
        "INSERT INTO t VALUES (3, 3)",
    )
    async with running(pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)) as service:
        await service.begun()
        server.sql(*created, database="shop")
        await service.until(lambda: len(service.status()["stopped"]) > 5, "six have stopped")
        await at_rest(service, server)
        stopped = service.status()["stopped"]
        assert stopped.keys() == {
            f"shop.{table}" for table in ("first", "hole", "silent", "a", "merged", "rounded")
        }
        assert stopped["shop.merged"].startswith("its engine is MRG_MYISAM")
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("shop", "t")) == []


async def test_strict_conversions_of_one_table_after_the_other_read_none_again(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    tables = ("a", "b", "c")
    before = [
        s for t in tables for s in (f"CREATE TABLE {t} (id INT PRIMARY KEY)", f"INSERT INTO {t} VALUES (1)")
    ]
    step = [f"ALTER TABLE {table} MODIFY id BIGINT" for table in tables]
    await history(mysql, tmp_path, database, before, (step,), *tables, restarted=set())


async def test_statements_that_only_name_a_table_leave_it_alone(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory(GTIDS)  # whose log has minimal metadata
    server.sql("CREATE DATABASE shop")
    step = (
        "INSERT INTO t VALUES (3, 3)",
        "CREATE TABLE l LIKE t",
        "INSERT INTO t VALUES (4, 4)",
        "CREATE TABLE chi (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (id))",
        "INSERT INTO t VALUES (5, 5)",
        "CREATE VIEW w AS SELECT * FROM t",
        "CREATE TRIGGER r AFTER INSERT ON t FOR EACH ROW SET @a = 1",
        "INSERT INTO t VALUES (6, 6)",
    )
    await history(server, tmp_path, "shop", (T, ROWS), (step,), "t", "l", "chi", restarted=set())


async def test_rows_that_alter_ignore_drops(mysql56: MysqlServer, database56: str, tmp_path: Path) -> None:
    before = (T, "INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)")
    steps = (("ALTER IGNORE TABLE t ADD UNIQUE KEY (v)",), ("INSERT INTO t VALUES (4, 4)",))
    await history(mysql56, tmp_path, database56, before, steps, "t", restarted={"t"})


@pytest.mark.parametrize("old", [True, False])
async def test_memory_tables_that_a_restart_of_the_server_empties(
    mysql_factory: MysqlFactory, mysql56_factory: MysqlFactory, tmp_path: Path, old: bool
) -> None:
    start: Callable[[], MysqlServer] = lambda: (  # noqa: E731
        mysql56_factory(GTIDS_56) if old else mysql_factory({**GTIDS, **FULL_METADATA})
    )
    server = start()
    server.sql("CREATE DATABASE shop")
    others = [f"CREATE TABLE {name} LIKE t" for name in ("u", "w", "x")]
    filled = [f"INSERT INTO {name} SELECT * FROM t" for name in ("u", "w", "x")]
    server.sql(f"{T} ENGINE=MEMORY", ROWS, *others, *filled, database="shop")
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        server.stop()
        server.start()
        # MySQL 5.6 gives what one statement finds empty, and what that statement creates, one GTID.
        statements = ("INSERT INTO t VALUES (3, 3)", "SELECT * FROM u, w", "CREATE TABLE y LIKE x")
        server.sql(*statements, "INSERT INTO y VALUES (1, 1)", database="shop")
        await at_rest(service, server)
        assert service.status()["stopped"] == {}
        await service.stop()
    tables = [TableId("shop", name) for name in ("t", "u", "w", "x", "y")]
    assert unequal(server, tmp_path / "journal", *tables) == []


@pytest.mark.full
@pytest.mark.parametrize("old", [True, False])
async def test_memory_tables_that_are_filled_where_they_are_found_empty(
    mysql_factory: MysqlFactory,
    mysql56_factory: MysqlFactory,
    tmp_path: Path,
    old: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With more rows than a slice has, for which a thousand bytes stand."""
    monkeypatch.setattr("pipeline.binlog.stream.SliceBound", lambda: SliceBound(bytes=1000))
    server = mysql56_factory(GTIDS_56) if old else mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop")
    many = ", ".join(f"({key}, 0)" for key in range(1000))
    memory = [f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) ENGINE=MEMORY" for name in ("t", "u", "w")]
    server.sql(*memory, T.replace(" t ", " filler "), f"INSERT INTO filler VALUES {many}", database="shop")
    tables = [TableId("shop", name) for name in ("t", "u", "w", "filler")]
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        server.sql(*(f"INSERT INTO {name} VALUES (7, 7)" for name in ("t", "u", "w")), database="shop")
        server.stop()
        server.start()
        server.sql(
            "INSERT INTO t SELECT * FROM filler",
            "INSERT INTO u SELECT filler.* FROM filler LEFT JOIN w USING (id)",
            "INSERT INTO w VALUES (9, 9)",
            database="shop",
        )
        await at_rest(service, server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", *tables) == []


async def test_a_load_data_that_finds_a_memory_table_empty(
    mysql56_factory: MysqlFactory, tmp_path: Path
) -> None:
    """MySQL 5.6 logs both without a BEGIN, in a session that logs statements."""
    server = mysql56_factory(GTIDS_56)
    server.sql("CREATE DATABASE shop")
    server.sql(
        f"{T} ENGINE=MEMORY", ROWS, T.replace(" t ", " u "), "INSERT INTO u VALUES (1, 1)", database="shop"
    )
    (tmp_path / "rows").write_text("8\n9\n")
    async with running(pipeline(server, tmp_path, "shop")) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        server.stop()
        server.start()
        load = f"LOAD DATA INFILE '{tmp_path / 'rows'}' INTO TABLE t (id)"
        server.sql(BY_STATEMENT, load, "INSERT INTO t VALUES (10, 1)", database="shop")
        server.sql("INSERT INTO u VALUES (2, 2)", database="shop")
        await at_rest(service, server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", *(TableId("shop", name) for name in ("t", "u"))) == []


@pytest.mark.parametrize(
    ("old", "charset", "name"),
    [(True, "latin1", "té"), (True, "gbk", "t表"), (True, "sjis", "表"), (False, "gbk", "t表")],
)
async def test_what_a_server_writes_itself_for_a_client_of_another_character_set(
    mysql_factory: MysqlFactory,
    mysql56_factory: MysqlFactory,
    tmp_path: Path,
    old: bool,
    charset: str,
    name: str,
) -> None:
    """MySQL 5.6 writes which tables a DROP meant, and that a MEMORY table is empty, in UTF-8 in any case."""
    server = mysql56_factory(GTIDS_56) if old else mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql("CREATE DATABASE shop")
    for table, engine in ((name, "MEMORY"), (f"{name}_d", "InnoDB")):
        creation = f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT) ENGINE={engine}"
        server.sql(creation, f"INSERT INTO {table} VALUES (1, 1), (2, 2)", database="shop")
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        await service.stop()
    server.stop()
    server.start()
    with closing(server.connect(database="shop")) as connection, connection.cursor() as cursor:
        connection.set_character_set(charset)
        cursor.execute(f"DROP TABLE {name}_d")
        cursor.execute(f"SELECT * FROM {name}")
    async with running(settings) as service:
        await service.begun()
        await at_rest(service, server)
        assert service.status()["stopped"] == {}
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("shop", name)) == []
    assert replay(tmp_path / "journal", TableId("shop", f"{name}_d")).live() == {}


ALTERED_TWICE: Final = (
    "ALTER TABLE t ADD COLUMN x INT",
    "INSERT INTO t (id, v) VALUES (3, 3)",
    "DELETE FROM t WHERE id = 1",
    "ALTER TABLE t RENAME COLUMN x TO y",
    "INSERT INTO t (id, v) VALUES (4, 4)",
    "CREATE TABLE fresh (id INT PRIMARY KEY, v INT)",
    "INSERT INTO fresh VALUES (1, 1)",
    "ALTER TABLE fresh ADD COLUMN x INT",
    "INSERT INTO fresh VALUES (2, 2, 2)",
    "CREATE TABLE gone (id INT PRIMARY KEY)",
    "INSERT INTO gone VALUES (1)",
    "DROP TABLE gone",
)


async def test_changes_whose_columns_nobody_can_name_have_the_table_read_again(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """They come while capture is down, so that one answer has both statements in it."""
    server = mysql_factory(GTIDS)  # whose log has minimal metadata
    server.sql("CREATE DATABASE shop")
    server.sql(T, ROWS, database="shop")
    settings = pipeline(server, tmp_path, "shop", mode=SnapshotMode.INITIAL)
    async with running(settings) as service:
        await service.begun()
        await at_rest(service, server)
        await service.stop()
    server.sql(*ALTERED_TWICE, database="shop")
    for _ in range(2):  # it's the same once more
        async with running(settings) as service:
            await service.begun()
            await at_rest(service, server)
            assert service.status()["stopped"] == {}
            await service.stop()
        server.sql("INSERT INTO t (id, v) SELECT MAX(id) + 1, 9 FROM t", database="shop")
    async with running(settings) as service:
        await service.begun()
        await at_rest(service, server)
        await service.stop()
    assert unequal(server, tmp_path / "journal", TableId("shop", "t"), TableId("shop", "fresh")) == []


async def test_a_table_without_a_mirror_stops_where_changes_cannot_be_named(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """No other actor would notice them."""
    server = mysql_factory(GTIDS)
    server.sql("CREATE DATABASE shop")
    server.sql(T, ROWS, database="shop")
    settings = pipeline(server, tmp_path, "shop")
    async with running(settings) as service:
        await service.begun()
        await service.stop()
    server.sql(*ALTERED_TWICE[:5], database="shop")
    async with running(settings) as service:
        await service.begun()
        stopped = await service.until(lambda: service.status()["stopped"], "it's stopped")
        assert "missing from its changelog" in stopped["shop.t"]
        await service.stop()
