"""What the watcher sees: a live table on a terminal, a line every few seconds elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from deploy.demo.service import Service
from pipeline.gtid.gtid_set import GtidSet

LOOK_EVERY_S = 0.5
LINE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class TableProgress:
    """How far the snapshot of a table is. `expected` rows are the server's estimate."""

    name: str
    state: str
    chunks: int
    rows: int
    given_up: int
    expected: int

    @property
    def done(self) -> float:
        """The part done, from 0 to 1; 1 only when it's complete."""
        if self.state == "completed":
            return 1.0
        return min((self.rows + self.given_up) / self.expected, 0.99) if self.expected else 0.0


@dataclass(frozen=True, slots=True)
class Progress:
    """What the service said of itself at `at` (monotonic seconds).

    `readable`: whether all live views show what is delivered.
    """

    at: float
    tables: tuple[TableProgress, ...]
    windows: int
    lag_s: float
    freshness_s: float | None
    delivered: GtidSet
    readable: bool

    @staticmethod
    def of(status: dict[str, Any]) -> "Progress":
        """Read `/status`."""
        snapshots = status["snapshots"]
        tables = snapshots[-1]["tables"] if snapshots else []
        return Progress(
            at=time.monotonic(),
            tables=tuple(
                TableProgress(
                    f"{t['database']}.{t['table']}",
                    t["state"],
                    t["chunks"],
                    t["rows"],
                    t["given_up"],
                    t["expected"],
                )
                for t in tables
            ),
            windows=len(status["windows"]),
            lag_s=float(status["lag_seconds"] or 0.0),
            freshness_s=status["freshness_seconds"],
            delivered=GtidSet.parse(status["delivered_position"] or ""),
            readable=not status["rebuilding"],
        )

    @property
    def rows(self) -> int:
        """Rows of the snapshot dealt with."""
        return sum(table.rows + table.given_up for table in self.tables)

    @property
    def chunks(self) -> int:
        """Chunks emitted."""
        return sum(table.chunks for table in self.tables)

    @property
    def expected(self) -> int:
        """Rows of the snapshot in all, by the server's estimate."""
        return sum(table.expected for table in self.tables)

    @property
    def done(self) -> float:
        """The part of the rows done, from 0 to 1."""
        return min(self.rows / self.expected, 1.0) if self.expected else 0.0

    @property
    def complete(self) -> bool:
        """Whether each table is."""
        return bool(self.tables) and all(table.state == "completed" for table in self.tables)


class View:
    """The terminal."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._rate = 0.0

    def say(self, text: str) -> None:
        """One line."""
        self.console.print(text, markup=False, soft_wrap=True)

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        """Say what's being done now, and how long it took."""
        self.say(f"• {what} …")
        began = time.monotonic()
        yield
        self.say(f"  {time.monotonic() - began:.1f} s")

    def follow(self, service: Service, until: Callable[[Progress], bool], within_s: float) -> Progress:
        """Show the service's progress until it's such; raises TimeoutError if it isn't within that time."""
        deadline = time.monotonic() + within_s
        last_line, earlier = time.monotonic(), Progress.of(service.status())
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while not until(now := Progress.of(service.status())):
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"no end after {within_s:.0f} s; the service said:\n{service.last_words()}"
                    )
                if now.at > earlier.at and now.rows >= earlier.rows:
                    self._rate = 0.7 * self._rate + 0.3 * (now.rows - earlier.rows) / (now.at - earlier.at)
                earlier = now
                if self.console.is_terminal:
                    live.update(self._picture(now), refresh=True)
                elif time.monotonic() - last_line > LINE_EVERY_S:
                    last_line = time.monotonic()
                    self.say(f"  {self._line(now)}")
                time.sleep(LOOK_EVERY_S)
        self.say(f"  {self._line(now)}")
        return now

    def _line(self, now: Progress) -> str:
        given_up = sum(table.given_up for table in now.tables)
        gave_way = f"{given_up:,} rows gave way to changes"
        freshness = (
            "nothing delivered yet" if now.freshness_s is None else f"freshness {now.freshness_s:.1f} s"
        )
        flow = f"lag {now.lag_s:.1f} s, {freshness}"
        if now.complete:
            return f"snapshot complete: {now.rows:,} rows in {now.chunks} chunks, {gave_way}; {flow}"
        tables = ", ".join(f"{table.name} {table.done:.0%}" for table in now.tables)
        left = f"{(now.expected - now.rows) / self._rate:.0f} s" if self._rate > 1 else "?"
        return (
            f"{tables or 'no snapshot yet'}; {now.chunks} chunks, {self._rate:,.0f} rows/s, ETA {left}, "
            f"{now.windows} windows open, {gave_way}; {flow}"
        )

    def _picture(self, now: Progress) -> Group:
        table = Table("table", "", "state", "chunks", "to go", "rows", "gave way to changes")
        for column in table.columns[3:]:
            column.justify = "right"
        for row in now.tables:
            to_go = "0"
            if row.state != "completed":
                per_chunk = (row.rows + row.given_up) / row.chunks if row.chunks else 0
                left = max(row.expected - row.rows - row.given_up, 0)
                to_go = f"~{left / per_chunk:.0f}" if per_chunk else "?"
            bar = ProgressBar(total=1.0, completed=row.done, width=24)
            counts = (str(row.chunks), to_go, f"{row.rows:,}", f"{row.given_up:,}")
            table.add_row(row.name, bar, row.state, *counts)
        return Group(table, Text(self._line(now)))
