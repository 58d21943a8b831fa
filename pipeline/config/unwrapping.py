"""The flat form of messages: the options of Debezium's ExtractNewRecordState.

Source: Debezium 3.6, "New Record State Extraction".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

# Of a text that Debezium's users set to nothing.
MAY_BE_EMPTY: Final[Mapping[str, bool]] = {"may_be_empty": True}


class DeleteHandling(StrEnum):
    """`delete.tombstone.handling.mode`: what becomes of a delete and of its tombstone."""

    DROP = "drop"  # neither is sent
    TOMBSTONE = "tombstone"  # the delete becomes a tombstone
    REWRITE = "rewrite"  # the delete has the row as it was, and `__deleted`; no tombstone
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"  # the same, and a tombstone
    DELETE_TO_TOMBSTONE = (
        "delete-to-tombstone"  # the same as `tombstone`; Debezium's `tombstone` isn't quite one
    )

    @property
    def rewrites(self) -> bool:
        """Whether rows say that they were deleted."""
        return self in (DeleteHandling.REWRITE, DeleteHandling.REWRITE_WITH_TOMBSTONE)


@dataclass(frozen=True, slots=True)
class AddedField:
    """Something of the envelope under another name: `source.ts_ms` and the like."""

    told: str
    name: str


@dataclass(frozen=True, slots=True)
class Unwrap:
    """How messages are made flat. A field is added as `field`, `source.field`, or `field:name`.

    `route_by_field`: the column that names each message's topic, if one does.
    """

    delete_tombstone_handling_mode: DeleteHandling = DeleteHandling.TOMBSTONE
    add_fields: tuple[str, ...] = ()
    add_fields_prefix: str = field(default="__", metadata=MAY_BE_EMPTY)
    add_headers: tuple[str, ...] = ()
    add_headers_prefix: str = field(default="__", metadata=MAY_BE_EMPTY)
    route_by_field: str | None = None

    @property
    def fields(self) -> tuple[AddedField, ...]:
        """What each row has beside its columns."""
        return tuple(_field(text, self.add_fields_prefix) for text in self.add_fields)

    @property
    def headers(self) -> tuple[AddedField, ...]:
        """What each message has as headers."""
        return tuple(_field(text, self.add_headers_prefix) for text in self.add_headers)


# The fields of a message that say where in its transaction a change is.
TRANSACTION_FIELDS: Final = ("id", "total_order", "data_collection_order")
_OF_ENVELOPE: Final = ("op", "ts_ms", "ts_us", "ts_ns")
_OF_SOURCE: Final = (
    "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table", "server_id",
    "gtid", "file", "pos", "row", "thread", "query",
)  # fmt: skip
KNOWN_PROPERTIES: Final = (
    *_OF_ENVELOPE,
    *(f"source.{name}" for name in _OF_SOURCE),
    *(f"transaction.{name}" for name in TRANSACTION_FIELDS),
)


def _field(text: str, prefix: str) -> AddedField:
    path, _, renamed = text.partition(":")
    name = f"{prefix}{renamed or path.replace('.', '_')}"
    if "." in path or path in _OF_ENVELOPE:
        return AddedField(path, name)
    return AddedField(f"{'transaction' if path in TRANSACTION_FIELDS else 'source'}.{path}", name)
