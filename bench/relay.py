"""`make bench-relay`: how fast a reader of `/changes` gets a sealed journal over loopback.

For each scenario a server writes a log, and Tidemark captures it into a journal. Then a process has the service's HTTP
server before that journal, and this one reads: Arrow by the iterator of docs/relay.md, and JSON as curl would, counting
lines. The figures stand against what was asked for, against the 2,100 events/s that were published for Databus, and
against Debezium's embedded engine, which hands over the same log's first rows as JSON. A reader of Debezium's is the
engine: it reads the log itself, and the relay reads what Tidemark has captured.
"""

import asyncio
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Final

import uvloop

from actors.http.changes.client import changes
from actors.http.server import HttpServer
from actors.journal.store import JournalStore
from actors.runtime.recent_events import RecentEvents
from actors.runtime.supervisor import Supervisor
from actors.service import warm_up
from actors.service.assembly import Assembly
from actors.status.status_board import StatusBoard
from bench import _topics
from bench._command import command_line
from bench._debezium import catch_up
from bench._logs import DATABASE, ELEVEN, Log, server, write
from bench._report import Figure, Peer, say, told
from bench.kafka import load
from deploy.toolchain.parts import Parts, locate
from pipeline.config.settings import HttpSettings

_TIMES: Final = 3
_ROWS: Final = {"bulk": 1_000_000, "single": 250_000}
_TRANSACTIONS: Final = {"bulk": 1_000, "single": 1}
_NAMES: Final = {"bulk": "transactions of 1,000 rows", "single": "transactions of one row"}
_ASKED_FOR: Final = {"Arrow": 1_000_000.0, "JSON": 100_000.0}
_DATABUS: Final = 2_100.0
_DEBEZIUM_ROWS: Final = {"bulk": 400_000, "single": 200_000}
_CHECKPOINT: Final = b'{"checkpoint"'


def main() -> None:
    """Measure every scenario, or those that are named."""
    wanted = command_line(__doc__, _TRANSACTIONS)
    parts = locate()
    with told("relay") as figures:
        for name in wanted.names:
            figures.extend(_read(parts, name, wanted.scale))


def _read(parts: Parts, scenario: str, scale: float) -> Iterator[Figure]:
    rows = int(_ROWS[scenario] * scale)
    with server(parts) as mysql, tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder:
        log = write(mysql, ELEVEN, rows, _TRANSACTIONS[scenario])
        _topics.capture(log, mysql.executed().replace("\n", ""), Path(folder), for_topics=False)
        say(f"{_NAMES[scenario]}: {log.rows:,} rows captured; load {load()}")
        debezium = catch_up(parts, log, int(_DEBEZIUM_ROWS[scenario] * scale), "json")
        with _serving(log, Path(folder)) as url:
            for form, read in (("Arrow", _arrow), ("JSON", _json)):
                rates = [_rate(read, url, log.rows) for _ in range(_TIMES)]
                say(f"  {form}: {', '.join(f'{rate:,.0f}' for rate in rates)} changes/s; load {load()}")
                name = f"{form}, {_NAMES[scenario]}"
                databus = Peer("Databus, as published", _DATABUS)
                for peer in (Peer("asked for", _ASKED_FOR[form]), databus, debezium):
                    yield Figure(name, median(rates), "changes/s", peer)


def _rate(read: Callable[[str], int], url: str, rows: int) -> float:
    began = time.perf_counter()
    found = read(url)
    seconds = time.perf_counter() - began
    assert found == rows, f"{found} changes came, and {rows} were captured"
    return rows / seconds


def _arrow(url: str) -> int:
    table = f"{DATABASE}.{ELEVEN.name}"
    return sum(batch.rows.num_rows for batch in changes(url, "earliest", tables=[table], through="now"))


def _json(url: str) -> int:
    lines, before = 0, b""
    with urllib.request.urlopen(f"{url}/changes?since=earliest&through=now") as answer:
        while data := answer.read(1 << 20):
            # A checkpoint may be where the pieces are divided.
            lines += data.count(b"\n") - (before + data).count(_CHECKPOINT)
            before = data[1 - len(_CHECKPOINT) :]
    return lines


@contextmanager
def _serving(log: Log, folder: Path) -> Iterator[str]:
    """The address of a service before the journal, which runs in a process of its own."""
    context = get_context("spawn")
    told, telling = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(log, folder, telling))
    process.start()
    try:
        yield told.recv()
    finally:
        process.terminate()
        process.join()


def _serve(log: Log, folder: Path, telling: "Connection[str, str]") -> None:
    warm_up.import_all()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_served(log, folder, telling))


async def _served(log: Log, folder: Path, telling: "Connection[str, str]") -> None:
    pipeline = replace(
        _topics.settings(log.source, log.table, folder, _topics.topics("127.0.0.1:1", "bench")), kafka=None
    )
    store = JournalStore.open_single_writer(pipeline.journal.path, pipeline.name)
    assembly = Assembly(pipeline, store)
    supervisor = Supervisor(assembly.build, assembly.mailboxes, assembly.metrics)
    board = StatusBoard(pipeline.name, supervisor, assembly.mailboxes, assembly.metrics, RecentEvents())
    address = folder / "http.json"
    settings = HttpSettings()
    async with HttpServer(
        settings, address, board, assembly.metrics, assembly.requests, assembly.applied, assembly.changes
    ) as served:
        telling.send(served.url)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()
