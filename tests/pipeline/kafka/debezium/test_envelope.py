"""Which messages a table's changes make, by the letters of their rows."""

import io
import json
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pipeline.config.column_rules import MessageColumns, MessageKey
from pipeline.config.message_handling import Handling
from pipeline.config.unwrapping import DeleteHandling, Unwrap
from pipeline.journal.change_rows import META
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.debezium.envelope import NEW_KEY, OLD_KEY, Envelope, Messages
from pipeline.kafka.debezium.json_format import JsonFormat
from pipeline.kafka.debezium.message_format import MessageFormat
from pipeline.kafka.debezium.source_block import SourceBlock
from pipeline.kafka.debezium.table_mapping import TableMapping
from pipeline.kafka.errors import KafkaRefused
from pipeline.kafka.topics import Destination
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import Column, TableId, TableSchema
from pipeline.types.column_types import Integer, Text

COLUMNS = (
    Column("id", Integer(4, unsigned=False), nullable=False),
    Column("v😀", Text("utf8mb4"), nullable=True),
)
KEYED = TableSchema(TableId("shop", "t"), COLUMNS, (0,))
KEYLESS = TableSchema(TableId("shop", "t"), COLUMNS, ())

KEY = fastavro.parse_schema({"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]})

Row = tuple[str, int | None, str | None]


def made(
    *rows: Row,
    schema: TableSchema = KEYED,
    schemas: bool = False,
    tombstones: bool = True,
    unwrap: Unwrap | None = None,
    written: MessageFormat | None = None,
    columns: MessageColumns | None = None,
) -> Messages:
    """The messages of these rows: letter, id and v. The letter D is a repair's delete, of which v isn't known."""
    return envelope(schema, schemas, tombstones, unwrap, written, columns).messages(
        changes_of(*rows), source_of(len(rows)), 1_234_567
    )


def envelope(
    schema: TableSchema = KEYED,
    schemas: bool = False,
    tombstones: bool = True,
    unwrap: Unwrap | None = None,
    written: MessageFormat | None = None,
    columns: MessageColumns | None = None,
) -> Envelope:
    to, written = Destination("p.shop.t", "p.shop.t"), written or JsonFormat(schemas)
    mapping = TableMapping(schema, columns or MessageColumns())
    return Envelope(mapping, to, "p", "1", Handling(), written, written, tombstones=tombstones, unwrap=unwrap)


def changes_of(*rows: Row) -> pa.RecordBatch:
    letters, ids, values = (list(column) for column in zip(*rows, strict=True))
    count = len(rows)
    meta = {
        "__op": pa.array([letter.lower() for letter in letters]),
        "__scn": pa.array([1] * count, pa.int64()),
        "__ordinal": pa.array(range(count), pa.int32()),
        "__chunk": pa.array(["r-1" if letter in "Dr" else None for letter in letters]),
        "__absent": pa.array(
            [["v😀"] if letter == "D" else None for letter in letters], META.field("__absent").type
        ),
    }
    meta |= {name: pa.nulls(count, META.field(name).type) for name in META.names if name not in meta}
    return pa.record_batch({**meta, "id": pa.array(ids, pa.int32()), "v😀": pa.array(values, pa.string())})


def source_of(count: int) -> SourceBlock:
    numbers, none = pa.array(range(count), pa.int64()), pa.nulls(count, pa.string())
    return SourceBlock(
        "false", numbers, numbers, none, pa.array(["binlog.000001"] * count), numbers, numbers, numbers, none
    )


def told(messages: Messages) -> list[Any]:
    """Key, op, before and after of each; a tombstone is its key alone."""
    found: list[Any] = []
    for key, value in zip(messages.keys.to_pylist(), messages.values.to_pylist(), strict=True):
        read = value and json.loads(value)
        name = key and json.loads(key)["id"]
        found.append((name, read["op"], of(read["before"]), of(read["after"])) if read else name)
    return found


def of(row: dict[str, Any] | None) -> list[Any] | None:
    return None if row is None else list(row.values())


def test_each_kind_of_change() -> None:
    messages = made(
        ("c", 1, "a"), ("b", 1, "a"), ("u", 1, "b"), ("d", 1, "b"), ("r", 2, None), ("t", None, None)
    )
    assert told(messages) == [
        (1, "c", None, [1, "a"]),
        (1, "u", [1, "a"], [1, "b"]),
        (1, "d", [1, "b"], None),
        1,
        (2, "r", None, [2, None]),
        (None, "t", None, None),
    ]
    assert messages.rows.tolist() == [0, 2, 3, 3, 4, 5]
    assert messages.headers == ()


@pytest.mark.parametrize("letters", ["t", "ct", "tct", "dut", "tbutd"])
def test_a_truncate_has_no_row_whose_columns_could_lack_a_value(letters: str) -> None:
    """Avro has no null of a NOT NULL column, and a truncate's row has nothing else."""
    values = {"t": None, "u": 2}
    rows = [(letter, values.get(letter, 1), letter) for letter in letters]
    in_avro, in_json = made(*rows, written=AVRO), made(*rows)
    assert in_avro.rows.tolist() == in_json.rows.tolist()
    keys = [
        None if key is None else fastavro.schemaless_reader(io.BytesIO(key), KEY, None)
        for key in in_avro.keys.to_pylist()
    ]
    assert keys == [key and json.loads(key) for key in in_json.keys.to_pylist()]
    assert in_avro.values.is_null().equals(in_json.values.is_null())
    for mode in DeleteHandling:
        flat = made(*rows, ("c", 3, "c"), unwrap=Unwrap(mode), written=AVRO)
        assert flat.rows.tolist() == made(*rows, ("c", 3, "c"), unwrap=Unwrap(mode)).rows.tolist()
        assert "t" not in {letters[row] for row in flat.rows.tolist() if row < len(letters)}


def test_a_key_that_changed_is_a_delete_and_a_create_that_name_each_other() -> None:
    messages = made(("d", 1, "a"), ("u", 2, "b"), ("d", 3, "c"), ("c", 4, "d"))
    assert told(messages) == [(1, "d", [1, "a"], None), 1, (2, "c", None, [2, "b"]), (3, "d", [3, "c"], None), 3,
                              (4, "c", None, [4, "d"])]  # fmt: skip
    headers = dict(messages.headers)
    assert headers[NEW_KEY].to_pylist() == ['{"id":2}', '{"id":2}', None, None, None, None]
    assert headers[OLD_KEY].to_pylist() == [None, None, '{"id":1}', None, None, None]


def test_without_tombstones_and_without_a_key() -> None:
    assert told(made(("d", 1, "a"), tombstones=False)) == [(1, "d", [1, "a"], None)]
    messages = made(("d", 1, "a"), ("c", 1, "b"), schema=KEYLESS)
    assert told(messages) == [(None, "d", [1, "a"], None), (None, "c", None, [1, "b"])]


@pytest.mark.parametrize("written", [JsonFormat(False), AVRO])
@pytest.mark.parametrize("kind", [KEYED.columns[1], Column("v😀", Text("utf8mb4"), nullable=False)])
def test_a_repairs_delete_has_its_key_alone(written: MessageFormat, kind: Column) -> None:
    """Null isn't the row's value, and Avro has none of a NOT NULL column."""
    schema = replace(KEYED, columns=(KEYED.columns[0], kind))
    rows: list[Row] = [("D", 1, None), ("D", 2, None), ("r", 3, "c"), ("b", 3, "c"), ("u", 3, "d")]
    for count in (2, 5):
        messages = made(*rows[:count], ("t", None, None), schema=schema, written=written)
        expected = made(*rows[2:count], ("t", None, None), schema=schema, written=written)
        assert messages.values.is_null().to_pylist()[:4] == [False, True, False, True]
        assert messages.keys.slice(4).equals(expected.keys)
        assert messages.rows.tolist()[:4] == [0, 0, 1, 1]
        if written is not AVRO:
            assert told(messages)[:4] == [(1, "d", None, None), 1, (2, "d", None, None), 2]
            assert [each[1:] for each in told(messages)[4:]] == [each[1:] for each in told(expected)]
        for mode in DeleteHandling:
            unwrap = Unwrap(mode, add_headers=("op", "table"))
            flat = made(*rows[:count], schema=schema, written=written, unwrap=unwrap)
            gone, others = 0 if mode is DeleteHandling.DROP else 2, len(flat.values)
            assert flat.values.is_null().to_pylist() == [True] * gone + [False] * (others - gone)
            assert others - gone == (2 if count == 5 else 0)
            if count == 5:
                whole = made(*rows[2:], schema=schema, written=written, unwrap=unwrap)
                assert flat.values.slice(gone).equals(whole.values)
            assert flat.rows.tolist()[:gone] == [0, 1][:gone]
            headers = dict(flat.headers)
            assert headers["__op"].null_count == 0
            without_table = [mode is DeleteHandling.REWRITE_WITH_TOMBSTONE] * gone
            assert headers["__table"].is_null().to_pylist()[:gone] == without_table


def test_a_repairs_delete_of_which_nothing_says_where_it_goes_is_left_out() -> None:
    key = MessageColumns(keys=(MessageKey(TableFilter((".*",)), ("v😀",)),))
    rows: list[Row] = [("D", 1, None), ("r", 3, "c")]
    assert made(*rows, columns=key, written=AVRO).rows.tolist() == [1]
    assert envelope(columns=key).left_out(changes_of(*rows)) == 1
    routed = Unwrap(route_by_field="v😀")
    assert made(*rows, unwrap=routed).rows.tolist() == [1]
    assert envelope(unwrap=routed).left_out(changes_of(*rows)) == 1
    assert envelope().left_out(changes_of(*rows)) == 0


def test_an_update_without_its_row_before_is_no_guess() -> None:
    """The journal lacks the row if nothing asked for it then. So the table's topic refuses, and no process ends."""
    with pytest.raises(
        KafkaRefused, match=r"an update of shop\.t has no row before it.*kafka\.position_topic"
    ):
        made(("c", 1, "a"), ("u", 1, "b"))


def test_schemas_are_beside_the_payloads() -> None:
    messages = made(("c", 1, "a"), ("d", 1, "a"), schemas=True)
    key, value = json.loads(messages.keys[0].as_py()), json.loads(messages.values[0].as_py())
    assert key["payload"] == {"id": 1} and key["schema"]["name"] == "p.shop.t.Key"
    assert value["payload"]["after"] == {"id": 1, "v😀": "a"}
    assert [field["field"] for field in value["schema"]["fields"]] == list(value["payload"])
    before = value["schema"]["fields"][0]
    assert before["fields"][1] == {"type": "string", "optional": True, "field": "v😀"}
    assert "\\uD83D\\uDE00" in messages.values[0].as_py() and "😀" not in messages.values[0].as_py()
    assert messages.values[2].as_py() is None


def test_times_are_in_three_units() -> None:
    value = json.loads(made(("c", 1, "a")).values[0].as_py())
    assert [value[unit] for unit in ("ts_ms", "ts_us", "ts_ns")] == [1_234, 1_234_567, 1_234_567_000]
    source = value["source"]
    assert (source["file"], source["gtid"], source["thread"], source["query"]) == (
        "binlog.000001",
        None,
        0,
        None,
    )


@pytest.mark.parametrize(
    ("mode", "values"),
    [
        (DeleteHandling.DROP, [1]),
        (DeleteHandling.TOMBSTONE, [1, None]),
        (DeleteHandling.DELETE_TO_TOMBSTONE, [1, None]),
        (DeleteHandling.REWRITE, [1, 2]),
        (DeleteHandling.REWRITE_WITH_TOMBSTONE, [1, 2, None]),
    ],
)
def test_flat_messages_are_rows_and_a_delete_is_what_the_mode_says(
    mode: DeleteHandling, values: list[int | None]
) -> None:
    unwrap = Unwrap(mode, add_fields=("op", "source.file"), add_headers=("op", "table"))
    messages = made(("c", 1, "a"), ("d", 2, "b"), ("t", None, None), unwrap=unwrap)
    rows = [value and json.loads(value) for value in messages.values.to_pylist()]
    assert [row and row["id"] for row in rows] == values
    deleted = {"__deleted": "false"} if mode.rewrites else {}
    assert rows[0] == {"id": 1, "v😀": "a", **deleted, "__op": "c", "__source_file": "binlog.000001"}
    headers = dict(messages.headers)
    assert headers["__op"].to_pylist() == ['"c"', *['"d"'] * (len(values) - 1)]
    last = None if mode is DeleteHandling.REWRITE_WITH_TOMBSTONE else '"t"'
    assert headers["__table"].to_pylist()[-1] == last


def test_a_column_names_the_topic_of_each_flat_message() -> None:
    rewriting = Unwrap(DeleteHandling.REWRITE_WITH_TOMBSTONE, route_by_field="v😀")
    messages = made(("c", 1, "a b"), ("d", 2, "b"), ("t", None, None), unwrap=rewriting)
    assert messages.topics is not None
    assert messages.topics.to_pylist() == ["a_b", "b", "b"]
    assert [value is None for value in messages.values.to_pylist()] == [False, False, True]


@pytest.mark.parametrize("named", [None, ""])
def test_a_row_that_names_no_topic_is_refused(named: str | None) -> None:
    with pytest.raises(KafkaRefused, match="says where it goes"):
        made(("c", 1, named), unwrap=Unwrap(route_by_field="v😀"))
    with pytest.raises(KafkaRefused, match="has no text id"):
        made(("c", 1, "a"), unwrap=Unwrap(route_by_field="id"))
