"""The service with topics and without a lake, on a real source and a real broker."""

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from actors.kafka.segment_rows import SegmentRows
from actors.kafka_sink import KafkaSink, join_journal
from actors.runtime.mailbox import Mailbox
from actors.runtime.metrics import Metrics
from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.column_rules import ColumnRule, MessageKey
from pipeline.config.message_routes import TopicRoute
from pipeline.config.outbox import Outbox
from pipeline.config.settings import KafkaSinkSettings, Settings
from pipeline.config.unwrapping import Unwrap
from pipeline.kafka import rows_in_step, step
from pipeline.kafka.debezium.table_mapping import TableMapping
from pipeline.messages.inboxes import ToKafkaSink
from pipeline.messages.journal import SegmentSealed
from pipeline.messages.topology import EDGES, inbox
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from tests.integration.history import History
from tests.pipeline.lake.stream.entries import ITEMS, ORDERS
from tests.servers.awaiting import WITHIN_S, until
from tests.servers.kafka import administrating, appeared, create_topic
from tests.servers.kafka_messages import Judge, committed_messages, topics
from tests.servers.kafka_pipeline import judged, sent, to_topics
from tests.servers.service import Running, running
from tests.servers.shop import TABLES, writing


async def test_each_change_is_once_in_its_topic_and_a_snapshot_between(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path, partitions=3)
    async with running(settings, Assembly) as service:
        await service.begun()
        with writing(open_shop):
            await service.execute("s1")
            await service.completed("s1")
        await service.execute("s2")
        await service.completed("s2")
        await service.caught_up(open_shop)
        await service.stop()
    judges = await judged(kafka, settings, open_shop)
    assert all(judge.read and judge.changes for judge in judges.values())
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.orders")
    assert {record.partition for record in records} == {0, 1, 2}
    kinds = {json.loads(record.value)["source"]["snapshot"] for record in records if record.value}
    assert kinds == {"false", "incremental"}
    assert await topics(kafka, f"{settings.kafka.topic_prefix}.") == sorted(judges)


@pytest.mark.parametrize("skipped", [("t",), ("none",)])
async def test_a_scan_is_a_run_of_reads_between_the_changes_and_a_truncate_is_a_statements_alone(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, skipped: tuple[str, ...]
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path, skipped_operations=skipped, transaction_rows=2)
    open_shop.sql("CREATE TABLE shop.visits (page INT)", "INSERT INTO shop.visits VALUES (1), (1), (2)")
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql("INSERT INTO shop.visits VALUES (3)")
        await service.execute("s1", r"shop\.visits", type="blocking")
        await service.completed("s1")
        open_shop.sql("DELETE FROM shop.visits WHERE page = 2", "TRUNCATE TABLE shop.visits")
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.visits")
    assert {record.key for record in records} == {None}
    values = [json.loads(record.value) for record in records]
    told = [(each["op"], (each["after"] or each["before"] or {}).get("page")) for each in values]
    assert told[0] == ("c", 3)
    assert sorted(told[1:5]) == [("r", 1), ("r", 1), ("r", 2), ("r", 3)]
    assert told[5:] == [("d", 2), *([("t", None)] if skipped == ("none",) else [])]


@pytest.mark.parametrize("rows", [1, 7])
async def test_a_transaction_that_is_too_large_is_split(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, rows: int
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=rows)
    async with running(settings, Assembly) as service:
        await service.begun()
        values = ", ".join(f"({number}, 0)" for number in range(40))
        open_shop.sql(
            "CREATE TABLE shop.many (id INT PRIMARY KEY, v INT)", f"INSERT INTO shop.many VALUES {values}"
        )
        open_shop.sql("UPDATE shop.many SET v = 1", "UPDATE shop.many SET id = id + 100 WHERE id < 9")
        await service.caught_up(open_shop)
        await service.stop()
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.many")
    assert Judge().judge(records).faults == []
    assert len(records) == 40 + 40 + 3 * 9


@pytest.mark.parametrize("rows", [7, 100_000])
async def test_transactions_are_told_in_their_topic_and_in_each_change(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one table's rows make no messages: the others' come, and say the same in the end."""
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    rekeyed, mended = TableMapping.with_keys, asyncio.Event()

    def with_keys(mapping: TableMapping, changes: pa.RecordBatch) -> pa.RecordBatch:
        if mapping.schema.table.name == "three" and not mended.is_set():
            raise pa.ArrowInvalid("4711")
        return rekeyed(mapping, changes)

    monkeypatch.setattr(TableMapping, "with_keys", with_keys)
    settings = to_topics(
        kafka, open_shop, tmp_path, transaction_rows=rows, partitions=2, provide_transaction_metadata=True,
        heartbeat_interval_ms=50, message_keys=(MessageKey(TableFilter((r"shop\.three",)), ("v",)),),
    )  # fmt: skip
    async with running(settings, Assembly) as service:
        await service.begun()
        values = ", ".join(f"({number}, 0)" for number in range(40))
        open_shop.sql(
            "CREATE TABLE shop.one (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE shop.two LIKE shop.one",
            "CREATE TABLE shop.three LIKE shop.one",
        )
        open_shop.sql(
            "BEGIN",
            f"INSERT INTO shop.one VALUES {values}",
            "INSERT INTO shop.three VALUES (1, 1)",
            "INSERT INTO shop.two VALUES (1, 1)",
            "UPDATE shop.one SET id = id + 100 WHERE id < 3",
            "COMMIT",
            "UPDATE shop.two SET v = 2",
            "DELETE FROM shop.two",
        )
        await service.caught_up(open_shop)
        await sent(service)
        assert settings.kafka is not None
        prefix = settings.kafka.topic_prefix
        asides = service.status(Name.KAFKA_SINK)["set_aside"]
        assert [*asides] == [f"{prefix}.shop.three"]
        assert "a row of shop.three makes no message" in asides[f"{prefix}.shop.three"]
        mended.set()
        await service.until(
            lambda: service.status(Name.KAFKA_SINK).get("set_aside") == {}, "the topic has caught up"
        )
        await appeared(kafka, f"__debezium-heartbeat.{prefix}")
        await service.stop()
    marks = [json.loads(record.value) for record in await committed_messages(kafka, f"{prefix}.transaction")]
    ends = {mark["id"]: mark for mark in marks if mark["status"] == "END"}
    assert sorted(mark["event_count"] for mark in ends.values()) == [1, 1, 48]
    assert ends.keys() == {mark["id"] for mark in marks if mark["status"] == "BEGIN"} and len(marks) == 6
    changes = [
        json.loads(record.value)
        for table in ("one", "two", "three")
        for record in await committed_messages(kafka, f"{prefix}.shop.{table}")
        if record.value
    ]
    for id_, mark in ends.items():
        of = [change["transaction"] for change in changes if change["source"]["gtid"] == id_]
        assert {block["id"] for block in of} == {id_}
        assert sorted(block["total_order"] for block in of) == list(range(1, mark["event_count"] + 1))
    beats = await committed_messages(kafka, f"__debezium-heartbeat.{prefix}")
    assert beats and {record.key for record in beats} == {b'{"serverName":"%s"}' % prefix.encode()}


async def test_a_topic_that_refuses_holds_up_no_other_and_catches_up_once_it_takes_them(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=50)
    assert settings.kafka is not None
    topic = f"{settings.kafka.topic_prefix}.shop.texts"
    open_shop.sql("CREATE TABLE shop.texts (id INT PRIMARY KEY, t LONGTEXT)")

    async def refused(service: Running) -> str:
        asides = await service.until(
            lambda: service.status(Name.KAFKA_SINK).get("set_aside"), "the topic is set aside"
        )
        assert asides is not None and [*asides] == [topic]
        return str(asides[topic])

    await create_topic(kafka, topic, config={"max.message.bytes": "4000"})
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql("INSERT INTO shop.texts VALUES (1, 'small')")
        await service.caught_up(open_shop)
        await sent(service)
        open_shop.sql("INSERT INTO shop.texts VALUES (2, REPEAT('x', 9000)), (3, 'small')")
        reason = await refused(service)
        assert "a message is larger than its topic takes" in reason and "max.message.bytes" in reason
        with writing(open_shop):
            await service.execute("s1")
            await service.completed("s1")
        open_shop.sql("UPDATE shop.texts SET t = CONCAT(t, '!')")
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    await judged(kafka, settings, open_shop)
    assert len(await committed_messages(kafka, topic)) == 1
    # What was set aside is in the topics' position: another start knows it.
    async with running(settings, Assembly) as service:
        await refused(service)
        async with administrating(kafka.address) as admin:
            larger = {"max.message.bytes": "1000000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, larger)])
        await service.until(
            lambda: service.status(Name.KAFKA_SINK).get("set_aside") == {}, "the topic has caught up"
        )
        open_shop.sql("DELETE FROM shop.texts WHERE id = 1")
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    await judged(kafka, settings, open_shop)
    judge = Judge().judge(await committed_messages(kafka, topic))
    assert judge.faults == []
    assert sorted(row["id"] for row in judge.rows.values() if row is not None) == [2, 3]
    assert (judge.changes, judge.read) == (7, 3)


async def test_a_topic_catches_up_however_soon_the_next_segment_comes(
    kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the sink sends a segment, the next one is sealed, always. Messages come before what is due by time."""
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.1)
    prefix = f"p{uuid.uuid4().hex[:8]}"
    topic = f"{prefix}.shop.orders"
    await create_topic(kafka, topic, config={"max.message.bytes": "4000"})
    mailbox: Mailbox[ToKafkaSink] = Mailbox(inbox(Name.KAFKA_SINK))
    [edge] = [each for each in EDGES if each.receiver is Name.KAFKA_SINK]
    history = History(tmp_path / "journal")
    orders, items = history.table(ORDERS), history.table(ITEMS)
    putting: set[asyncio.Task[None]] = set()

    def seal_next(_: object) -> None:
        history.transaction((items, "c", (history.scn,)))
        putting.add(asyncio.create_task(mailbox.put(edge, SegmentSealed(history.seal()))))

    with closing(history.store):
        join_journal(history.store)
        history.transaction((orders, "c", (1, "x" * 9000)))
        history.seal()
        to = KafkaSinkSettings((kafka.address,), prefix)
        sink = KafkaSink(mailbox, Metrics(), to, prefix, history.store, seal_next)
        running = asyncio.create_task(sink.run())
        await until(lambda: running.done() or topic in sink.status()["set_aside"], "the topic is set aside")
        async with administrating(kafka.address) as admin:
            larger = {"max.message.bytes": "1000000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, larger)])
        await until(lambda: running.done() or not sink.status()["set_aside"], "the topic has caught up")
        mailbox.close()
        await running
    assert [json.loads(each.value)["after"]["id"] for each in await committed_messages(kafka, topic)] == [1]


async def test_a_topic_that_takes_small_batches_alone_gets_them(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """As Kafka's own producer divides them: each message of its own is small enough."""
    settings = to_topics(kafka, open_shop, tmp_path)
    assert settings.kafka is not None
    topic = f"{settings.kafka.topic_prefix}.shop.texts"
    await create_topic(kafka, topic, config={"max.message.bytes": "4000"})
    rows = ", ".join(f"({number}, REPEAT('x', 900))" for number in range(50))
    open_shop.sql("CREATE TABLE shop.texts (id INT PRIMARY KEY, t TEXT)")
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql(f"INSERT INTO shop.texts VALUES {rows}", "UPDATE shop.customers SET email = 'x'")
        await service.caught_up(open_shop)
        await sent(service)
        assert service.status(Name.KAFKA_SINK)["set_aside"] == {}
        await service.stop()
    ids = [json.loads(record.value)["after"]["id"] for record in await committed_messages(kafka, topic)]
    assert ids == list(range(50))


async def test_routes_change_while_a_topic_lacks_rows(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row goes once, where the settings said when it came, and no other topic waits."""
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=50)
    assert settings.kafka is not None
    prefix = settings.kafka.topic_prefix
    topic = f"{prefix}.shop.texts"
    # The topic that lacks rows is another table's from now on, and its own table goes where a third one goes.
    routes = (TopicRoute(r"(.*)\.(texts|third)", "$1.rest"), TopicRoute(r"(.*)\.other", "$1.texts"))
    rerouted = replace(settings, kafka=replace(settings.kafka, topic_routes=routes))
    again = replace(rerouted, kafka=replace(settings.kafka, topic_prefix=f"{prefix}-next"))
    for name in ("texts", "other", "third"):
        open_shop.sql(f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, t LONGTEXT)")
    await create_topic(kafka, topic, config={"max.message.bytes": "4000"})

    async def lives(by: Settings, number: int, aside: list[str]) -> None:
        async with running(by, Assembly) as service:
            await service.begun()
            for name in ("texts", "other", "third"):
                text = "REPEAT('x', 9000)" if (name, number) == ("texts", 1) else "'small'"
                open_shop.sql(f"INSERT INTO shop.{name} VALUES ({number}, {text})")
            await service.caught_up(open_shop)
            await sent(service)
            assert [*service.status(Name.KAFKA_SINK)["set_aside"]] == aside
            await service.stop()

    await lives(settings, 0, [])
    await lives(settings, 1, [topic])
    await lives(rerouted, 2, [topic])
    await lives(again, 3, [topic])
    async with running(again, Assembly) as service:
        await service.until(
            lambda: [*service.status(Name.KAFKA_SINK).get("set_aside", ())] == [topic], "it lacks rows"
        )
        async with administrating(kafka.address) as admin:
            larger = {"max.message.bytes": "1000000"}
            await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, larger)])
        await service.until(
            lambda: service.status(Name.KAFKA_SINK).get("set_aside") == {}, "the topic has caught up"
        )
        await service.stop()
    await lives(again, 4, [])

    async def rows(name: str) -> list[tuple[str, int]]:
        found = [json.loads(record.value) for record in await committed_messages(kafka, name)]
        return [(each["source"]["table"], each["after"]["id"]) for each in found]

    assert await rows(topic) == [("texts", 0), ("texts", 1), ("other", 2)]
    assert await rows(f"{prefix}.shop.rest") == [("texts", 2), ("third", 2)]
    assert await rows(f"{prefix}.shop.other") == [("other", 0), ("other", 1)]
    assert await rows(f"{prefix}.shop.third") == [("third", 0), ("third", 1)]
    for name in ("texts", "other", "third"):
        assert await rows(f"{prefix}-next.shop.{name}") == [(name, 3), (name, 4)]


@pytest.mark.full
async def test_a_table_that_refuses_is_set_aside_whatever_another_tables_rows_say(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path, unwrap=Unwrap(route_by_field="goes"))
    assert settings.kafka is not None
    prefix = settings.kafka.topic_prefix
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql(
            "CREATE TABLE shop.lacks (id INT PRIMARY KEY, goes VARCHAR(60))",
            "CREATE TABLE shop.names LIKE shop.lacks",
            f"INSERT INTO shop.names VALUES (1, '{prefix}.shop.lacks')",
        )
        await service.caught_up(open_shop)
        await sent(service)
        open_shop.sql("INSERT INTO shop.lacks VALUES (1, NULL)")
        asides = await service.until(
            lambda: service.status(Name.KAFKA_SINK).get("set_aside"), "the topic is set aside"
        )
        open_shop.sql(f"INSERT INTO shop.names VALUES (2, '{prefix}.shop.lacks')")
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    assert asides is not None and [*asides] == [f"{prefix}.shop.lacks"]
    keys = [record.key for record in await committed_messages(kafka, f"{prefix}.shop.lacks")]
    assert keys == [b'{"id":1}', b'{"id":2}']


async def test_a_table_whose_rows_go_to_the_topic_of_the_position_or_of_the_broker_is_set_aside(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    """No start could read the position any more, nor the broker its offsets. The broker makes its own topics itself."""
    settings = to_topics(kafka, open_shop, tmp_path, unwrap=Unwrap(route_by_field="goes"))
    assert settings.kafka is not None
    prefix = settings.kafka.topic_prefix
    ours, brokers, rest = f"tidemark-position-{prefix}", "__consumer_offsets", f"{prefix}.rest"
    unused = "__share_group_state"  # no test has a share group
    routes = (TopicRoute(r".*\.routed", ours),)
    routed = replace(settings, kafka=replace(settings.kafka, unwrap=None, topic_routes=routes))
    async with running(settings, Assembly) as service:
        await service.begun()
        names = {"one": ours, "two": brokers, "three": unused, "routed": rest, "rest": rest}
        for name, topic in names.items():
            open_shop.sql(
                f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, goes VARCHAR(60))",
                f"INSERT INTO shop.{name} VALUES (1, '{topic}')",
            )
        await service.caught_up(open_shop)
        await sent(service)
        asides = service.status(Name.KAFKA_SINK)["set_aside"]
        assert sorted(asides) == [f"{prefix}.shop.{name}" for name in ("one", "three", "two")]
        assert f"its rows go to {ours}, which has the sink's position" in asides[f"{prefix}.shop.one"]
        assert f"{brokers}: the broker keeps its own state in it" in asides[f"{prefix}.shop.two"]
        assert f"{unused}: the broker keeps its own state in it" in asides[f"{prefix}.shop.three"]
        await service.stop()
    assert await topics(kafka, unused) == []
    # Another start finds the position. Now a table's own topic is that one.
    async with running(routed, Assembly) as service:
        open_shop.sql("INSERT INTO shop.routed VALUES (2, '')", "INSERT INTO shop.rest VALUES (2, '')")
        await service.until(
            lambda: [*service.status(Name.KAFKA_SINK).get("set_aside", ())] == [ours], "it is set aside alone"
        )
        await service.caught_up(open_shop)
        await sent(service)
        assert "has the sink's position" in service.status(Name.KAFKA_SINK)["set_aside"][ours]
        await service.stop()
    for topic, count in {
        rest: 2,
        **{f"{prefix}.shop.{name}": 1 for name in ("one", "two", "three", "rest")},
    }.items():
        assert len(await committed_messages(kafka, topic)) == count


async def test_events_and_routed_rows_reach_their_topics(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}"
    placed = ("part:partition", "kind:header")
    box = Outbox(
        TableFilter((r"shop\.outbox",)),
        table_fields_additional_placement=placed,
        table_field_event_timestamp="at",
        table_expand_json_payload=True,
        route_topic_replacement=f"{prefix}.event.${{routedByValue}}",
    )
    settings = to_topics(
        kafka, open_shop, tmp_path, topic_prefix=prefix, partitions=2, outboxes=(box,),
        topic_routes=(TopicRoute(r"(.*)\.part_\d", "$1.parts"),), unwrap=Unwrap(add_fields=("op",)),
        columns=(ColumnRule((r".*\.secret",), mask_with_length=3),),
    )  # fmt: skip
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql(
            "CREATE TABLE shop.outbox (id INT PRIMARY KEY, aggregatetype VARCHAR(9), aggregateid INT, kind VARCHAR(9),"
            " payload JSON, part INT, at DATETIME(3))",
            "CREATE TABLE shop.part_1 (id INT PRIMARY KEY, secret VARCHAR(9))",
            "CREATE TABLE shop.part_2 LIKE shop.part_1",
        )
        open_shop.sql(
            "BEGIN",
            "INSERT INTO shop.part_1 VALUES (1, 'geheim')",
            "INSERT INTO shop.part_2 VALUES (1, 'secret')",
            "INSERT INTO shop.outbox VALUES (1, 'Order', 7, 'made', '{\"a\": 1}', 1, '2024-05-06 07:08:09.123'),"
            " (2, 'Bill', 7, 'made', '{\"a\": [2]}', 0, NULL), (3, 'Order', 8, NULL, NULL, 1, NULL)",
            "DELETE FROM shop.outbox",
            "COMMIT",
        )
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    assert await topics(kafka, prefix) == [
        f"{prefix}.{name}" for name in ("event.Bill", "event.Order", "shop.parts")
    ]
    orders = await committed_messages(kafka, f"{prefix}.event.Order")
    assert [(each.partition, each.key, each.value) for each in orders] == [
        (1, b"7", b'{"a":1}'),
        (1, b"8", b"null"),
    ]
    assert orders[0].timestamp == 1_714_979_289_123
    assert dict(orders[0].headers) == {"id": b"1", "kind": b'"made"'}
    [bill] = await committed_messages(kafka, f"{prefix}.event.Bill")
    assert (bill.partition, bill.value) == (0, b'{"a":[2]}')
    rows = await committed_messages(kafka, f"{prefix}.shop.parts")
    assert {each.key for each in rows} == {
        b'{"id":1,"__dbz__physicalTableIdentifier":"%s.shop.part_%d"}' % (prefix.encode(), number)
        for number in (1, 2)
    }
    assert {each.value for each in rows} == {b'{"id":1,"secret":"***","__op":"c"}'}


@pytest.mark.parametrize("rows", [4, 100_000])
async def test_rows_that_move_between_tables_of_one_topic_come_in_the_order_of_the_log(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, rows: int
) -> None:
    route = TopicRoute(r"(.*)\.shard_\d", "$1.shards", key_enforce_uniqueness=False)
    settings = to_topics(
        kafka, open_shop, tmp_path, partitions=2, topic_routes=(route,), transaction_rows=rows
    )
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql(
            "CREATE TABLE shop.shard_1 (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE shop.shard_2 (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.shard_2 VALUES (1, 0), (2, 0), (3, 0)",
        )
        for v in range(12):
            there, here = ("shard_2", "shard_1") if v % 2 else ("shard_1", "shard_2")
            moves = [
                move.format(id=id_)
                for id_ in (1, 2, 3)
                for move in (
                    f"DELETE FROM shop.{here} WHERE id = {{id}}",
                    f"INSERT INTO shop.{there} (id, v) VALUES ({{id}}, {v})",
                )
            ]
            open_shop.sql("BEGIN", *moves, "COMMIT")
            if v == 5:
                open_shop.sql("ALTER TABLE shop.shard_1 ADD more INT DEFAULT 7")
                open_shop.sql("ALTER TABLE shop.shard_2 ADD more INT DEFAULT 7")
        await service.caught_up(open_shop)
        await service.stop()
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.shards")
    for key in {record.key for record in records}:
        of_key = [record.value and json.loads(record.value) for record in records if record.key == key]
        assert [each and (each["op"], (each["before"] or each["after"])["v"]) for each in of_key] == [
            ("c", 0),
            *(told for v in range(12) for told in (("d", max(v - 1, 0)), None, ("c", v))),
        ]


@pytest.mark.parametrize("rows", [4, 100_000])
async def test_a_table_whose_columns_are_again_what_they_were_loses_nothing_and_keeps_its_order(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, rows: int
) -> None:
    """All in one segment, as where capture catches up."""
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=rows)
    settings = replace(settings, journal=replace(settings.journal, seal_after_ms=3_000))
    open_shop.sql("CREATE TABLE shop.numbers (id INT PRIMARY KEY, v INT)")
    async with running(settings, Assembly) as service:
        await service.begun()
        for v, kind in enumerate(["BIGINT", "INT", "BIGINT", "INT"]):
            numbers = ", ".join(f"({id_}, {v})" for id_ in range(3))
            open_shop.sql(f"REPLACE INTO shop.numbers VALUES {numbers}")
            open_shop.sql(f"ALTER TABLE shop.numbers MODIFY v {kind}")
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    assert settings.kafka is not None
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.numbers")
    values = [json.loads(record.value) for record in records if record.value]
    told = [(each["after"]["id"], each["after"]["v"]) for each in values if each["op"] != "d"]
    assert told == [(id_, v) for v in range(4) for id_ in range(3)]


@pytest.mark.parametrize("apart_first", [True, False])
async def test_routes_that_change_amid_a_split_transaction_lose_and_repeat_nothing(
    open_shop: MysqlServer,
    kafka: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    apart_first: bool,
) -> None:
    """The service dies after the second part, and the next start has other routes."""
    apart = to_topics(kafka, open_shop, tmp_path, transaction_rows=4)
    assert apart.kafka is not None
    route = TopicRoute(r"(.*)\.shard_\d", "$1.shards")
    joined = replace(apart, kafka=replace(apart.kafka, topic_routes=(route,)))
    before, after = (apart, joined) if apart_first else (joined, apart)
    open_shop.sql(*(f"CREATE TABLE shop.shard_{n} (id INT PRIMARY KEY)" for n in (1, 2, 3)))
    with monkeypatch.context() as dying:
        torn = stopping_amid(dying, 4)
        async with running(before, Assembly) as service:
            await service.begun()
            rows = [f"INSERT INTO shop.shard_{1 + id_ % 3} VALUES ({id_})" for id_ in range(30)]
            open_shop.sql("BEGIN", *rows, "COMMIT")
            async with asyncio.timeout(WITHIN_S):
                await torn.wait()
            await service.drop()
    async with running(after, Assembly) as service:
        await service.begun()
        await service.caught_up(open_shop)
        await sent(service)
        await service.stop()
    found = await topics(kafka, f"{apart.kafka.topic_prefix}.")
    assert len(found) > 1
    records = [record for topic in found for record in await committed_messages(kafka, topic)]
    ids = [json.loads(record.value)["after"]["id"] for record in records if record.value]
    assert sorted(ids) == list(range(30))


@pytest.mark.parametrize("metadata", [False, True])
async def test_a_start_amid_a_split_transaction_skips_slowly_what_was_sent(
    open_shop: MysqlServer,
    kafka: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    metadata: bool,
) -> None:
    """It takes longer than the sink's patience, and longer than a Kafka transaction may."""
    monkeypatch.setattr(rows_in_step, "ROWS_CONVERTED_TOGETHER", 2)
    more: dict[str, Any] = {"transaction_timeout_s": 2.0, "provide_transaction_metadata": metadata}
    settings = to_topics(kafka, open_shop, tmp_path, transaction_rows=8, **more)
    assert settings.kafka is not None
    open_shop.sql("CREATE TABLE shop.many (id INT PRIMARY KEY)")
    with monkeypatch.context() as dying:
        torn = stopping_amid(dying, 48)
        async with running(settings, Assembly) as service:
            await service.begun()
            open_shop.sql(f"INSERT INTO shop.many VALUES {', '.join(f'({id_})' for id_ in range(64))}")
            async with asyncio.timeout(WITHIN_S):
                await torn.wait()
            await service.drop()
    read = SegmentRows._batches

    def slowly(*args: Any) -> Iterator[pa.RecordBatch]:
        for rows in read(*args):
            # The thread is at work for so long.
            time.sleep(0.12)
            yield rows

    monkeypatch.setattr(SegmentRows, "_batches", slowly)
    monkeypatch.setattr(KafkaSink, "patience", 1.5)
    async with running(settings, Assembly) as service:
        await service.begun()
        await service.caught_up(open_shop)
        await sent(service)
        assert Name.KAFKA_SINK not in service.supervisor.failures
        await service.stop()
    records = await committed_messages(kafka, f"{settings.kafka.topic_prefix}.shop.many")
    assert [json.loads(record.value)["after"]["id"] for record in records] == list(range(64))


def stopping_amid(monkeypatch: pytest.MonkeyPatch, rows: int) -> asyncio.Event:
    """The sink stands still once it has committed more rows of a split transaction. Returns when it does."""
    commit, torn = KafkaSink._commit, asyncio.Event()

    async def commits(self: Any, connected: Any, at: Any) -> None:
        await commit(self, connected, at)
        if at.position.rows > rows:
            torn.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(KafkaSink, "_commit", commits)
    return torn


async def test_notifications_of_snapshots_come_once_in_their_order(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path
) -> None:
    settings = to_topics(kafka, open_shop, tmp_path)
    assert settings.kafka is not None
    topic = f"{settings.name}-notifications"
    settings = replace(settings, kafka=replace(settings.kafka, notification_sink_topic_name=topic))
    for signal in ("s1", "s2"):
        # Each life begins with what the one before has left.
        async with running(settings, Assembly) as service:
            await service.begun()
            await service.execute(signal)
            await service.completed(signal)
            await sent(service)
            await service.stop()
    found = [json.loads(each.value) for each in await committed_messages(kafka, topic)]
    for signal in ("s1", "s2"):
        types = [each["type"] for each in found if each["id"] == signal]
        assert types[0] == "STARTED" and types[-1] == "COMPLETED"
        assert types.count("STARTED") == types.count("COMPLETED") == 1
        scanned = [
            each["additional_data"]["scanned_collection"]
            for each in found
            if each["id"] == signal and each["type"] == "TABLE_SCAN_COMPLETED"
        ]
        assert sorted(scanned) == sorted(table.dotted for table in TABLES)
    assert {each["additional_data"]["connector_name"] for each in found} == {settings.name}
    assert len({json.dumps(each, sort_keys=True) for each in found}) == len(found)


async def test_topics_of_notifications_and_heartbeats_that_are_not_there_hold_up_no_other_topic(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    settings = to_topics(kafka, open_shop, tmp_path, create_topics=False, heartbeat_interval_ms=50)
    assert settings.kafka is not None
    topic, beats = f"{settings.name}-notifications", f"__debezium-heartbeat.{settings.name}"
    settings = replace(settings, kafka=replace(settings.kafka, notification_sink_topic_name=topic))
    await create_topic(kafka, f"tidemark-position-{settings.name}", config={"cleanup.policy": "compact"})
    for table in TABLES:
        await create_topic(kafka, f"{settings.name}.{table}")
    async with running(settings, Assembly) as service:
        await service.begun()
        await service.execute("s1")
        await service.completed("s1")
        await sent(service)
        await service.until(
            lambda: {*service.status(Name.KAFKA_SINK).get("set_aside", ())} == {topic, beats},
            "both topics are set aside",
        )
        await create_topic(kafka, topic)
        await service.until(
            lambda: [*service.status(Name.KAFKA_SINK)["set_aside"]] == [beats], "the topic has caught up"
        )
        assert "there's no such topic" in service.status(Name.KAFKA_SINK)["set_aside"][beats]
        await create_topic(kafka, beats)
        await service.until(
            lambda: not service.status(Name.KAFKA_SINK).get("set_aside"), "the topic takes heartbeats"
        )
        await service.stop()
    assert await committed_messages(kafka, beats)
    assert all(judge.read for judge in (await judged(kafka, settings, open_shop)).values())
    types = [json.loads(each.value)["type"] for each in await committed_messages(kafka, topic)]
    assert (types[0], types[-1]) == ("STARTED", "COMPLETED")
    assert types.count("TABLE_SCAN_COMPLETED") == len(TABLES) and types.count("STARTED") == 1


def written(folder: Path) -> list[bytes]:
    """What is in all files of a folder."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("rows", [1, 100_000])
async def test_statements_on_the_schema_come_once_in_their_order_and_no_secret(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, rows: int
) -> None:
    settings = to_topics(
        kafka, open_shop, tmp_path, transaction_rows=rows, partitions=3, include_schema_changes=True,
        tables=TableFilter((r"shop\.a.*",)),
    )  # fmt: skip
    told = ["CREATE TABLE shop.a (id INT PRIMARY KEY)"]
    for life in range(3):
        async with running(settings, Assembly) as service:
            await service.begun()
            if not life:
                open_shop.sql(*told, "CREATE TABLE shop.b (id INT)")
            more = [f"ALTER TABLE shop.a ADD x{life} INT", f"CREATE TABLE shop.a{life} (id INT PRIMARY KEY)"]
            user = f"CREATE USER IF NOT EXISTS kept IDENTIFIED BY 'canary{life}'"
            filled = f"CREATE TABLE shop.afilled{life} AS SELECT 1 AS id UNION SELECT 2 UNION SELECT 3"
            open_shop.sql(more[0], f"INSERT INTO shop.a (id) VALUES ({life})", user, filled, more[1])
            told += [more[0], f"CREATE TABLE `shop`.`afilled{life}`", more[1]]
            await service.caught_up(open_shop)
            await sent(service)
            await service.stop()
    found = await committed_messages(kafka, settings.name)
    texts = [json.loads(each.value)["ddl"] for each in found]
    assert [text.partition(" (")[0] if "START TRANSACTION" in text else text for text in texts] == told
    assert {each.partition for each in found} == {0}
    assert len(await committed_messages(kafka, f"{settings.name}.shop.a")) == 3
    assert any(told[0].encode() in content for content in written(tmp_path))
    assert not any(b"canary" in content for content in written(tmp_path))


async def test_a_topic_of_schema_changes_that_is_not_there_holds_up_no_other_and_lacks_nothing_later(
    open_shop: MysqlServer, kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "AGAIN_AFTER_S", 0.5)
    settings = to_topics(kafka, open_shop, tmp_path, create_topics=False, include_schema_changes=True)
    await create_topic(kafka, f"tidemark-position-{settings.name}", config={"cleanup.policy": "compact"})
    await create_topic(kafka, f"{settings.name}.shop.a")
    told = ["CREATE TABLE shop.a (id INT PRIMARY KEY)", "ALTER TABLE shop.a ADD x INT"]
    async with running(settings, Assembly) as service:
        await service.begun()
        open_shop.sql(*told, "INSERT INTO shop.a VALUES (1, 2)")
        await service.caught_up(open_shop)
        await sent(service)
        assert [*service.status(Name.KAFKA_SINK)["set_aside"]] == [settings.name]
        assert len(await committed_messages(kafka, f"{settings.name}.shop.a")) == 1
        await create_topic(kafka, settings.name)
        await service.until(
            lambda: not service.status(Name.KAFKA_SINK).get("set_aside"), "the topic has caught up"
        )
        await service.stop()
    found = await committed_messages(kafka, settings.name)
    assert [json.loads(each.value)["ddl"] for each in found] == told
