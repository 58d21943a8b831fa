"""`/live`: the page's data, as server-sent events.

Each follower gets all of it once, and then each second what's new or has changed. The server remembers what each
follower has, so a slow one doesn't get old data: whenever it's ready it gets the difference. The data is built once for
each look at the service, for all followers. A follower that reads nothing for a while is disconnected, and at most
MOST_FOLLOWERS are served at once.

Source: the HTML standard, "Server-sent events".
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from actors.http.shared_report import SharedReport
from actors.runtime.actor import StatusJson
from actors.status.status_board import StatusBoard

MOST_FOLLOWERS: Final = 16

# How long a follower may take for one message, in seconds.
FOLLOWER_PATIENCE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class BoardView:
    """What there is to show since a look at the service; a table that hasn't changed is the same object as before."""

    look: int
    overview: StatusJson
    point: StatusJson | None
    tables: dict[str, StatusJson]


class TooManyFollowers(Exception):
    """No more can be served at once."""


class Followers:
    """Those who follow a board."""

    def __init__(self, board: StatusBoard, *, controlled: bool) -> None:
        self.board = board
        self._controlled = controlled
        self._followers = 0
        self._shown: BoardView | None = None
        self.listed = SharedReport(self._listed)
        self._ended = asyncio.Event()

    @contextmanager
    def follower(self) -> Iterator["Follower"]:
        """One more who follows. Raises TooManyFollowers."""
        if self._followers >= MOST_FOLLOWERS:
            raise TooManyFollowers(f"{MOST_FOLLOWERS} follow already")
        self._followers += 1
        try:
            yield Follower(self, controlled=self._controlled)
        finally:
            self._followers -= 1

    def shown(self) -> BoardView:
        """What there is to show."""
        if self._shown is None or self._shown.look != self.board.looks:
            before = {} if self._shown is None else self._shown.tables
            overview, tables = self.board.shown()
            named = {table["table"]: table for table in tables}
            kept = {name: old if (old := before.get(name)) == new else new for name, new in named.items()}
            self._shown = BoardView(self.board.looks, overview, self.board.last_point(), kept)
        return self._shown

    async def _listed(self) -> tuple[dict[str, StatusJson], str]:
        """Returns all tables, and their JSON."""
        tables = self.shown().tables
        return tables, _json(list(tables.values()))

    async def next_look(self) -> bool:
        """Waits until there may be something new; returns False if there won't be any more."""
        looked = asyncio.create_task(self.board.next_look())
        ended = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait({looked, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            looked.cancel()
            ended.cancel()
            await asyncio.wait({looked, ended})
        return not self._ended.is_set()

    def end(self) -> None:
        """Let all go."""
        self._ended.set()


class Follower:
    """What one has got."""

    def __init__(self, live: Followers, *, controlled: bool) -> None:
        self._live = live
        self._board = live.board
        self._controlled = controlled
        self._tables: dict[str, StatusJson] = {}
        self._event = 0

    async def begin(self) -> bytes:
        """All of it."""
        self._tables, listed = await self._live.listed.get()
        rest = {
            "name": self._board.name,
            "controlled": self._controlled,
            "overview": self._live.shown().overview,
            "history": self._board.history(),
            "events": self._events(),
        }
        return _message("begin", f'{{"tables":{listed},{_json(rest)[1:]}')

    def step(self) -> bytes:
        """What's new."""
        shown = self._live.shown()
        before, self._tables = self._tables, shown.tables
        step = {
            "overview": shown.overview,
            "point": shown.point,
            "tables": [table for name, table in shown.tables.items() if before.get(name) is not table],
            "gone": sorted(before.keys() - shown.tables.keys()),
            "events": self._events(),
        }
        return _message("step", _json(step))

    def _events(self) -> list[StatusJson]:
        events = self._board.recent.last(self._event)
        if events:
            self._event = events[-1]["number"]
        return events


def _json(told: StatusJson | list[StatusJson]) -> str:
    return json.dumps(told, separators=(",", ":"))


def _message(event: str, data: str) -> bytes:
    return f"event: {event}\ndata: {data}\n\n".encode()
