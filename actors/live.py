"""`/live`: what the page shows, as server-sent events.

Each follower gets all of it once, and then each second what's new or has changed. What a follower has got is kept for
him, so that a slow one isn't given what's old: whenever he's ready he gets the difference to what he has. One who takes
nothing for a while is let go, and no more than MOST_FOLLOWERS are served at once.

Source: the HTML standard, "Server-sent events".
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from actors.status import StatusBoard

MOST_FOLLOWERS: Final = 16

# How long a follower may take for one message, in seconds.
PATIENCE_S: Final = 20.0

Told = dict[str, Any]


class TooManyFollowers(Exception):
    """No more can be served at once."""


class Live:
    """Those who follow a board."""

    def __init__(self, board: StatusBoard, *, controlled: bool) -> None:
        self._board = board
        self._controlled = controlled
        self._followers = 0
        self._ended = asyncio.Event()

    @contextmanager
    def follower(self) -> Iterator["Follower"]:
        """One more who follows. Raises TooManyFollowers."""
        if self._followers >= MOST_FOLLOWERS:
            raise TooManyFollowers(f"{MOST_FOLLOWERS} follow already")
        self._followers += 1
        try:
            yield Follower(self._board, controlled=self._controlled)
        finally:
            self._followers -= 1

    async def next_look(self) -> bool:
        """Wait until there may be something new; False where there won't be any more."""
        looked = asyncio.create_task(self._board.next_look())
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

    def __init__(self, board: StatusBoard, *, controlled: bool) -> None:
        self._board = board
        self._controlled = controlled
        self._tables: dict[str, Told] = {}
        self._event = 0

    def begin(self) -> bytes:
        """All of it."""
        tables = self._board.tables()
        self._tables = {table["table"]: table for table in tables}
        return _message(
            "begin",
            {
                "name": self._board.name,
                "controlled": self._controlled,
                "overview": self._board.overview(),
                "history": self._board.freshness()["history"],
                "tables": tables,
                "events": self._events(),
            },
        )

    def step(self) -> bytes:
        """What's new."""
        tables = {table["table"]: table for table in self._board.tables()}
        before, self._tables = self._tables, tables
        return _message(
            "step",
            {
                "overview": self._board.overview(),
                "point": self._board.last_point(),
                "tables": [table for name, table in tables.items() if before.get(name) != table],
                "gone": sorted(before.keys() - tables.keys()),
                "events": self._events(),
            },
        )

    def _events(self) -> list[Told]:
        events = self._board.recent.last(self._event)
        if events:
            self._event = events[-1]["number"]
        return events


def _message(event: str, data: Told) -> bytes:
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
