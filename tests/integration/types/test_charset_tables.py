"""Every code of every character set, against the conversion that the server itself makes.

That columns of all sets read alike on both paths is what tests/integration/types/test_value_conformance.py holds; here
is what both refuse.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from functools import cache

import pyarrow as pa
import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import TableStopped
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.types.text.charsets import KNOWN_CHARSETS, TextError, to_strings, to_text
from pipeline.types.text.collations import BINARY, CHARSETS
from tests.servers.log import read_log
from tests.servers.source import connected, read_whole

# The bytes of a set's shortest code.
_UNITS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def codes() -> Iterator[bytes]:
    """All codes of one and two bytes, those of three in the EUCs, and some of four.

    Those are GB 18030's in the part where it isn't a formula and at the formula's edges, pairs of UTF-16's units, and
    some of UTF-32.
    """
    yield from (bytes([first]) for first in range(256))
    yield from (bytes([first, second]) for first in range(256) for second in range(256))
    yield from (bytes([0x8F, second, third]) for second in range(0xA1, 0xFF) for third in range(0xA1, 0xFF))
    yield from (
        bytes([0, plane, row, cell]) for plane in (0, 1, 16, 17) for row in range(256) for cell in (0, 255)
    )
    for first in range(0x81, 0x85):
        yield from (
            bytes([first, second, third, fourth])
            for second in range(0x30, 0x3A)
            for third in range(0x81, 0xFF)
            for fourth in range(0x30, 0x3A)
        )
    for first in (0x85, 0x8F, 0x90, 0xE3, 0xE4, 0xFE):
        yield from (
            bytes([first, second, third, fourth])
            for second in range(0x30, 0x3A)
            for third in (0x81, 0x9A, 0xFE)
            for fourth in (0x30, 0x35, 0x36, 0x39)
        )
    units = [
        bytes([high, low])
        for high in (0x00, 0x41, 0xD7, 0xD8, 0xDB, 0xDC, 0xDF, 0xE0)
        for low in (0x00, 0xD8, 0xFF)
    ]
    yield from (first + second for first in units for second in units)


@pytest.fixture(scope="module", params=["mysql", "mysql56"])
def server(request: pytest.FixtureRequest) -> MysqlServer:
    """The newest and the oldest MySQL."""
    server: MysqlServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(scope="module")
def with_codes(request: pytest.FixtureRequest) -> Iterator[MysqlServer]:
    """A MySQL with all the codes in a table."""
    server: MysqlServer = request.getfixturevalue(request.param)
    server.sql(
        "CREATE DATABASE codes", "CREATE TABLE codes.codes (code VARBINARY(4) PRIMARY KEY) CHARSET = binary"
    )
    with closing(server.connect(database="codes")) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO codes VALUES (%s)", [(code,) for code in sorted(set(codes()))])
    yield server
    server.sql("DROP DATABASE codes")


def servers_charsets(server: MysqlServer) -> dict[str, int]:
    """The sets that have characters, and the bytes of each one's longest code."""
    told = server.sql("SELECT character_set_name, maxlen FROM information_schema.character_sets")
    return {name: longest for name, longest in told if name != BINARY}


def ours(charset: str) -> str:
    """Our name of the set: old servers have one of their own for utf8mb3."""
    return "utf8mb3" if charset == "utf8" else charset


def text_of(code: bytes, told: str | None) -> str | None:
    """What the server printed for the code, in UTF-8 and hexadecimal; None where that isn't its text.

    It prints NULL for what isn't well formed (an old one prints surrogates as they are), nothing for what breaks off,
    and a question mark for what it has no character for.
    """
    try:
        text = bytes.fromhex(told or "").decode()
    except UnicodeDecodeError:
        return None
    return text if text and text.count("?") <= code.count(b"?") else None


def test_every_character_set_and_collation_is_known(server: MysqlServer) -> None:
    sets = {ours(charset) for charset in servers_charsets(server)}
    assert sets == (KNOWN_CHARSETS if "gb18030" in sets else KNOWN_CHARSETS - {"gb18030"})
    told = server.sql("SELECT id, character_set_name FROM information_schema.collations")
    assert {collation: CHARSETS.get(collation) for collation, _ in told} == {
        collation: ours(charset) for collation, charset in told
    }


# The newest server has the oldest one's sets, too. Most of the time goes into 350,000 refusals: `every` seventh of the
# codes that are to be refused is one in each row and each column of a set's table.
@pytest.mark.parametrize(
    ("with_codes", "every"),
    [
        ("mysql", 7),
        pytest.param("mysql", 1, marks=pytest.mark.full),
        pytest.param("mysql56", 1, marks=pytest.mark.full),
    ],
    indirect=["with_codes"],
)
def test_every_code_is_converted_as_by_the_server_or_refused_where_the_server_has_none(
    with_codes: MysqlServer, every: int
) -> None:
    server = with_codes
    for charset, longest in servers_charsets(server).items():
        unit = _UNITS.get(charset, 1)
        told = server.sql(
            # All in a few rows, since the driver takes its time for each.
            "SET SESSION group_concat_max_len = 1 << 30",
            "SELECT GROUP_CONCAT(CONCAT(HEX(code), ' ', IFNULL(text, ''))), COUNT(*) FROM ("
            # A code that is too short for a unit of the set's would be filled up with zeros.
            f"SELECT code, HEX(CONVERT(CONVERT(code USING {charset}) USING utf8mb4)) AS text FROM codes.codes"
            f" WHERE LENGTH(code) <= {longest} AND LENGTH(code) % {unit} = 0"
            f" AND ({unit} > 1 OR LENGTH(code) = 1 OR code >= x'80')) AS converted"
            " GROUP BY LENGTH(code), LEFT(code, 1)",
        )
        pairs = (pair.split(" ") for group, _ in told for pair in group.split(","))
        texts = {(code := bytes.fromhex(digits)): text_of(code, text) for digits, text in pairs}
        assert len(texts) == sum(count for _, count in told)  # a result that is too large would be cut
        # What begins with a character is that one and the rest, which is a code of its own.
        texts = {c: t for c, t in texts.items() if not any(texts.get(c[:n]) for n in range(1, len(c)))}
        known = [code for code, text in texts.items() if text is not None]
        found = to_strings(pa.array(known, pa.binary()), ours(charset), charset).to_pylist()
        wrong = [
            (code, texts[code], mine) for code, mine in zip(known, found, strict=True) if texts[code] != mine
        ]
        assert wrong == [], charset
        none = [code for code in texts.keys() - known if int.from_bytes(code) % every == 0]
        assert [code for code in none if not refused(code, ours(charset))] == [], charset


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """What is kept for the second server takes some 50 MB."""
    yield
    refused.cache_clear()


# Both servers have nearly the same codes that are none.
@cache
def refused(code: bytes, charset: str) -> bool:
    try:
        to_text(code, charset)
    except TextError:
        return True
    return False


@pytest.mark.parametrize(
    ("charset", "code"),
    [
        ("cp1250", b"\x81"),
        ("cp1251", b"\x98"),
        ("cp1256", b"\x8a"),
        ("cp1257", b"\x81"),
        ("dec8", b"\xa4"),
        ("eucjpms", b"\xad\xfe"),
        ("euckr", b"\xc9\xa1"),
        ("gb2312", b"\xaa\xa1"),
        ("gbk", b"\xa6\xd9"),
        ("geostd8", b"\x81"),
        ("greek", b"\xa4"),
        ("hebrew", b"\xa1"),
        ("hp8", b"\xff"),
        ("sjis", b"\x87\x40"),
        ("cp932", b"\x85\x40"),
        ("swe7", b"\x7f"),
        ("ujis", b"\xa9\xa1"),
    ],
)
async def test_a_code_without_a_character_is_refused_on_both_paths_by_the_columns_name(
    mysql: MysqlServer, database: str, charset: str, code: bytes
) -> None:
    table = TableId(database, "t")
    mysql.sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, note VARCHAR(9) CHARACTER SET {charset})", database=database
    )
    async with connected(mysql, database) as source:
        schema = (await source.describe([table]))[table].schema
        position = GtidSet.parse(mysql.executed())
        mysql.sql(f"INSERT INTO t VALUES (1, _{charset} x'41{code.hex()}')", database=database)
        assert mysql.sql("SELECT CONVERT(note USING utf8mb4) FROM t", database=database) == [("A?",)]
        shown = rf"{database}\.t\.note: a value isn't text in {charset}: its byte 1 begins no character"
        with pytest.raises(TextError, match=shown):
            await read_whole(source, schema)
    account = mysql.create_capture_user(database)
    told = await read_log(
        mysql, account, TableFilter((rf"{database}\.t",)), position, KnownSchemas({}, GtidSet())
    )
    [stopped] = [each for each in told if isinstance(each, TableStopped)]
    assert stopped.table == table
    assert re.fullmatch(rf".*{shown}.*", stopped.reason)
