"""Whoever has committed finds that in the topic when it's told so, and not before: a real source and a real broker."""

import json
from dataclasses import replace
from pathlib import Path

from actors.service.assembly import Assembly
from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.gtid.gtid_set import GtidSet
from pipeline.journal.applied.progress import Through
from pipeline.journal.applied.query import Answer, Applied, AppliedQuery, NeverApplied, NotYetApplied
from pipeline.messages.topology import ActorName as Name
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from tests.servers.executed import executed
from tests.servers.kafka_messages import committed_messages
from tests.servers.kafka_pipeline import to_topics
from tests.servers.service import Running, running


async def applied(service: Running, gtids: GtidSet, *tables: TableId) -> Answer | NotYetApplied:
    query = AppliedQuery(gtids, Through.KAFKA, frozenset(tables) or None, 60)
    return await service.assembly.applied.wait(query)


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
            records = await committed_messages(kafka, f"{settings.name}.{t}")
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
