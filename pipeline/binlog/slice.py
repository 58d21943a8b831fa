"""A slice of the log in the making: transactions and their rows events go in, columns come out."""

from typing import NamedTuple

import numpy as np

from pipeline.binlog.rows import ImagesBuilder
from pipeline.gtid import Gtid, Source
from pipeline.messages import LogRead, TableImages
from pipeline.tablemap import TableMap
from pipeline.transactions import Transactions
from pipeline.watermark import Coordinates


class RowsEvent(NamedTuple):
    """A rows event of a captured table, as `rows.ImagesBuilder` takes it."""

    map: TableMap
    code: int
    body: bytes


class Slice:
    """A run of transactions on its way into columns."""

    def __init__(self) -> None:
        self.bytes = 0
        self.end: Coordinates | None = None  # of its last transaction
        self._sources: dict[Source, int] = {}
        self._source: list[int] = []
        self._number: list[int] = []
        self._commit_time: list[int] = []
        # By the map's identity, since maps are told apart often and compared never.
        self._builders: dict[int, ImagesBuilder] = {}

    def __len__(self) -> int:
        return len(self._number)

    def add(self, gtid: Gtid, commit_time: int, rows: list[RowsEvent]) -> None:
        """Put one transaction behind the others, with these rows events."""
        transaction, ordinal = len(self), 0
        self._source.append(self._sources.setdefault(gtid.source, len(self._sources)))
        self._number.append(gtid.number)
        self._commit_time.append(commit_time)
        for table_map, code, body in rows:
            builder = self._builders.get(id(table_map))
            if builder is None:
                builder = self._builders[id(table_map)] = ImagesBuilder(table_map)
            ordinal += builder.add(body, code, transaction, ordinal)
            self.bytes += len(body)

    def read(self) -> LogRead:
        """The slice in columns; it's to be called once."""
        assert self.end is not None
        transactions = Transactions(
            tuple(self._sources),
            np.array(self._source, np.int32),
            np.array(self._number, np.int64),
            np.array(self._commit_time, np.int64),
        )
        return LogRead(transactions, tuple(_images(b) for b in self._builders.values()), self.end)


def _images(builder: ImagesBuilder) -> TableImages:
    images, rows = builder.finish()
    return TableImages(builder.map, images, rows, builder.impossible_dates)
