"""What the SparkSink knows of mirrors and of the MERGE that is under way."""

import asyncio
from dataclasses import dataclass

from pipeline.live_view import Reached
from pipeline.schema import TableId


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A mirror: where it is, the changes that it hasn't merged, and when (s) the first of these came."""

    reached: Reached
    pending: int
    since: float


@dataclass(frozen=True, slots=True)
class Merging:
    """A MERGE that is under way: of these changes of this table, through this segment."""

    task: asyncio.Task[None]
    table: TableId
    through: int
    changes: int
    began: float
