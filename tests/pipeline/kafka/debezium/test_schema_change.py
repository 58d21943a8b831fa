"""Statements as messages; `tests/integration/kafka/test_schema_changes.py` compares them with Debezium's own."""

import io
import json

import fastavro

from pipeline.gtid.coordinates import Coordinates
from pipeline.kafka.avro.avro_format import AVRO
from pipeline.kafka.avro.avro_schema import avro_text
from pipeline.kafka.debezium.json_format import JSON
from pipeline.kafka.debezium.schema_change import schema_change_messages
from pipeline.messages.journal import StatementPart
from pipeline.schema.ddl.schema_statements import SchemaObject, SchemaStatement
from pipeline.schema.table_schema import TableId

A = TableId("shop", "a")
PLACE = Coordinates("binlog.000001", 120)


def part(what: SchemaObject, text: str, *tables: TableId, named: tuple[str, ...] = ()) -> StatementPart:
    return StatementPart(
        7, "u:3", 1_234_567_890, PLACE, 5, SchemaStatement(what, "shop", tables, named, text)
    )


UNPLACED = SchemaStatement(SchemaObject.DATABASE, "ü", (), (), "CREATE DATABASE ü")
PARTS = (
    part(SchemaObject.TABLE, 'CREATE TABLE a (x INT DEFAULT "1")', A, named=("a",)),
    part(SchemaObject.DROPPED_TABLE, "DROP TABLE `shop`.`a`", A, named=("a", "b")),
    part(SchemaObject.INDEX, "DROP INDEX i ON a", A, named=("a",)),
    part(SchemaObject.DATABASE, "DROP DATABASE shop"),
    part(SchemaObject.DATABASE_OPTIONS, "ALTER DATABASE shop COLLATE utf8mb4_bin"),
    StatementPart(8, None, 0, None, 0, UNPLACED),
)


def test_they_have_debeziums_form() -> None:
    made = schema_change_messages(PARTS, "p", "1.0", 9_999_999, JSON)
    assert made.keys.to_pylist() == ['{"databaseName":"shop"}'] * 5 + ['{"databaseName":"ü"}']
    assert made.values[1].as_py() == (
        '{"source":{"version":"1.0","connector":"mysql","name":"p","ts_ms":1234567,"snapshot":"false","db":"shop",'
        '"sequence":null,"ts_us":1234567000,"ts_ns":1234567000000,"table":"a,b","server_id":5,"gtid":"u:3",'
        '"file":"binlog.000001","pos":120,"row":0,"thread":null,"query":null},"ts_ms":9999,"databaseName":"shop",'
        '"schemaName":null,"ddl":"DROP TABLE `shop`.`a`","tableChanges":'
        '[{"type":"DROP","id":"\\"shop\\".\\"a\\"","table":null}]}'
    )
    values = [json.loads(each) for each in made.values.to_pylist()]
    assert [value["source"]["table"] for value in values] == ["a", "a,b", "", None, "", None]
    assert [len(value["tableChanges"]) for value in values] == [0, 1, 0, 0, 0, 0]
    assert [value["ddl"] for value in values] == [each.statement.text for each in PARTS]
    bare = values[-1]["source"]
    assert (bare["gtid"], bare["file"], bare["pos"], bare["server_id"]) == (None, "", 0, 0)


def test_avro_says_what_json_says() -> None:
    plain, avro = (schema_change_messages(PARTS, "p", "1.0", 9_999_999, of) for of in (JSON, AVRO))
    schema = fastavro.parse_schema(json.loads(avro_text(avro.value_schema)))
    found = [fastavro.schemaless_reader(io.BytesIO(each), schema, None) for each in avro.values.to_pylist()]
    assert found == [json.loads(each) for each in plain.values.to_pylist()]
