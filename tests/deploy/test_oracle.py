"""The oracle must be able to say no, and each value has the same form however it's had."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deploy.demo import judge
from deploy.demo.judge import reads_only, same_changes
from deploy.oracle.changes import untrue_changes
from deploy.oracle.forms import forms, forms_of_rows
from deploy.oracle.source import source_table
from deploy.oracle.tables import unequal_rows
from deploy.toolchain.mysql_server import Account, LoggedCommand, MysqlServer
from pipeline.schema.table_schema import TableId
from tests.chaos import oracles
from tests.histories import play
from tests.servers import journal_oracle, lake_oracle

T = TableId("shop", "t")

# The life of two keys: written, written, deleted, brought back; and moved to another key.
LIFE = [("u", "1", 2, 4), ("d", "1", 2, 4), ("c", "1", 3, 9), ("d", "2", 1, 0), ("u", "7", 1, 12)]

POINT = bytes(4) + bytes.fromhex("0101000000000000000000F03F0000000000000040")
VECTOR = bytes.fromhex("0000803F000020C0")

# Of each type: a literal, what the lake has of it, and its form.
VALUES: list[tuple[str, str, pa.Scalar, bytes | None]] = [
    ("BIGINT UNSIGNED", "18446744073709551615", pa.scalar(Decimal(2**64 - 1)), b"18446744073709551615"),
    ("INT(9) ZEROFILL", "42", pa.scalar(42, pa.int64()), b"42"),
    ("SMALLINT", "-7", pa.scalar(-7, pa.int16()), b"-7"),
    ("YEAR", "0", pa.scalar(0, pa.int16()), b"0"),
    ("DECIMAL(12,9)", "-0.000000120", pa.scalar(Decimal("-0.000000120")), b"-0.00000012"),
    ("DECIMAL(10,2)", "100", pa.scalar(Decimal("100.00")), b"100"),
    ("DECIMAL(65,2)", "1.50", pa.scalar("1.50"), b"1.50"),
    ("FLOAT", "0.1", pa.scalar(0.1, pa.float32()), b"0.10000000149011612"),
    ("DOUBLE", "-1e300", pa.scalar(-1e300), b"-1e+300"),
    ("DOUBLE", "-0.0", pa.scalar(-0.0), b"0"),
    ("BIT(1)", "1", pa.scalar(True), b"1"),
    ("BIT(10)", "1023", pa.scalar(b"\x03\xff"), b"\x03\xff"),
    ("VARBINARY(9)", r"x'00FF0A095C4E'", pa.scalar(b"\x00\xff\n\t\\N"), b"\x00\xff\n\t\\N"),
    ("BINARY(2)", "x'61'", pa.scalar(b"a\0"), b"a\0"),
    ("VARCHAR(9)", "''", pa.scalar(""), b""),
    ("VARCHAR(9) CHARACTER SET latin1", "'ß'", pa.scalar("ß"), "ß".encode()),
    ("TEXT CHARACTER SET utf8mb4", r"'\t🎁\\N'", pa.scalar("\t🎁\\N"), "\t🎁\\N".encode()),
    ("ENUM('a', 'ß')", "'ß'", pa.scalar("ß"), "ß".encode()),
    ("DATE", "'2024-02-29'", pa.scalar(date(2024, 2, 29)), b"2024-02-29"),
    ("DATE", "'0000-03-01'", pa.scalar(-719468, pa.int32()).cast(pa.date32()), b"0000-03-01"),
    ("DATE", "'2024-00-00'", pa.scalar(None, pa.date32()), None),
    (
        "DATETIME",
        "'2024-02-29 10:00:00'",
        pa.scalar(datetime(2024, 2, 29, 10)),  # noqa: DTZ001 - MySQL's DATETIME has no zone
        b"2024-02-29 10:00:00.000000",
    ),
    ("DATETIME(2)", "'2024-02-30 10:00:00.5'", pa.scalar(None, pa.timestamp("us")), None),
    (
        "TIMESTAMP(6) NULL",
        "'2024-02-29 10:00:00.123456'",
        pa.scalar(datetime(2024, 2, 29, 10, 0, 0, 123456, UTC)),
        b"2024-02-29 10:00:00.123456",
    ),
    ("TIME(2)", "'-838:59:58.25'", pa.scalar(-3020398250000), b"-3020398250000"),
    ("POINT", "POINT(1, 2)", pa.scalar(POINT), POINT),
]
# The same of types that MySQL 5.6 hasn't.
NEW: list[tuple[str, str, pa.Scalar, bytes | None]] = [
    ("JSON", """'{"a": "ß"}'""", pa.scalar('{"a": "ß"}'), '{"a": "ß"}'.encode()),
    ("VECTOR(2)", "TO_VECTOR('[1, -2.5]')", pa.scalar([1.0, -2.5], pa.list_(pa.float32())), VECTOR),
]


def written(
    server: MysqlServer, database: str, values: list[tuple[str, str, pa.Scalar, bytes | None]]
) -> TableId:
    """A table that has these values in a row, and a row of NULLs."""
    columns = ", ".join(f"c{place} {kind}" for place, (kind, *_) in enumerate(values))
    names = ", ".join(f"c{place}" for place, _ in enumerate(values))
    literals = ", ".join(literal for _, literal, *_ in values)
    server.sql(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'",
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {columns})",
        f"INSERT INTO t (id, {names}) VALUES (1, {literals})",
        "INSERT INTO t (id) VALUES (2)",
        database=database,
    )
    return TableId(database, "t")


def _has_the_forms(
    server: MysqlServer, database: str, values: list[tuple[str, str, pa.Scalar, bytes | None]]
) -> None:
    expected = [b"1", *(form for *_, form in values)]
    source = source_table(server, written(server, database, values))
    assert source.slice(0, 1).to_pylist() == [dict(zip(source.column_names, expected, strict=True))]
    assert source.slice(1, 1).to_pylist() == [dict.fromkeys(source.column_names) | {"id": b"2"}]
    columns = [pa.array([1]), *(pa.repeat(value, 1) for *_, value, _ in values)]
    assert forms(pa.table(columns, names=source.column_names)).to_pylist() == source.slice(0, 1).to_pylist()


def test_a_value_has_the_same_form_in_source_and_lake(mysql: MysqlServer, database: str) -> None:
    _has_the_forms(mysql, database, [*VALUES, *NEW])


def test_a_value_of_mysql_56_has_the_same_form_in_source_and_lake(
    mysql56: MysqlServer, database56: str
) -> None:
    _has_the_forms(mysql56, database56, VALUES)


def test_values_as_python_has_them_have_the_same_form() -> None:
    values: list[Any] = [
        2**64 - 1, True, Decimal("-0.000000120"), Decimal("1E+2"), 0.5, "ß", b"\0", date(2024, 2, 29),
        datetime(2024, 2, 29, 10), datetime(2024, 2, 29, 10, tzinfo=UTC), [1.0, -2.5], None,  # noqa: DTZ001
    ]  # fmt: skip
    forms_ = [
        b"18446744073709551615", b"1", b"-0.00000012", b"100", b"0.5", "ß".encode(), b"\0", b"2024-02-29",
        b"2024-02-29 10:00:00.000000", b"2024-02-29 10:00:00.000000", VECTOR, None,
    ]  # fmt: skip
    # A column of one type, and one that has been of all of them.
    for value, form in zip(values, forms_, strict=True):
        assert forms_of_rows([{"c": value}]).to_pylist() == [{"c": form}]
    assert forms_of_rows([{"c": value} for value in values])["c"].to_pylist() == forms_


def test_the_demo_the_chaos_runs_and_the_histories_have_one_oracle() -> None:
    for each in (judge, journal_oracle, lake_oracle):
        for function in (unequal_rows, source_table, untrue_changes):
            assert vars(each)[function.__name__] is function
    for each in (oracles, play):
        assert vars(each)["unequal"] is journal_oracle.unequal
        assert vars(each)["unequal_lake"] is lake_oracle.unequal_lake


def test_a_table_that_is_not_there_has_no_rows(mysql: MysqlServer, database: str) -> None:
    assert len(source_table(mysql, TableId(database, "t"))) == 0
    mysql.sql("CREATE TABLE T (a INT)", database=database)
    assert source_table(mysql, TableId(database, "t")).column_names == []
    assert source_table(mysql, TableId(database, "T")).column_names == ["a"]


SOURCE: list[dict[str, Any]] = [{"id": 1, "v": "a"}, {"id": 2, "v": None}, {"id": 3, "v": ""}]


@pytest.mark.parametrize(
    ("copy", "told"),
    [
        (SOURCE[::-1], ""),
        (SOURCE[:2], "isn't there"),
        ([*SOURCE, {"id": 4, "v": "a"}], "isn't in the source"),
        ([*SOURCE[:2], {"id": 3, "v": None}], "is {id: '3', v: ''} in the source"),
        ([*SOURCE, SOURCE[0]], "is there twice"),
        ([{**row, "w": None} for row in SOURCE], "in the source"),
        ([{"id": row["id"]} for row in SOURCE], "in the source"),
    ],
    ids=["equal", "lost", "invented", "another", "twice", "a column too many", "a column too few"],
)
def test_rows_that_differ_are_told(copy: list[dict[str, Any]], told: str) -> None:
    found = unequal_rows("t", forms_of_rows(copy), forms_of_rows(SOURCE), ["id"])
    assert any(told in text for text in found) if told else not found, found


def test_one_key_of_several_rows_is_told() -> None:
    """Two rows of the source that are one in the copy; and the same where they're two there as well."""
    alike = forms_of_rows([{"id": None, "v": 1}, {"id": None, "v": 2}])
    for copy in (alike.slice(0, 1), alike):
        assert any("is the key of several rows" in text for text in unequal_rows("t", copy, alike, ["id"]))


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (LIFE, ""),
        (LIFE[:-1], "missing from the changelog"),
        ([*LIFE, LIFE[-1]], "too much in the changelog"),
        ([LIFE[0], LIFE[2], LIFE[1], *LIFE[3:]], "a key goes back in time"),
    ],
    ids=["right", "a change is missing", "a change is there twice", "a key goes back in time"],
)
def test_a_changelog_is_held_against_the_tally(life: list[tuple[str, str, int, int]], told: str) -> None:
    rows = [
        {"__scn": scn, "__ordinal": 0, "__op": op, "id": int(key), "version": version, "op_no": number}
        for scn, (op, key, version, number) in enumerate(life)
    ]
    tally = pa.Table.from_pylist(
        [
            dict(zip(("table", "op", "key", "version", "op_no"), ("t", *line), strict=True))
            for line in LIFE[::-1]
        ]
    )
    found = same_changes(T, pa.Table.from_pylist(rows[::-1]), ["id"], tally)
    assert found.compared == len(life)
    assert any(told in text for text in found.differences) if told else not found.differences, (
        found.differences
    )


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1)",
        "SELECT 1 FOR UPDATE",
        "LOCK TABLES t READ",
        "SET GLOBAL x = 1",
        "FLUSH TABLES",
    ],
)
def test_a_command_that_does_more_than_read_is_told(text: str) -> None:
    ours, theirs = Account("tidemark", ""), LoggedCommand(8, "Query", "DELETE FROM t")
    log = [
        LoggedCommand(7, "Connect", "tidemark@127.0.0.1 on using TCP/IP"),
        LoggedCommand(8, "Connect", "writer@127.0.0.1 on shop using TCP/IP"),
        LoggedCommand(7, "Query", "SELECT @@GLOBAL.gtid_executed"),
        theirs,
    ]
    assert not reads_only(log, ours).differences
    assert reads_only([*log, LoggedCommand(7, "Query", text)], ours).differences == (f"Query: {text}",)


def test_a_change_is_as_old_as_the_commit_that_brought_it() -> None:
    """One before the first commit's segment, one in it, one without a time, two after it, one not readable yet."""
    times = [1_000_000, 2_500_000, None, 3_000_000, 4_000_000, 5_000_000]
    changelog = pa.table(
        {"__segment": [1, 3, 3, 4, 5, 6], "__commit_time": pa.array(times, pa.timestamp("us", "UTC"))}
    )
    found = judge._ages(changelog, {5: 20.0, 3: 10.0})
    assert found.committed.tolist() == [1.0, 2.5, 3.0, 4.0]
    assert found.ages.tolist() == [9.0, 7.5, 17.0, 16.0]
    assert list(judge._freshness([found, judge._ages(changelog.slice(0, 0), {})])) == [
        "all of them, Spark's cold start and the kill included: p50 12.50 s, p99 16.97 s, over 4 changes",
        "those of the last 10 seconds: p50 12.50 s, p99 16.97 s, over 4 changes",
    ]
    assert all("no change was captured" in line for line in judge._freshness([judge._ages(changelog, {})]))
