"""A request for changes says what it wants, and a wrong parameter is named with what it may be."""

import pytest

from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.changes.checkpoint import ChangesCheckpoint
from pipeline.journal.changes.key_filter import KeyFilter
from pipeline.journal.changes.query import (
    BufferCompression,
    ChangesFormat,
    ChangesQuery,
    NamedPlace,
    parse_changes_query,
)
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.schema.table_schema import TableId

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"


def test_what_is_not_said_is_what_most_want() -> None:
    assert parse_changes_query({}) == ChangesQuery(
        (), NamedPlace.NOW, None, ChangesFormat.JSON, BufferCompression.NONE
    )


def test_all_that_can_be_said() -> None:
    asked = {"tables": "shop.a,shop.b,shop.a", "since": "3f5c.4.17", "through": GTIDS}
    asked |= {"format": "arrow", "compression": "lz4", "key_range": "..9", "key_modulo": "2:1"}
    assert parse_changes_query(asked) == ChangesQuery(
        (TableId("shop", "a"), TableId("shop", "b")),
        ChangesCheckpoint("3f5c", 4, 17),
        GtidSet.parse(GTIDS),
        ChangesFormat.ARROW,
        BufferCompression.LZ4,
        KeyFilter(None, "9", 2, frozenset({1})),
    )
    assert parse_changes_query({"since": "earliest"}).since is NamedPlace.EARLIEST
    assert parse_changes_query({"since": "0", "through": "now"}).through is NamedPlace.NOW


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"table": "a.b"}, "table: there is no such parameter"),
        ({"tables": "orders"}, "tables: 'orders' isn't database.table"),
        ({"since": "yesterday"}, "since: 'yesterday' is no place in the journal; give now, earliest"),
        ({"since": ""}, "since: the GTID set is empty"),
        ({"since": "3f5c.4"}, "since: '3f5c.4' is no checkpoint"),
        ({"since": str(1 << 63)}, "is no place in the journal"),
        ({"since": "9" * 5000}, "is no place in the journal"),
        ({"through": "9" * 5000}, "is no place in the journal"),
        ({"through": "earliest"}, "through: 'earliest' is no place in the journal; give now"),
        ({"key_range": "9"}, "key_range: '9' is no range"),
        ({"format": "xml"}, "format: 'xml' is none of json, arrow"),
        ({"format": "json", "compression": "zstd"}, "compression: lines of JSON have none"),
    ],
)
def test_a_wrong_parameter_is_named(asked: dict[str, str], said: str) -> None:
    with pytest.raises(MalformedRequest, match=said):
        parse_changes_query(asked)
