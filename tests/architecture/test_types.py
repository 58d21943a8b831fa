"""The document of types shows what the product does, and leaves no type out."""

from typing import get_args

from docs.type_table import BEGIN, DOCUMENT, END, kinds, written
from pipeline.types.column_types import ColumnType
from pipeline.types.text.charsets import KNOWN_CHARSETS
from pipeline.types.text.collations import BINARY, CHARSETS


def test_the_document_shows_the_present_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert written(text) == text, "python -m docs.type_table"
    assert written(f"{BEGIN}\nan old table\n{END}") in text


def test_the_table_has_every_type() -> None:
    assert {type(kind) for kind in kinds()} == set(get_args(ColumnType))


def test_every_character_set_is_known() -> None:
    assert set(CHARSETS.values()) - {BINARY} == KNOWN_CHARSETS
