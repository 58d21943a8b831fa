"""Tables of many kinds of keys at once, whose rows change while chunks of two rows are read."""

from contextlib import closing
from pathlib import Path

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.journal_oracle import unequal
from tests.servers.service import pipeline, running

# The names of the key's columns, these columns, and values for them, in any order.
KEYS = {
    "unsigned": ("k", "k BIGINT UNSIGNED", ["0", "1", *(str(2**63 + n) for n in (-1, 0, 1)), str(2**64 - 1)]),
    "signed": ("k", "k BIGINT", [str(-(2**63)), "-1", "0", "1", str(2**63 - 1)]),
    "anycase": (
        "k",
        "k VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
        ["''", "'a'", "'B'", "'ä2'", "'Zebra'", "'zebra 2'", "'straße'", "'😀'", "'x\\\\'", "'%s'", "'''q'"],
    ),
    "padded": (
        "k",
        "k VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_swedish_ci",
        ["'b'", "'ü'", "'A '", "'z'"],
    ),
    "exact": ("k", "k VARCHAR(9) COLLATE utf8mb4_bin", ["'a'", "'A'", "'á'", "'b '", "'Ω'"]),
    "bytes": ("k", "k VARBINARY(4)", ["x''", "x'00'", "x'ff'", "x'27'", "x'5c'", "x'0000'"]),
    "fixed": ("k", "k BINARY(3)", ["x'00'", "x'ff'", "x'6100'"]),
    "number": ("k", "k DECIMAL(30, 10)", ["-1.5", "0", "0.0000000001", "99999999999999999999.9999999999"]),
    "moment": ("k", "k DATETIME(6)", ["'1000-01-01'", "'2024-02-29 23:59:59.999999'", "'9999-12-31'"]),
    "day": ("k", "k DATE", ["'1000-01-01'", "'2024-02-29'", "'9999-12-31'"]),
    "several": (
        "abc",
        "a VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, b BIGINT UNSIGNED, c DATETIME(3)",
        [
            f"{a}, {b}, {c}"
            for a in ("'x'", "'Y'")
            for b in ("0", str(2**64 - 1))
            for c in ("'2024-01-01'", "'2024-01-01 00:00:00.001'")
        ],
    ),
}


async def test_keys_of_every_kind(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    tables = tuple(TableId(database, name) for name in KEYS)
    for name, (names, columns, values) in KEYS.items():
        key = ", ".join(names)
        rows = ", ".join(f"({value}, {number})" for number, value in enumerate(values))
        create = f"CREATE TABLE `{name}` ({columns}, v INT, PRIMARY KEY ({key}))"
        mysql.sql(create, f"INSERT INTO `{name}` VALUES {rows}", database=database)
    async with running(pipeline(mysql, tmp_path, database, chunk_rows=2, windows=3)) as service:
        await service.begun()
        await service.execute("s")
        with closing(mysql.connect(database=database)) as connection, connection.cursor() as cursor:
            for name in KEYS:
                cursor.execute(f"UPDATE `{name}` SET v = v + 100 WHERE v % 2")
                cursor.execute(f"DELETE FROM `{name}` WHERE v = 0")
            cursor.execute("UPDATE anycase SET k = 'A' WHERE k = 'a'")
            cursor.execute("UPDATE `unsigned` SET k = k - 1 WHERE k = 18446744073709551615")
            cursor.execute("UPDATE several SET a = UPPER(a), b = b DIV 2")
        await service.completed("s")
        await service.caught_up(mysql)
        await service.stop()
    assert unequal(mysql, tmp_path / "journal", *tables) == []
