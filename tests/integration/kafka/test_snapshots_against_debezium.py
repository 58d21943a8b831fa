"""Our messages of a snapshot beside those of a real Debezium's snapshots of the same tables, field by field.

Debezium takes its first snapshot (`snapshot.mode` = `initial`), and then an incremental one, read-only as ours are.
docs/kafka.md lists what differs.
"""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from actors.kafka.batches import MessageBatches
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.message_handling import TimePrecision
from pipeline.config.settings import KafkaSinkSettings
from pipeline.gtid.coordinates import Coordinates
from pipeline.journal.change_rows import chunk_changes
from pipeline.kafka.rows_in_step import TableRows
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import ChunkId
from tests.integration.kafka.test_against_debezium import (
    account,
    changes_of_all_kinds,
    comparable,
    put,
    server,
)
from tests.integration.kafka.test_random_against_debezium import tables_of
from tests.servers.debezium_differences import ALWAYS, excused, schema_differences
from tests.servers.debezium_messages import PREFIX, Message, debezium_variants, log_end
from tests.servers.debezium_modes import modes_of
from tests.servers.selector import bench

__all__ = ["account", "server"]

END: Final = "marker.end"


@pytest.mark.full
@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_rows_of_snapshots_are_debeziums(
    parts: Parts, server: MysqlServer, account: Account, tmp_path: Path, number: int
) -> None:
    changes_of_all_kinds(server)
    random_tables = {f"t{at}": table for at, table in enumerate(tables_of(number))}
    for name, table in random_tables.items():
        hidden = f"SET SESSION sql_generate_invisible_primary_key = {int(table.key_at is None)}"
        server.sql(hidden, table.create(f"shop.{name}"), table.insert(f"shop.{name}"))
    server.sql(f"INSERT INTO {END} VALUES (1)")
    definitions: dict[str, dict[str, list[str]]] = {
        name: {**ALWAYS, **{column.name: [column.sql] for column in table.columns}}
        for name, table in random_tables.items()
    }
    definitions["types"] = {name: [f"{name} TIMESTAMP(6)"] for name in ("ts", "ts2", "ts6")}
    modes, form = modes_of(Random(number))
    # Debezium stops at a year that has no number of nanoseconds.
    typed = form["time_precision_mode"] is not TimePrecision.NANOSECONDS
    tables = [*(["types"] if typed else []), "pairs", *random_tables]
    schemas = number % 2 == 0
    options = {
        **modes,
        "converter.schemas.enable": str(schemas).lower(),
        "table.include.list": ",".join([*(f"shop.{table}" for table in tables), END]),
    }
    server.create_capture_user("shop", "marker")
    mine = asyncio.run(ours(server, tables, {**form, "schemas_enable": schemas}))
    taken = debezium_variants(parts, server, account, None, END, tmp_path, options, {"plain": {}})["plain"]
    found = values(taken, mine)
    for name in tables:
        theirs = [other["source"].pop("snapshot") for _, other in found[name]]
        assert theirs == places_of(len(theirs), first=name == tables[0])
        assert {one["source"].pop("snapshot") for one, _ in found[name]} == {"incremental"}
    faults = different(found, definitions)
    # Debezium's incremental snapshots have null in invisible columns, and stop if they are NOT NULL.
    mine = {
        topic: messages
        for topic, messages in mine.items()
        if (name := topic.rpartition(".")[2]) not in random_tables
        or (random_tables[name].key_at is not None and " INVISIBLE" not in random_tables[name].create(name))
    }
    tables = [topic.rpartition(".")[2] for topic in mine]
    signal = tmp_path / "signals"
    asked = {"type": "INCREMENTAL", "data-collections": [*(f"shop.{table}" for table in tables), END]}
    signal.write_text(json.dumps({"id": "s", "type": "execute-snapshot", "data": asked}) + "\n")
    options |= {
        "read.only": "true",
        "signal.enabled.channels": "file",
        "signal.file": str(signal),
        "signal.poll.interval.ms": "100",
        "incremental.snapshot.chunk.size": "3",
    }
    again = debezium_variants(parts, server, account, log_end(server), END, tmp_path, options, {"plain": {}})[
        "plain"
    ]
    found = values(again, mine)
    # Debezium has the server's number, and the place of the last event that it has read, which may be a short one.
    beside = [(one["source"], other["source"]) for each in found.values() for one, other in each]
    assert {other.pop("server_id") for _, other in beside} == set(server.sql("SELECT @@server_id")[0])
    assert {one.pop("server_id") for one, _ in beside} == {0}
    assert all(other.pop("pos") <= one.pop("pos") for one, other in beside)
    faults += different(found, definitions)
    assert not faults, "\n".join((str(options), *(fault[:400] for fault in faults[:12])))


def places_of(rows: int, *, first: bool) -> list[str]:
    """The `source.snapshot` of a table's rows in Debezium's first snapshot; `first`: it's the first table."""
    begin = "first" if first else "first_in_data_collection"
    if rows == 1:
        return [begin if first else "last_in_data_collection"]
    return [begin, *["true"] * (rows - 2), "last_in_data_collection"]


async def ours(
    server: MysqlServer, tables: Sequence[str], form: Mapping[str, Any]
) -> dict[str, list[Message]]:
    """The messages that we send of a snapshot of these tables, by topic."""
    making = MessageBatches(KafkaSinkSettings(("kafka:1",), PREFIX, **form))
    found: dict[str, list[Message]] = {}
    async with bench(server, "shop") as running:
        place = log_end(server)
        for name in tables:
            plan = await running.plan(TableId("shop", name))
            for number, rows in enumerate(await running.walk(plan, 1000)):
                chunk = ChunkId("s", plan.schema.table, number)
                changes = chunk_changes(rows, chunk, 1, 0, Coordinates(place.file, place.position))
                for records in making.records(making.rows(TableRows(plan.schema, changes)), 1):
                    put(found, records)
    return found


def values(
    theirs: Sequence[Message], mine: Mapping[str, Sequence[Message]]
) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Our values of each table beside Debezium's. All else of the messages is equal, and so are the schemas."""
    found: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for topic, own in mine.items():
        others = [message for message in theirs if message.topic == topic]
        assert len(others) == len(own)
        pairs = found[topic.rpartition(".")[2]] = []
        for one, other in zip(own, others, strict=True):
            beside = [
                (each.key, each.headers, each.partition, each.at_ms) for each in map(comparable, (one, other))
            ]
            assert beside[0] == beside[1]
            pairs.append((value_of(one), value_of(other)))
    return found


def value_of(message: Message) -> dict[str, Any]:
    """A value without what's of its making, numbers as they are written."""
    value: dict[str, Any] = json.loads(message.value or "", parse_float=str)
    schema, value = value.get("schema"), value.get("payload", value)
    for name in ("ts_ms", "ts_us", "ts_ns"):
        del value["source"][name], value[name]
    del value["source"]["version"]
    return {**value, "schema": schema}


def different(
    found: Mapping[str, Sequence[tuple[dict[str, Any], dict[str, Any]]]],
    definitions: Mapping[str, Mapping[str, Sequence[str]]],
) -> list[str]:
    """Where the values differ, but for what's documented of columns."""
    faults = []
    for table, pairs in found.items():
        for one, other in pairs:
            mine, theirs = one["after"], other["after"]
            faults += [
                f"{table}.{name}: {mine[name]} {theirs[name]}"
                for name in mine
                if not any(
                    excused_in_snapshots(each, mine[name], theirs[name])
                    for each in definitions.get(table, {}).get(name, [name])
                )
            ]
            schemas = one.pop("schema"), other.pop("schema")
            faults += [
                f"{table}: {each}" for each in schema_differences(*schemas, definitions.get(table, {}))
            ]
            rest = [{name: each[name] for name in each if name != "after"} for each in (one, other)]
            if rest[0] != rest[1]:
                faults.append(f"{table}: {rest[0]} {rest[1]}")
    return faults


def excused_in_snapshots(definition: str, found: Any, expected: Any) -> bool:
    """Whether two values of a column are equal, or differ as docs/kafka.md says of any message or of a snapshot's."""
    if excused(definition, found, expected):
        return True
    kind = definition.split(" ")[1].partition("(")[0] if " " in definition else definition
    match kind:
        case "TIMESTAMP":
            return bool(re.sub(r"\.?0+Z$", "Z", found) == expected)
        case "YEAR":
            return (found, expected) in ((0, 2000), ("0", "2000"))
        case "FLOAT":
            return f"{float(found):.5e}" == f"{float(expected):.5e}"
    return False
