"""A real server's changes come to readers over HTTP once, in the order of commits, and transactions as a whole."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from actors.http.changes.client import changes
from actors.journal.store import JournalReader
from deploy.toolchain.mysql_server import FULL_METADATA, GTIDS
from pipeline.config.settings import HttpSettings
from pipeline.schema.table_schema import TableId
from tests.servers.awaiting import WITHIN_S
from tests.servers.executed import executed
from tests.servers.mysql import MysqlFactory
from tests.servers.service import pipeline, running
from tests.servers.web import Web, web

TRANSFERS = 40


async def read(served: Web, killed_after: int, **asked: str) -> list[dict[str, Any]]:
    """The rows of a reader that breaks off after so many lines with a checkpoint among them, until the last row."""
    kept: list[dict[str, Any]] = []
    since = asked.pop("since")
    async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession(served.url, read_bufsize=1 << 20) as session:
        while True:
            rows, first = list[dict[str, Any]](), since
            async with session.get("/changes", params={**asked, "since": since}) as answer:
                assert answer.status == 200, await answer.text()
                lines = 0
                while lines < killed_after or since == first:
                    lines += 1
                    line = json.loads(await answer.content.readline())
                    if "checkpoint" not in line:
                        rows.append(line)
                        continue
                    since, kept, rows = line["checkpoint"], [*kept, *rows], []
                    if kept and kept[-1]["row"].get("id") == -1:
                        return kept


async def test_readers_at_different_places_have_each_change_of_a_real_server_once(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory(GTIDS)
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.debits (id INT PRIMARY KEY, amount DECIMAL(10, 2))",
        "CREATE TABLE shop.credits (id INT PRIMARY KEY, amount DECIMAL(10, 2))",
    )
    settings = replace(pipeline(server, tmp_path, "shop"), lake=None)
    async with running(settings) as service, web(service, HttpSettings(), tmp_path) as served:
        await service.begun()
        begin = str(executed(server))
        ways = [
            asyncio.create_task(read(served, killed, since=since))
            for since, killed in (("earliest", 10_000), (begin, 7), ("0", 23))
        ]
        for first in range(0, TRANSFERS, 10):
            await asyncio.to_thread(
                server.sql,
                *(
                    statement
                    for n in range(first, first + 10)
                    for statement in (
                        "BEGIN",
                        f"INSERT INTO shop.debits VALUES ({n}, 1.50)",
                        f"INSERT INTO shop.credits VALUES ({n}, 1.50)",
                        "COMMIT",
                    )
                ),
            )
        server.sql("INSERT INTO shop.debits VALUES (-1, NULL)")
        for rows in await asyncio.gather(*ways):
            told = [(row["table"], row["op"], row["row"]["id"], row["row"]["amount"]) for row in rows[:-1]]
            assert told == [
                (f"shop.{table}", "c", n, "1.50") for n in range(TRANSFERS) for table in ("debits", "credits")
            ]
            assert [row["ordinal"] for row in rows[:-1]] == [0, 1] * TRANSFERS
            assert all(
                one["gtid"] == other["gtid"] for one, other in zip(rows[:-1:2], rows[1::2], strict=True)
            )
        stream = changes(served.url, begin, tables=["shop.credits"], through="now", compression="lz4")
        batches = [batch async for batch in stream]
        ids = [id_ for batch in batches for id_ in batch.rows.column("id").to_pylist()]
        assert ids == list(range(TRANSFERS)) and batches[-1].checkpoint is not None
        # In steps, most of which end within a segment.
        scns = [row["scn"] for row in rows if row["table"] == "shop.credits"]
        place, stepped = begin, list[int]()
        for scn in (*scns[::7], scns[-1]):
            async for batch in changes(served.url, place, tables=["shop.credits"], through=scn):
                stepped += batch.rows.column("id").to_pylist()
                place = batch.checkpoint or place
        assert stepped == ids


async def test_a_reader_adds_up_a_table_without_a_key_from_its_scan_on(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """As lines and as Arrow batches, also where a reader breaks off."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.visits (id INT, page INT)",
        "INSERT INTO shop.visits VALUES (1, 7), (1, 7), (2, NULL)",
    )
    settings = replace(pipeline(server, tmp_path, "shop"), lake=None)
    async with running(settings) as service, web(service, HttpSettings(), tmp_path) as served:
        await service.begun()
        begin = str(executed(server))
        server.sql("INSERT INTO shop.visits VALUES (3, 8)", "DELETE FROM shop.visits WHERE id = 2")
        await service.execute("s", r"shop\.visits", type="blocking")
        await service.completed("s")
        server.sql("UPDATE shop.visits SET page = 9 WHERE id = 3", "INSERT INTO shop.visits VALUES (-1, 0)")
        await service.caught_up(server)
        for killed_after in (10_000, 1):
            rows = await read(served, killed_after, since=begin)
            assert "".join(row["op"] for row in rows) == "cdtrrrdcc"
            assert added_up(rows) == {(1, 7): 2, (3, 9): 1, (-1, 0): 1}
        stream = changes(served.url, begin, tables=["shop.visits"], through="now")
        told = [
            {"op": op, "row": {"id": id_, "page": page}}
            async for batch in stream
            for op, id_, page in zip(
                *(batch.rows.column(name).to_pylist() for name in ("__op", "id", "page")), strict=True
            )
        ]
        assert added_up(told) == {(1, 7): 2, (3, 9): 1, (-1, 0): 1}


async def test_a_table_that_is_created_again_with_another_key_has_not_begun_without_the_reader(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    """Its mirror begins again when the key is known, and a statement has emptied the table before that."""
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql(
        "CREATE DATABASE shop", "CREATE TABLE shop.t (id INT PRIMARY KEY)", "INSERT INTO shop.t VALUES (1)"
    )
    settings = replace(pipeline(server, tmp_path, "shop"), lake=None)
    async with running(settings) as service, web(service, HttpSettings(), tmp_path) as served:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        begin = str(executed(server))
        created = "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY)"
        server.sql("DROP TABLE t", created, "INSERT INTO t VALUES ('a')", database="shop")
        server.sql("DROP TABLE t", database="shop")
        await service.caught_up(server)
        server.sql("CREATE TABLE t (n INT PRIMARY KEY)", database="shop")
        await service.caught_up(server)
        table = TableId("shop", "t")
        await service.until(lambda: service.checkpoint().schemas[table].key_names == ("n",), "it is verified")
        server.sql("INSERT INTO t VALUES (2)", database="shop")
        await service.caught_up(server)
        await service.sealed()
        lines = [line async for line in lines_of(served, "/changes", since=begin, through="now")]
    assert "".join(line["op"] for line in lines if "op" in line) == "tctc"
    assert [line for line in lines if "restarted" in line] == []


async def test_rows_that_are_read_while_the_source_is_idle_come_after_its_last_transaction(
    mysql_factory: MysqlFactory, tmp_path: Path
) -> None:
    server = mysql_factory({**GTIDS, **FULL_METADATA})
    server.sql(
        "CREATE DATABASE shop",
        "CREATE TABLE shop.t (id INT PRIMARY KEY)",
        "INSERT INTO shop.t VALUES (1), (2)",
    )
    settings = replace(pipeline(server, tmp_path, "shop"), lake=None)
    async with running(settings) as service, web(service, HttpSettings(), tmp_path) as served:
        await service.begun()
        await service.execute("first")
        await service.completed("first")
        await service.caught_up(server)
        await service.sealed()
        begin = str(executed(server))
        [forms] = [form async for form in lines_of(served, "/translate", since="now")]
        assert forms["gtid_set"] == begin
        await service.execute("second")
        await service.completed("second")
        await service.until(lambda: has_sealed(tmp_path / "journal", "second"), "its rows are sealed")
        server.sql("INSERT INTO shop.t VALUES (3)")
        await service.caught_up(server)
        await service.sealed()
        for form in ("gtid_set", "scn", "checkpoint"):
            lines = [
                line async for line in lines_of(served, "/changes", since=str(forms[form]), through="now")
            ]
            told = [(line["op"], line["row"]["id"]) for line in lines if "op" in line]
            assert told == [("r", 1), ("r", 2), ("c", 3)], form


def has_sealed(journal: Path, snapshot: str) -> bool:
    """Whether the journal has all of a snapshot."""
    reader = JournalReader(str(journal))
    snapshots = reader.entry(reader.last_segment()).checkpoint.snapshots
    return any(each.id == snapshot and each.ended for each in snapshots)


async def lines_of(served: Web, path: str, **asked: str) -> AsyncIterator[dict[str, Any]]:
    """The lines of an answer that has an end."""
    async with aiohttp.ClientSession(served.url) as session, session.get(path, params=asked) as answer:
        async for line in answer.content:
            yield json.loads(line)


def added_up(rows: list[dict[str, Any]]) -> Counter[tuple[int, int]]:
    """The rows of a table without a key, by its changes from the last `t` on."""
    bag: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row["op"] == "t":
            bag.clear()
        else:
            bag[row["row"]["id"], row["row"]["page"]] += -1 if row["op"] == "d" else 1
    return +bag
