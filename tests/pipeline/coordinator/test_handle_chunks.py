"""The selector's answers: under which schema they count, what they fill, and what begins again."""

from dataclasses import replace

from pipeline.coordinator.state import SchemaDiffers
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types.column_types import Enum
from pipeline.types.enum_labels import UNKNOWN_CHARACTER
from tests.pipeline.builders import (
    ORDERS,
    Capture,
    execute,
    planned,
)


def labelled(*labels: str) -> TableSchema:
    """The orders with an ENUM of these labels."""
    return replace(ORDERS, columns=(*ORDERS.columns, Column("status", Enum(labels), nullable=True)))


# Schemas


def test_a_label_that_the_server_does_not_tell_is_the_logs() -> None:
    """The server shows a question mark for an emoji."""
    log, server = labelled("😀", "b"), labelled(UNKNOWN_CHARACTER, "b")
    capture = Capture(log)
    order = Capture.chunk(capture.give(execute("s1", log), planned(server)))
    assert order.schema == log
    other = Capture(log)
    other.give(execute("s1", log), planned(labelled(UNKNOWN_CHARACTER, "c"), high=30))
    assert isinstance(other.state.plans[log.table], SchemaDiffers)
