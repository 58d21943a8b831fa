"""Character sets: golden values. tests/integration/types/test_charset_tables.py holds every code against the server."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.types.text.charsets import KNOWN_CHARSETS, TextError, ambiguous_characters, to_strings, to_text

VALUES = [
    ("utf8mb4", "naïve 😀".encode(), "naïve 😀"),
    ("utf8mb3", "naïve".encode(), "naïve"),
    ("ascii", b"plain", "plain"),
    ("latin1", b"\x80 \x81\x8d\x8f\x90\x9d \xff", "€ \x81\x8d\x8f\x90\x9d ÿ"),
    ("cp1251", b"\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"),
    ("koi8u", b"\x95", "•"),
    ("armscii8", b"\xa2\xb2\xff", "§Ա'"),
    ("dec8", b"\xa8\xd7\xfd", "¤Œÿ"),
    ("geostd8", b"\x80\xc0\xfd", "€ა№"),
    ("keybcs2", b"\x80\xff", "Č\xa0"),
    ("swe7", b"@[\\]^`{|}~", "ÉÄÖÅÜéäöåü"),
    ("greek", b"\xa1\xeb", "\u02bdλ"),
    ("sjis", b"\x81\x5f\x83\x65\\", "\\テ\\"),
    ("ujis", b"\xa1\xc0\xa5\xc6\xf5\xa1\x8f\xf5\xa1", "\\テ\ue000\ue3ac"),
    (
        "eucjpms",
        b"A\x8e\xb1\xa4\xa2\xad\xa1\x8f\xb0\xa1\x8f\xf4\xac\xf5\xa1\x8f\xf5\xa1",
        "Aｱあ①丂№\ue000\ue3ac",
    ),
    ("euckr", b"\xc7\xd1", "한"),
    ("gb2312", b"\xd6\xd0", "中"),
    ("gbk", b"\xd6\xd0\x81\x40", "中丂"),
    ("cp932", b"\x93\xfa\xb1\x87\x40", "日ｱ①"),
    ("big5", b"\xa4\xa4\xf9\xd6\xa4\xe5", "中碁文"),
    ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37\x94\x39\xfc\x36\xe3\x32\x9a\x35", "ḿ\ue7c7😀\U0010ffff"),
    ("ucs2", b"\x00A\x4e\x2d", "A中"),
    ("utf16", b"\xd8\x3d\xde\x00", "😀"),
    ("utf16le", b"\x3d\xd8\x00\xde", "😀"),
    ("utf32", b"\x00\x01\xf6\x00", "😀"),
]

# Where Python's codec agrees with the server on all that the test writes.
_PYTHONS = {
    "latin1": "cp1252",
    "cp1251": "cp1251",
    "gbk": "gbk",
    "cp932": "cp932",
    "ujis": "euc-jp",
    "gb18030": "gb18030",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8mb4": "utf-8",
}


@pytest.mark.parametrize(("charset", "stored", "text"), VALUES, ids=[charset for charset, *_ in VALUES])
def test_known_values(charset: str, stored: bytes, text: str) -> None:
    assert to_text(stored, charset) == text


@pytest.mark.parametrize(("charset", "stored", "text"), VALUES, ids=[charset for charset, *_ in VALUES])
def test_a_column_has_the_same_texts_and_nulls(charset: str, stored: bytes, text: str) -> None:
    values = pa.array([None, stored, b"", stored + stored, None, stored], pa.binary())
    expected = [None, text, "", text + text, None, text]
    assert to_strings(values, charset, "t.c").to_pylist() == expected
    assert to_strings(values[3:], charset, "t.c").to_pylist() == expected[3:]


@pytest.mark.parametrize("charset", sorted(KNOWN_CHARSETS))
def test_a_column_of_nulls_stays_one(charset: str) -> None:
    texts = to_strings(pa.array([None, None], pa.binary()), charset, "t.c")
    assert texts.type == pa.string()
    assert texts.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("charset", "stored", "shown"),
    [
        ("utf8mb4", b"\xed\xa0\x80", "UTF8"),  # a surrogate
        ("utf8mb4", b"\xc0\x80", "UTF8"),
        ("utf8mb4", b"\xf4\x90\x80\x80", "UTF8"),
        ("utf8mb3", b"\xff", "UTF8"),
        ("utf8mb3", "😀".encode(), "above 0xef"),
        ("ascii", "é".encode(), "above 0x7f"),
        ("cp1256", b"A\x8aB", "its byte 1"),
        ("cp932", b"\x80", "its byte 0"),
        ("cp932", b"A\x83", "its byte 1"),
        ("sjis", b"\x81\x5f\x83", "its byte 2"),
        ("big5", b"\xf9\xd6\xff", "its byte 2"),
        ("gbk", b"\xa6\xc1\x80", "its byte 2"),
        ("swe7", b"A\x7f", "its byte 1"),
        ("ujis", b"\x8f\xb0", "its byte 0"),
        ("ujis", b"\x8f\xa3\xa1", "its byte 0"),
        ("gb18030", b"\x81\x30\x81", "its byte 0"),
        ("gb18030", b"\x81\x30\x81\xff", "its byte 0"),
        ("gb18030", b"\xfe\x39\xfe\x39", "its byte 0"),
        ("gb18030", b"\x84\x31\xa5\x30", "its byte 0"),  # after the last code of the basic plane
        ("gb18030", b"\xe3\x32\x9a\x36", "its byte 0"),  # after the last code of all
        ("ucs2", b"\x00A\xd8\x3d\xde\x00", "its byte 2"),  # it has no pairs
        ("ucs2", b"\x00", "its byte 0"),
        ("utf16", b"\xdc\x00\xd8\x00", "its byte 0"),
        ("utf16", b"\xd8\x00\x00A", "its byte 0"),
        ("utf16", b"\xd8\x00", "its byte 0"),
        ("utf16le", b"\x00", "its byte 0"),
        ("utf32", b"\x00\x11\x00\x00", "its byte 0"),
        ("utf32", b"\x80\x00\x00\x00", "its byte 0"),
        ("utf32", b"\x00\x00\xd8\x00", "its byte 0"),
        ("utf32", b"\x00\x00A", "its byte 0"),
    ],
)
def test_what_is_not_of_the_set_is_refused(charset: str, stored: bytes, shown: str) -> None:
    with pytest.raises(TextError, match=rf"shop\.orders\.note: a value isn't text in {charset}: ") as refused:
        to_strings(pa.array([b"", stored, b""], pa.binary()), charset, "shop.orders.note")
    assert shown in str(refused.value)
    assert not any(f"x{byte:02x}" in str(refused.value) for byte in stored), "no bytes of rows"


@pytest.mark.parametrize(
    ("charset", "code"),
    [
        ("utf8mb4", b"\xc3\xa9"),
        ("gbk", b"\xd6\xd0"),
        ("ujis", b"\x8f\xb0\xa1"),
        ("utf16", b"\xd8\x3d\xde\x00"),
    ],
)
def test_a_character_cut_between_two_values_is_refused(charset: str, code: bytes) -> None:
    assert len(to_text(code, charset)) == 1
    with pytest.raises(TextError):
        to_strings(pa.array([code[:-1], code[-1:]], pa.binary()), charset, "t.c")


def test_a_set_that_is_not_known_is_refused_by_name_even_for_ascii() -> None:
    with pytest.raises(TextError, match="doesn't know the character set new"):
        to_text(b"plain", "new")


def read_only(values: pa.Array) -> pa.Array:
    """The values over memory that may not be written to."""
    buffers = [buffer and pa.py_buffer(buffer.to_pybytes()) for buffer in values.buffers()]
    return pa.Array.from_buffers(values.type, len(values), buffers)


@given(st.sampled_from(sorted(_PYTHONS)), st.lists(st.none() | st.text("aéÿ€中日Ж語😀", max_size=8)))
def test_a_column_is_decoded_as_value_by_value_by_python(charset: str, texts: list[str | None]) -> None:
    stored = [None if text is None else text.encode(_PYTHONS[charset], "ignore") for text in texts]
    expected = [None if value is None else value.decode(_PYTHONS[charset]) for value in stored]
    values = pa.array([b"skipped", *stored], pa.binary())
    found = to_strings(read_only(values)[1:], charset, "t.c")
    found.validate(full=True)
    assert found.to_pylist() == expected


def test_few_character_sets_have_two_codes_for_a_character() -> None:
    assert {charset for charset in KNOWN_CHARSETS if ambiguous_characters(charset)} == {
        "armscii8",
        "big5",
        "cp932",
        "eucjpms",
        "sjis",
        "tis620",
        "ujis",
    }
    assert (
        ambiguous_characters("sjis") == {"\\"}
        and "①" not in ambiguous_characters("cp932")
        and "№" in ambiguous_characters("cp932")
    )
