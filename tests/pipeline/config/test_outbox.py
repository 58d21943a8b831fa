"""Where additional columns go."""

import pytest

from pipeline.config.outbox import Outbox, PlacedColumn, Placement
from pipeline.schema.table_filter import TableFilter


def placed(*texts: str) -> tuple[PlacedColumn, ...]:
    return Outbox(TableFilter((".*",)), table_fields_additional_placement=texts).placed


def test_a_column_has_a_place_and_a_name_there() -> None:
    assert placed("type:header:eventType", "at:envelope", "p:partition") == (
        PlacedColumn("type", Placement.HEADER, "eventType"),
        PlacedColumn("at", Placement.ENVELOPE, "at"),
        PlacedColumn("p", Placement.PARTITION, "p"),
    )


@pytest.mark.parametrize("text", ["type", "type:footer", ":header"])
def test_what_is_no_place_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="isn't a column and its place"):
        placed(text)
