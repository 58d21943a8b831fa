"""The service, which writes down when each commit of changes to its lake was delivered.

    python -m tests.servers.timed_commits FILE run CONFIG

is `tidemark run CONFIG`. A commit is delivered when it is durable. FILE gets a line of JSON for each: the table, the
segment through which it goes, and the moment (s since the epoch).
"""

import json
import sys
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any

from actors.lake.lake import Lake
from actors.service import cli
from pipeline.schema.table_schema import TableId


def time_commits(file: Path) -> None:
    """Have each commit's moment written down, in this process."""
    append = Lake._append
    told = file.open("a", buffering=1)

    def timed(
        lake: Lake, table: TableId, delta: Any, tier: Any, mark: str, pieces: Any, todo: Any, batch: Any
    ) -> None:
        append(lake, table, delta, tier, mark, pieces, todo, batch)
        if pieces and mark == "changes":
            told.write(json.dumps([str(table), todo.through, time.time()]) + "\n")

    Lake._append = timed  # type: ignore[assignment, method-assign]


class TimedCommits:
    """When a table's changes of a segment were delivered, by such a file."""

    def __init__(self, file: Path, table: TableId) -> None:
        lines = map(json.loads, file.read_text().splitlines())
        found = sorted((through, at) for name, through, at in lines if name == str(table))
        self._through: list[int] = [through for through, _ in found]
        self._at: list[float] = [at for _, at in found]

    def delivered_at(self, segment: int) -> float:
        """The moment (s since the epoch)."""
        return self._at[bisect_left(self._through, segment)]


def main() -> None:
    """Time commits, and be the service."""
    time_commits(Path(sys.argv[1]))
    cli.main(sys.argv[2:])


if __name__ == "__main__":
    main()
