"""Tables that are outboxes: the options of Debezium's EventRouter, by its names.

Source: Debezium 3.6, "Outbox Event Router".
"""

from dataclasses import dataclass, field
from enum import StrEnum

from pipeline.schema.table_filter import TableFilter


class InvalidOperation(StrEnum):
    """`table.op.invalid.behavior`: what an update of an outbox's row does. It is no message in any case."""

    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"  # the sink stops at it


class NullsInPayload(StrEnum):
    """`table.json.payload.null.behavior`: what becomes of null fields where a payload is expanded."""

    IGNORE = "ignore"
    OPTIONAL_BYTES = "optional_bytes"


class Missing(StrEnum):
    """`table.field.additional.missing`: what a table does that hasn't got an additional column."""

    ERROR = "error"
    IGNORE = "ignore"


class Placement(StrEnum):
    """Where an additional column goes."""

    HEADER = "header"
    ENVELOPE = "envelope"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """An additional column, where it goes, and its name there."""

    column: str
    placement: Placement
    name: str


@dataclass(frozen=True, slots=True)
class Outbox:
    """The inserts into `tables` are events. `table_fields_additional_placement` has texts as `type:header:kind`."""

    tables: TableFilter
    table_field_event_id: str = "id"
    table_field_event_key: str = "aggregateid"
    table_field_event_payload: str = "payload"
    table_field_event_timestamp: str | None = None
    table_field_event_schema_version: str | None = None
    table_fields_additional_placement: tuple[str, ...] = ()
    table_field_additional_missing: Missing = Missing.ERROR
    table_expand_json_payload: bool = False
    table_json_payload_null_behavior: NullsInPayload = NullsInPayload.IGNORE
    table_op_invalid_behavior: InvalidOperation = InvalidOperation.WARN
    route_by_field: str = "aggregatetype"
    route_topic_regex: str = field(default="(?<routedByValue>.*)")
    route_topic_replacement: str = "outbox.event.${routedByValue}"
    route_tombstone_on_empty_payload: bool = False

    @property
    def placed(self) -> tuple[PlacedColumn, ...]:
        """Returns the additional columns. Raises ValueError if one has another form."""
        return tuple(_placed(text) for text in self.table_fields_additional_placement)


def _placed(text: str) -> PlacedColumn:
    column, _, rest = text.partition(":")
    placement, _, name = rest.partition(":")
    if not column or placement.strip() not in list(Placement):
        raise ValueError(f"{text!r} isn't a column and its place")
    return PlacedColumn(column.strip(), Placement(placement.strip()), name.strip() or column.strip())
