"""Which fields are added, and under which names."""

import pytest

from pipeline.config.unwrapping import KNOWN_PROPERTIES, AddedField, DeleteHandling, Unwrap


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("op", AddedField("op", "__op")),
        ("ts_ms", AddedField("ts_ms", "__ts_ms")),
        ("source.ts_ms", AddedField("source.ts_ms", "__source_ts_ms")),
        ("table:name", AddedField("source.table", "__name")),
        ("total_order", AddedField("transaction.total_order", "__total_order")),
    ],
)
def test_a_field_is_found_where_debezium_looks_for_it(text: str, field: AddedField) -> None:
    assert Unwrap(add_fields=(text,)).fields == (field,)
    assert field.told in KNOWN_PROPERTIES


def test_only_two_modes_rewrite() -> None:
    assert [mode for mode in DeleteHandling if mode.rewrites] == ["rewrite", "rewrite-with-tombstone"]
