"""A gate before a step of the selector's, so that a test can do what it likes while a chunk is under way."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from actors.chunk_selector import ChunkSelector
from pipeline.messages.chunks import ReadChunk


@dataclass
class Gate:
    """Holds a step of the selector for a chunk, the `nth` time that it's come to."""

    nth: int
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    came: int = 0

    async def pass_through(self) -> None:
        """Wait, if it's that time."""
        self.came += 1
        if self.came == self.nth:
            self.reached.set()
            await self.opened.wait()


Hold = Callable[[str, int], Gate]


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Puts a gate before a step of the selector with a chunk, or after `_between_watermarks`."""

    def put(step: str, nth: int) -> Gate:
        original, gate = getattr(ChunkSelector, step), Gate(nth)

        async def held(*arguments: Any, **named: Any) -> Any:
            of_chunk = any(isinstance(argument, ReadChunk) for argument in arguments)
            if of_chunk and step != "_between_watermarks":
                await gate.pass_through()
            result = await original(*arguments, **named)
            if of_chunk and step == "_between_watermarks":
                await gate.pass_through()
            return result

        monkeypatch.setattr(ChunkSelector, step, held)
        return gate

    return put
