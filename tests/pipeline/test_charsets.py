"""Character sets: golden values. tests/integration/test_charset_tables.py holds every code against the server."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.charsets import TextError, to_strings, to_text

KNOWN = [
    ("utf8mb4", "naïve 😀".encode(), "naïve 😀"),
    ("utf8mb3", "naïve".encode(), "naïve"),
    ("ascii", b"plain", "plain"),
    ("latin1", b"\x80 \x81\x8d\x8f\x90\x9d \xff", "€ \x81\x8d\x8f\x90\x9d ÿ"),
    ("cp1251", b"\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"),
    ("koi8u", b"\x95", "•"),
    ("greek", b"\xa1\xeb", "\u02bdλ"),
    ("sjis", b"\x81\x5f\x83\x65\\", "\\テ\\"),
    ("ujis", b"\xa1\xc0\xa5\xc6\xf5\xa1\x8f\xf5\xa1", "\\テ\ue000\ue3ac"),
    ("big5", b"\xa4\xa4\xf9\xd6\xa4\xe5", "中碁文"),
    ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37\x94\x39\xfc\x36", "ḿ\ue7c7😀"),
    ("ucs2", b"\x00A\x4e\x2d", "A中"),
    ("utf16", b"\xd8\x3d\xde\x00", "😀"),
    ("utf16le", b"\x3d\xd8\x00\xde", "😀"),
    ("utf32", b"\x00\x01\xf6\x00", "😀"),
]


@pytest.mark.parametrize(("charset", "stored", "text"), KNOWN, ids=[charset for charset, *_ in KNOWN])
def test_known_values(charset: str, stored: bytes, text: str) -> None:
    assert to_text(stored, charset) == text


@pytest.mark.parametrize(("charset", "stored", "text"), KNOWN, ids=[charset for charset, *_ in KNOWN])
def test_a_column_has_the_same_texts_and_nulls(charset: str, stored: bytes, text: str) -> None:
    values = pa.array([None, stored, b"", stored + stored, None, stored], pa.binary())
    expected = [None, text, "", text + text, None, text]
    assert to_strings(values, charset, "t.c").to_pylist() == expected
    assert to_strings(values[3:], charset, "t.c").to_pylist() == expected[3:]


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1", "big5", "utf16"])
def test_a_column_of_nulls_stays_one(charset: str) -> None:
    texts = to_strings(pa.array([None, None], pa.binary()), charset, "t.c")
    assert texts.type == pa.string()
    assert texts.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("charset", "stored"),
    [
        ("utf8mb4", b"\xed\xa0\x80"),  # a surrogate
        ("utf8mb4", b"\xc0\x80"),
        ("utf8mb4", b"\xf4\x90\x80\x80"),
        ("utf8mb3", b"\xff"),
        ("cp1256", b"\x8a"),
        ("cp932", b"\x80"),
        ("cp932", b"\x83"),
        ("sjis", b"\x81\x5f\x83"),
        ("big5", b"\xf9\xd6\xff"),
        ("utf16", b"\xdc\x00\xd8\x00"),
        ("utf16", b"\x00"),
        ("utf32", b"\x00\x11\x00\x00"),
    ],
)
def test_what_is_not_of_the_set_is_refused(charset: str, stored: bytes) -> None:
    with pytest.raises(TextError, match=rf"shop\.orders\.note: a value isn't text in {charset}"):
        to_strings(pa.array([b"", stored], pa.binary()), charset, "shop.orders.note")


def test_a_character_cut_between_two_values_is_refused() -> None:
    with pytest.raises(TextError):
        to_strings(pa.array([b"\xc3", b"\xa9"], pa.binary()), "utf8mb4", "t.c")


@pytest.mark.parametrize("charset", ["armscii8", "dec8", "eucjpms", "geostd8", "keybcs2", "swe7", "new"])
def test_a_set_without_an_exact_table_is_refused_by_name_even_for_ascii(charset: str) -> None:
    with pytest.raises(TextError, match=f"no exact table of the character set {charset}"):
        to_text(b"plain", charset)


@given(st.lists(st.none() | st.text("aéÿ€\x81", max_size=8)))
def test_single_bytes_decoded_all_at_once_are_the_same_as_one_by_one(texts: list[str | None]) -> None:
    def stored(text: str) -> bytes:
        return b"".join(b"\x81" if character == "\x81" else character.encode("cp1252") for character in text)

    values = pa.array([None if text is None else stored(text) for text in texts], pa.binary())
    assert to_strings(values, "latin1", "t.c").to_pylist() == texts
