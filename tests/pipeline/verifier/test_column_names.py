"""Images get names by the state of their table, or stop it by name."""

from dataclasses import replace

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import TableStopped
from pipeline.messages.row_images import TableUnreadable
from pipeline.verifier.column_names import images_table, name_columns
from pipeline.verifier.table_state import (
    Capturable,
    SchemaFetched,
    SchemaKnown,
    SchemaPending,
    Unproven,
    Verified,
)
from tests.pipeline.verifier.small_log import FULL, MINIMAL, ORDERS, SCHEMA, end, images


@pytest.mark.parametrize(
    "state", [Unproven(), SchemaPending(SCHEMA), SchemaFetched(SCHEMA, GtidSet(), end(1))]
)
def test_a_full_map_needs_no_state_and_another_one_a_proven_schema(state: Capturable) -> None:
    verified = name_columns(state, images(FULL))
    assert not isinstance(verified, TableStopped)
    assert verified[0] == Verified(SCHEMA, FULL)
    stopped = name_columns(state, images(MINIMAL))
    assert isinstance(stopped, TableStopped)
    assert "no schema is proven to hold here" in stopped.reason


def test_a_proven_schema_names_the_columns_if_the_map_fits_it() -> None:
    verified = name_columns(SchemaKnown(SCHEMA), images(MINIMAL))
    assert not isinstance(verified, TableStopped)
    assert verified[0] == Verified(SCHEMA, MINIMAL)
    assert verified[1].rows.to_pylist() == [{"id": 7, "state": "paid", "tags": "x,y"}]
    assert name_columns(verified[0], images(MINIMAL)) == verified
    misfit = name_columns(verified[0], images(replace(MINIMAL, nullable=(True, True, True))))
    assert isinstance(misfit, TableStopped)
    assert "nullable=True" in misfit.reason


def test_rows_that_cannot_be_decoded_stop_their_table() -> None:
    unreadable = TableUnreadable(ORDERS, "a time of 25 hours")
    assert name_columns(SchemaKnown(SCHEMA), unreadable) == TableStopped(ORDERS, "a time of 25 hours")
    assert images_table(unreadable) == images_table(images(FULL)) == ORDERS
