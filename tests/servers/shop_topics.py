"""The topics of a pipeline that captures the shop: everything is once in them, whatever was killed meanwhile."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deploy.toolchain.kafka_broker import KafkaBroker
from deploy.toolchain.mysql_server import MysqlServer
from pipeline.schema.table_schema import TableId
from tests.servers.kafka_messages import Judge, Transactions, committed_messages
from tests.servers.shop import TABLES

_GROWN = TableId("shop", "grown")


@dataclass
class GrownTable:
    """One more table of the shop, which grows by a column and a row at a time."""

    server: MysqlServer
    statements: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.sql(f"CREATE TABLE {_GROWN} (id INT PRIMARY KEY)")

    def grow(self) -> None:
        """Add a column and a row."""
        number = len(self.statements)
        statement = f"ALTER TABLE {_GROWN} ADD COLUMN c{number} INT"
        self.server.sql(statement, f"INSERT INTO {_GROWN} (id, c{number}) VALUES ({number}, {number})")
        self.statements.append(statement)


@dataclass(frozen=True)
class ShopTopics:
    """Topics with a prefix, transactions, statements and notifications; `read`: what a key or a value says."""

    broker: KafkaBroker
    prefix: str
    read: Callable[[bytes], Any]

    async def faults(self, grown: GrownTable, signals: Sequence[str]) -> list[str]:
        """What isn't once or not in its place; each signal requests a snapshot of all tables but `grown`."""
        transactions, found = Transactions(self.read), list[str]()
        for table in (*TABLES, _GROWN):
            messages = await self._messages(f".{table}")
            transactions.take(messages)
            judge = Judge(self.read).judge(messages)
            found += judge.faults
            ((rows,),) = grown.server.sql(f"SELECT COUNT(*) FROM {table}")
            if sum(row is not None for row in judge.rows.values()) != rows or not judge.changes:
                found.append(f"{table} has {rows} rows")
            if table in TABLES and not judge.read:
                found.append(f"{table} was not read")
        found += transactions.faults(await self._messages(".transaction"))
        statements = [self.read(each.value)["ddl"] for each in await self._messages("")]
        if statements != grown.statements:
            found.append(f"statements: {statements}")
        return found + await self._notification_faults(signals)

    async def _notification_faults(self, signals: Sequence[str]) -> list[str]:
        told = [self.read(each.value) for each in await self._messages("-notifications")]
        counts = Counter(
            (each["id"], each["type"], each["additional_data"].get("scanned_collection"))
            for each in told
            if each["type"] != "IN_PROGRESS"
        )
        expected = {
            (signal, kind, table)
            for signal in signals
            for kind, table in (
                ("STARTED", None),
                *(("TABLE_SCAN_COMPLETED", table.dotted) for table in TABLES),
                ("COMPLETED", None),
            )
        }
        repeated = [each for each, times in Counter(map(str, told)).items() if times > 1]
        wrong = [f"{each}: {counts[each]} times" for each in expected | counts.keys() if counts[each] != 1]
        return [f"notification {each}" for each in repeated + wrong]

    async def _messages(self, suffix: str) -> list[Any]:
        return await committed_messages(self.broker, self.prefix + suffix)
