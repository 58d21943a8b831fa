"""A lake as the service leaves it just before a mirror's next merge is due: its files, commits and maintenance.

The mirror has the files of a first snapshot, and what earlier merges have hidden in them and added. The changelog has
what the segments since the last merge have brought, five a second with 200 transactions of one row each. The service's
own settings and rules say how long that is, and what is compacted meanwhile.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from actors.lake.lake import Lake
from bench._report import say
from pipeline.config.settings import JournalSettings, LakeSettings
from pipeline.journal.change_rows import changes_schema
from pipeline.journal.entry import FileKind
from pipeline.journal.segment import SegmentTable
from pipeline.lake.batch import LakeTableState, next_batch
from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.tables.maintenance import Chore, Policy, TableUpkeep, due_at, found_table
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableSchema
from tests.integration.history import FILLING, READY, SOURCE, History

_TRANSACTIONS_PER_S: Final = 1_000
# Rows of a chunk, and chunks of a segment, while a snapshot runs.
_CHUNK: Final = 100_000
_CHUNKS: Final = 4
# Earlier changes are merged in so many rounds. Each has one segment, whose file is as large as a compacted one.
_MERGES: Final = 2
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


class PendingLake:
    """A lake in `folder`, of one table whose first column is its key, and the journal that feeds it."""

    def __init__(self, session: SparkSession, folder: Path, schema: TableSchema) -> None:
        self.settings = LakeSettings(str(folder / "lake"))
        self._schema, self._table = schema, schema.table
        self._history = History(folder / "journal")
        self._source = self._history.table(schema, FILLING)
        self._lake = Lake(session, self.settings.path, self._history.store)
        self._state = LakeTableState()
        self._kept: dict[Tier, TableUpkeep] = {}

    def write(self, rows: int, scale: float, left: int) -> int:
        """Writes a table of so many rows, and changes until `left` segments before a merge is due. Returns how many
        changes a segment has.
        """
        segments = int(self.settings.merge_after_s * 1e3 / JournalSettings("").seal_after_ms)
        each = max(1, round(_TRANSACTIONS_PER_S * scale * self.settings.merge_after_s / segments))
        some = np.random.default_rng(7)
        say(f"  a first snapshot of {rows:,} rows")
        for first in range(0, rows, _CHUNK * _CHUNKS):
            self._deliver(_chunks(some, self._schema, first, rows))
        self._complete()
        for _ in range(_MERGES):
            self.change(some, rows, segments * each)
            self._merge()
        say(f"  {segments - left:,} segments of {each:,} changes")
        for _ in range(segments - left):
            self.change(some, rows, each)
        return each

    def change(self, some: np.random.Generator, rows: int, number: int) -> None:
        """Delivers a segment of updates, each in a transaction of its own. `some` chooses rows and their values."""
        history = self._history
        scns = np.arange(history.scn + 1, history.scn + 1 + number)
        history.scn += number
        schema = changes_schema(self._schema)
        meta: dict[str, Any] = {
            "__op": ["u"] * number,
            "__scn": scns,
            "__ordinal": np.zeros(number),
            "__gtid": [f"{SOURCE}:{scn}" for scn in scns],
            "__commit_time": 1_700_000_000_000_000 + scns * 1_000,
            "__segment": np.full(number, history.segment + 1),
        }
        values = _values(some, self._schema, some.integers(0, rows, number))
        columns = {**meta, **dict(zip(self._schema.arrow.names, values, strict=True))}
        arrays = [pa.array(columns.get(each.name, [None] * number), each.type) for each in schema]
        self._deliver(
            [SegmentTable(self._schema, FileKind.CHANGES, pa.Table.from_arrays(arrays, schema=schema))]
        )

    def close(self) -> None:
        """Closes the journal."""
        self._history.store.close()

    def _deliver(self, files: Iterable[SegmentTable]) -> None:
        self._source.sealed.extend(files)
        self._history.scn += 1
        with patch("os.fsync"):  # nothing of it has to outlast anything
            segment = self._history.seal()
            batch = next_batch(self._history.store.entries(segment - 1, segment))
            self._state = self._lake.deliver(self._table, self._state, batch)
        self._maintain()

    def _complete(self) -> None:
        """Shows readers the mirror, which has all its rows."""
        self._source.mirror = READY
        self._deliver([])
        self._lake.generations.complete(self._table, READY.since, self._history.segment, "position")

    def _merge(self) -> None:
        found = self._lake.find(self._table)
        reached = MirrorPosition(READY.since, found.merged)
        self._lake.merge(self._table, reached, self._history.segment, "position", found.pending)
        self._maintain()

    def _maintain(self) -> None:
        """Does what the service's rules say is due."""
        upkeep, policy = self._lake.upkeep, Policy(self.settings.compact_files, self.settings.merge_rows)
        for tier in Tier:
            if (size := upkeep.size(self._table, tier)) is None:
                continue
            kept = self._kept.get(tier) or found_table(self._table, tier, size, 0.0, 0)
            kept = replace(kept, size=size)
            for chore in due_at(kept, policy):
                kept = self._keep(kept, chore)
            self._kept[tier] = kept

    def _keep(self, kept: TableUpkeep, chore: Chore) -> TableUpkeep:
        """Does a chore that is due. Returns the lake table afterwards."""
        upkeep = self._lake.upkeep
        if chore is Chore.CHECKPOINT:
            upkeep.checkpoint(self._table, kept.tier)
        elif chore is Chore.COMPACT:
            upkeep.compact(self._table, kept.tier)
        size = upkeep.size(self._table, kept.tier)
        assert size is not None
        if chore is not Chore.COMPACT:
            return replace(kept, size=size)
        say(f"  {kept.tier}: {kept.size.files} files compacted into {size.files}")
        return replace(kept, size=size, left=size)


def _chunks(some: np.random.Generator, schema: TableSchema, first: int, rows: int) -> Iterator[SegmentTable]:
    """Yields some chunks of a snapshot, from a row on."""
    for begin in range(first, min(first + _CHUNK * _CHUNKS, rows), _CHUNK):
        values = _values(some, schema, np.arange(begin, min(begin + _CHUNK, rows)))
        yield SegmentTable(schema, FileKind.ROWS, pa.Table.from_arrays(values, schema=schema.arrow))


def _values(some: np.random.Generator, schema: TableSchema, keys: Any) -> list[pa.Array]:
    """Returns the columns of rows with these keys."""
    key, *others = schema.arrow.types
    return [pa.array(keys, key), *(_column(some, type_, len(keys)) for type_ in others)]


def _column(some: np.random.Generator, type_: pa.DataType, number: int) -> pa.Array:
    if pa.types.is_string(type_):
        return _texts(some, number)
    numbers = some.integers(0, 100_000, number)
    if pa.types.is_decimal(type_):
        return pa.array(numbers).cast(pa.decimal128(19)).cast(type_)
    if pa.types.is_timestamp(type_):
        numbers = 1_700_000_000_000_000 + numbers * 1_000_003
    return pa.array(numbers).cast(type_)


def _texts(some: np.random.Generator, number: int) -> pa.Array:
    """Returns texts of 20 letters."""
    letters, offsets = (
        _HEX[some.integers(0, 16, 20 * number)],
        np.arange(number + 1, dtype=np.int32) * np.int32(20),
    )
    return pa.Array.from_buffers(pa.string(), number, [None, pa.py_buffer(offsets), pa.py_buffer(letters)])
