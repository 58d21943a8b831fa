"""Every code of every character set, against the conversion that the server itself makes."""

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.charsets import TextError, to_strings, to_text

_UNITS = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}
_REFUSED = {"armscii8", "binary", "dec8", "eucjpms", "geostd8", "keybcs2", "swe7"}


def codes() -> Iterator[bytes]:
    """All codes of one and two bytes, those of three in the EUCs, and some of four.

    Those are GB 18030's in the part where it isn't a formula, and some of UTF-32.
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


@pytest.fixture(scope="module")
def converted(mysql: MysqlServer) -> Iterator[MysqlServer]:
    mysql.sql(
        "CREATE DATABASE codes", "CREATE TABLE codes.codes (code VARBINARY(4) PRIMARY KEY) CHARSET = binary"
    )
    with closing(mysql.connect(database="codes")) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO codes VALUES (%s)", [(code,) for code in codes()])
    yield mysql
    mysql.sql("DROP DATABASE codes")


def servers_charsets(mysql: MysqlServer) -> list[str]:
    return [name for (name,) in mysql.sql("SELECT character_set_name FROM information_schema.character_sets")]


def test_every_code_is_converted_as_by_the_server_or_refused_where_the_server_has_none(
    converted: MysqlServer,
) -> None:
    for charset in servers_charsets(converted):
        if charset in _REFUSED:
            with pytest.raises(TextError, match=charset):
                to_text(b"\xff", charset)
            continue
        rows = converted.sql(
            # A code that isn't one of the set's gives NULL, and one that is too short for it is filled up with zeros.
            f"SELECT code, CONVERT(CONVERT(code USING {charset}) USING utf8mb4) FROM codes.codes"
            f" WHERE LENGTH(code) % {_UNITS.get(charset, 1)} = 0"
        )
        known = [(code, text) for code, text in rows if text is not None and not hides_a_code(code, text)]
        ours = to_strings(pa.array([code for code, _ in known], pa.binary()), charset, charset)
        wrong = [
            (code, text, mine)
            for (code, text), mine in zip(known, ours.to_pylist(), strict=True)
            if text != mine
        ]
        assert wrong == [], charset
        unknown = [code for code, text in rows if text is None or hides_a_code(code, text)]
        for code in [*unknown[:256], *unknown[256::101]]:
            with pytest.raises(TextError, match=charset):
                to_text(code, charset)


def hides_a_code(code: bytes, text: str) -> bool:
    """Whether the server printed a question mark for what it has no character for."""
    return text.count("?") > code.count(b"?")
