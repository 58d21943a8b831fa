"""Reads a table of large rows with a ChunkSelector, in a process that holds nothing else.

    python -m tests.integration.snapshot.large_rows HOST PORT UUID USER PASSWORD COUNT

d.t has COUNT rows: `a` counts from 0, and `b` repeats its digit. Prints as JSON which rows came, each with the bytes of
its `b`, and by how many bytes the process grew at most.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from pipeline.config.settings import Secret, SourceSettings, TlsMode, TlsSettings
from pipeline.schema.row_keys import Key
from pipeline.schema.table_schema import TableId
from tests.servers.selector import Bench, stopped_cleanly


def resident(which: str) -> int:
    """Bytes of this process's memory by /proc/self/status: that are resident, VmRSS, or were at most, VmHWM."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(which))
    return int(line.split()[1]) * 1024


async def read_all(source: SourceSettings, uuid: str, count: int) -> dict[str, Any]:
    """Returns the rows of each chunk and the most memory; each chunk has one row."""
    async with stopped_cleanly(Bench(source, uuid)) as running:
        plan = await running.plan(TableId("d", "t"))
        read: list[tuple[int, int]] = []
        after: Key | None = None
        before = resident("VmRSS")
        while after != (count - 1,):
            chunk = await running.read(running.chunk(plan, after, (count - 1,), 50_000))
            [a], [b] = chunk.rows["a"].to_pylist(), chunk.rows["b"]
            assert b.as_buffer()[-1:].to_pybytes() == b"%d" % a
            read.append((a, len(b.as_buffer())))
            after = chunk.upto
            del chunk, b
        return {"read": read, "taken": resident("VmHWM") - before}


if __name__ == "__main__":
    host, port, uuid, user, password, count = sys.argv[1:]
    tls = TlsSettings(TlsMode.DISABLED)
    source = SourceSettings(host, user, int(port), Secret(password), tls, server_id=7)
    json.dump(asyncio.run(read_all(source, uuid, int(count))), sys.stdout)
