"""Whoever has committed finds that in the topic when it's told so, and not before: a real source and a real broker."""

import json
from dataclasses import replace
from pathlib import Path

from aiokafka import ConsumerRecord

from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.settings import Settings
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.applied.progress import Through
from pipeline.journal.applied.query import Answer, Applied, AppliedQuery, NeverApplied, NotYetApplied
from pipeline.messages.signals import SignalAccepted
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.integration.kafka.test_kafka_sink import to_topics
from tests.servers.executed import executed
from tests.servers.kafka_messages import committed_messages
from tests.servers.service import Running, running


async def applied(
    service: Running, gtids: GtidSet, *tables: TableId, timeout_s: float = 60
) -> Answer | NotYetApplied:
    query = AppliedQuery(gtids, Through.KAFKA, frozenset(tables) or None, timeout_s)
    return await service.assembly.applied.wait(query)


async def messages(broker: KafkaBroker, settings: Settings, table: TableId) -> list[ConsumerRecord]:
    return await committed_messages(broker, f"{settings.name}.{table}")


async def test_each_commit_is_in_its_topic_when_it_is_answered(
    mysql: MysqlServer, database: str, kafka: KafkaBroker, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u LIKE t", database=database)
    settings = to_topics(kafka, mysql, tmp_path, database)
    assert settings.kafka is not None
    only = TableFilter((rf"{database}\.t",))
    settings = replace(settings, kafka=replace(settings.kafka, tables=only))
    t, u = TableId(database, "t"), TableId(database, "u")
    before = executed(mysql)
    async with running(settings, Assembly) as service:
        await service.begun()
        for number in range(5):
            mysql.sql(f"INSERT INTO t VALUES ({number})", database=database)
            answer = await applied(service, executed(mysql) - before, t)
            assert isinstance(answer, Applied)
            records = await messages(kafka, settings, t)
            assert {json.loads(record.value)["after"]["id"] for record in records} >= set(range(number + 1))
        mysql.sql("INSERT INTO u VALUES (1)", database=database)
        of_all = await applied(service, executed(mysql) - before)
        assert isinstance(of_all, Applied)
        assert set(of_all.read_at) == {t}
        assert of_all.reached.segment <= service.status(Name.KAFKA_SINK)["segment"]
        refused = await applied(service, executed(mysql) - before, u)
        assert refused == NeverApplied(f"{u} isn't delivered: `kafka.tables` leaves it out")
        await service.stop()
    # A start with nothing to send knows from the position topic how far it is.
    async with running(settings, Assembly) as service:
        assert isinstance(await applied(service, executed(mysql) - before, t), Applied)
        await service.stop()


async def test_what_a_stop_has_missed_is_waited_for_until_the_snapshot_of_the_recapture_brings_it(
    mysql: MysqlServer, database: str, kafka: KafkaBroker, tmp_path: Path
) -> None:
    mysql.sql("CREATE TABLE t (id INT PRIMARY KEY)", database=database)
    settings, t = to_topics(kafka, mysql, tmp_path, database), TableId(database, "t")
    async with running(settings, Assembly) as service:
        await service.begun()
        mysql.sql("ALTER TABLE t ENGINE=BLACKHOLE", database=database)
        await service.until(lambda: service.status()["stopped"], "it's stopped")
        before = executed(mysql)
        mysql.sql("ALTER TABLE t ENGINE=InnoDB", "INSERT INTO t VALUES (1)", database=database)
        missed = executed(mysql) - before
        await service.caught_up(mysql)
        assert isinstance(await service.tell("pause-snapshot", "p"), SignalAccepted)
        assert isinstance(await service.tell("recapture", "r", rf"{database}\.t"), SignalAccepted)
        await service.until(lambda: service.status().get("stopped") == {}, "it begins again")

        before = executed(mysql)
        mysql.sql("INSERT INTO t VALUES (2)", database=database)
        await service.caught_up(mysql)  # until then the journal says that the table was stopped
        assert isinstance(await applied(service, executed(mysql) - before, t), Applied)
        assert [json.loads(each.value)["after"]["id"] for each in await messages(kafka, settings, t)] == [2]
        told = await applied(service, missed, t, timeout_s=1)
        assert isinstance(told, NotYetApplied)
        assert told.reason == "its snapshot is being read, which has what was committed before it"

        assert isinstance(await service.tell("resume-snapshot", "g"), SignalAccepted)
        assert isinstance(await applied(service, missed, t), Applied)
        values = [json.loads(each.value) for each in await messages(kafka, settings, t)]
        assert {value["after"]["id"] for value in values} == {1, 2}
        await service.stop()
