"""Faults that are put into the product, each to be found by an oracle: so it's known that a run can fail."""

import asyncio
import itertools
import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors import binlog_reader, chunk_selector, journal_writer, schema_verifier
from actors.lake.delta.delta_table import DeltaTable
from actors.runtime.actor import Actor, Sender
from actors.snapshot.connection_pool import SourcePool
from actors.source import connection as source
from actors.source.connection import Source
from pipeline.coordinator import window
from pipeline.coordinator.window import Reconciling
from pipeline.errors import Transient
from pipeline.gtid.gtid_set import GtidSet
from pipeline.lake.tables.tier import Tier
from pipeline.messages.chunks import ChunkRead
from pipeline.messages.journal import Append
from pipeline.messages.topology import ActorName as Name


class Planted(StrEnum):
    """What's wrong."""

    LOST_ACK = "an answer of the selector's is lost"
    SWALLOWED = "an exception is swallowed"
    POSITION_FIRST = "the position is sealed before the rows"
    NO_GIVING_WAY = "rows of chunks don't give way to changes"
    STALE_POSITION = "the log is read again from where it was begun"
    DOUBLED = "an append comes twice"
    NO_MARK = "a delivery without its mark"
    LEAK = "connections aren't closed"
    FOR_SHARE = "rows are locked"


# Each so-manieth message, of those that are concerned.
_EACH = 7
# A small table is read by one chunk, so that there are few.
_LOST = 2
# On a busy machine a run has few batches.
_UNMARKED = 3
_WINDOW_S = 0.3


def plant(fault: Planted) -> None:
    """Break the product, for the rest of this process."""
    _PLANTS[fault]()


def _wrapped(owner: type, method: str, wrapper: Callable[..., Any]) -> None:
    original = getattr(owner, method)
    setattr(owner, method, lambda *arguments, **named: wrapper(original, *arguments, **named))


def _lost_ack() -> None:
    async def put(original: Any, outlet: Sender[Any], message: object) -> None:
        chunks = vars(outlet).setdefault("chunks", [])
        chunks += [message] if isinstance(message, ChunkRead) else []
        if not isinstance(message, ChunkRead) or len(chunks) != _LOST:
            await original(outlet, message)

    _wrapped(Sender, "put", put)


def _swallowed() -> None:
    async def take(original: Any, actor: Actor[Any], message: object) -> None:
        try:
            await original(actor, message)
        except RuntimeError:
            if not isinstance(actor, schema_verifier.SchemaVerifier):
                raise

    _wrapped(Actor, "take", take)


def _position_first() -> None:
    async def handle(original: Any, actor: journal_writer.JournalWriter, message: object) -> None:
        if isinstance(message, Append):
            late = vars(actor).get("late", ())
            vars(actor)["late"] = message.parts
            message = replace(message, parts=late)
        await original(actor, message)

    _wrapped(journal_writer.JournalWriter, "handle", handle)


def _no_giving_way() -> None:
    async def high(original: Any, *arguments: Any) -> Any:
        # So that something happens meanwhile.
        await asyncio.sleep(_WINDOW_S)
        return await original(*arguments)

    _wrapped(chunk_selector.ChunkSelector, "high", high)

    def all_of_them(of: Reconciling) -> pa.RecordBatch:
        return of.rows

    window.untouched_rows = all_of_them  # type: ignore[assignment]


def _stale_position() -> None:
    begun: list[GtidSet] = []

    def init(original: Any, reader: binlog_reader.BinlogReader, *arguments: Any) -> None:
        begun.append(arguments[4])
        original(reader, *arguments[:4], begun[0], *arguments[5:])

    _wrapped(binlog_reader.BinlogReader, "__init__", init)


def _doubled() -> None:
    count = 0

    async def handle(original: Any, actor: journal_writer.JournalWriter, message: object) -> None:
        nonlocal count
        if isinstance(message, Append) and message.parts:
            count += 1
            if count % _EACH == 0:
                message = replace(message, parts=(*message.parts, *message.parts))
        await original(actor, message)

    _wrapped(journal_writer.JournalWriter, "handle", handle)


def _no_mark() -> None:
    count = itertools.count(1)  # several threads append

    def append(original: Any, table: DeltaTable, place: Any, mark: str, *more: Any) -> int:
        # What comes twice to a mirror is gone when the next snapshot has each of its keys.
        if not table.path.endswith(f"/{Tier.CHANGELOG}") or next(count) % _UNMARKED:
            committed: int = original(table, place, mark, *more)
            return committed

        def anew(folder: str, columns: Any) -> list[str]:
            return [_as_another(folder, line) for line in place(folder, columns)]

        # If every append lacked its mark, the sink would take the table for an older copy, and set it aside.
        original(table, anew, str(uuid.uuid4()), *more)
        raise Transient("the answer to a commit is lost")  # which the mark would make good

    _wrapped(DeltaTable, "append", append)


def _as_another(folder: str, line: str) -> str:
    """The same file by a name that none has had: else an append that comes twice is none, without a mark as well."""
    action = json.loads(line)
    path, action["add"]["path"] = action["add"]["path"], f"{uuid.uuid4()}.parquet"
    Path(folder, action["add"]["path"]).hardlink_to(Path(folder, path))
    return json.dumps(action)


def _leak() -> None:
    kept: list[Source] = []

    def close(_: Any, pool: SourcePool) -> None:
        kept.extend(pool._idle)

    _wrapped(SourcePool, "close", close)


def _for_share() -> None:
    source._SESSION += ("SELECT id FROM shop.orders WHERE id = 1 FOR SHARE",)  # type: ignore[assignment, misc]


_PLANTS = {
    Planted.LOST_ACK: _lost_ack,
    Planted.SWALLOWED: _swallowed,
    Planted.POSITION_FIRST: _position_first,
    Planted.NO_GIVING_WAY: _no_giving_way,
    Planted.STALE_POSITION: _stale_position,
    Planted.DOUBLED: _doubled,
    Planted.NO_MARK: _no_mark,
    Planted.LEAK: _leak,
    Planted.FOR_SHARE: _for_share,
}

# Without which of the actors being struck it wouldn't show.
STRUCK: dict[Planted, Name] = {
    Planted.SWALLOWED: Name.SCHEMA_VERIFIER,
    Planted.STALE_POSITION: Name.BINLOG_READER,
    Planted.LEAK: Name.CHUNK_SELECTOR,
}
