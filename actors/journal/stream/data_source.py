"""`spark.readStream.format("tidemark")`: the changes in a journal's sealed segments, as a stream of Spark's own.

    spark.dataSource.register(TidemarkSource)
    changes = (
        spark.readStream.format("tidemark")
        .option("journal", "/var/lib/tidemark/journal")
        .option("table", "shop.orders")
        .load()
    )

Spark runs these classes in Python processes beside the driver and the executors, which import this module. The driver's
plans segments and files, and an executor's reads files. So what only the driver needs is imported where it's used.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from actors.journal.stream.file_rows import FileRows
from pipeline.lake.stream import segment_offset
from pipeline.lake.stream.segment_offset import SegmentOffset

if TYPE_CHECKING:
    from actors.journal.stream.segment_planner import SegmentPlanner
    from pipeline.lake.stream.change_file import ChangeFile
    from pipeline.lake.stream.segment_plan import MicroBatchLimit


class TidemarkSource(DataSource):
    """Spark's data source `tidemark`. docs/spark.md has its options."""

    # The segment as of which `schema` has loaded the columns; None if the user gives them. Spark pickles the instance
    # after it has called `schema`.
    loaded: int | None = None

    @classmethod
    def name(cls) -> str:
        """Returns what `format` is called with."""
        return "tidemark"

    def schema(self) -> str:
        """Returns the columns of a stream, as the tables have them now. Raises WrongOption."""
        from actors.journal.store import JournalReader
        from actors.journal.stream.segment_planner import load_columns
        from pipeline.lake.stream.source_options import parse_options
        from pipeline.lake.stream.stream_columns import stream_ddl

        options = parse_options(self.options)
        found = load_columns(JournalReader(options.journal), options)
        self.loaded = found.at
        return stream_ddl(found.schemas, several=options.several)

    def reader(self, schema: StructType) -> "TidemarkReader":
        """Returns what reads everything between two places."""
        return TidemarkReader(_Planning(self.options, schema, self.loaded))

    def streamReader(self, schema: StructType) -> "TidemarkStreamReader":  # noqa: N802 - Spark's name
        """Returns what reads a stream."""
        return TidemarkStreamReader(_Planning(self.options, schema, self.loaded))


class _Planning:
    """What the driver plans with, and what it gives to the executors. Only the latter is pickled."""

    def __init__(self, options: MutableMapping[str, str], schema: StructType, loaded: int | None) -> None:
        self._options = dict(options)
        self._loaded = loaded
        wanted = to_arrow_schema(schema, timezone="UTC")
        self.rows = FileRows(self._options.get("journal", "").strip(), wanted, "tables" in self._options)

    @cached_property
    def planner(self) -> "SegmentPlanner":
        from actors.journal.stream.segment_planner import SegmentPlanner
        from pipeline.lake.stream.source_options import parse_options

        return SegmentPlanner(parse_options(self._options), self.rows.wanted, self._loaded)

    @cached_property
    def limit(self) -> "MicroBatchLimit":
        from pipeline.lake.stream.segment_plan import MicroBatchLimit
        from pipeline.lake.stream.source_options import parse_options

        options = parse_options(self._options)
        return MicroBatchLimit(options.rows, options.bytes)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("planner", "limit")}


class TidemarkReader(DataSourceReader):
    """Reads everything between two places, once."""

    def __init__(self, planning: _Planning) -> None:
        self._planning = planning

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the tasks."""
        # Without any, Spark runs a task that has nothing.
        return _partitions(self._planning.planner.whole()) or [InputPartition(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a task, in an executor."""
        return self._planning.rows.read(partition.value)


class TidemarkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream. Its offsets are segments of the journal."""

    def __init__(self, planning: _Planning) -> None:
        self._planning = planning
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int | str]:  # noqa: N802 - Spark's name
        """Returns where a new stream begins."""
        return segment_offset.to_json(self._planning.planner.begin())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Notes the end of the journal, after which the stream reads nothing."""
        self._last = self._planning.planner.latest().segment

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns what the options say that a micro-batch has at most."""
        limit = self._planning.limit
        return ReadMaxBytes(limit.bytes or 0) if limit.rows is None else ReadMaxRows(limit.rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, int | str]:  # noqa: N802 - Spark's name
        """Returns where a micro-batch ends that begins at `start`."""
        end = self._planning.planner.end(segment_offset.from_json(start), _limit(limit), self._last)
        return segment_offset.to_json(end)

    def reportLatestOffset(self) -> dict[str, int | str]:  # noqa: N802 - Spark's name
        """Returns the end of the journal, for the progress of the query."""
        return segment_offset.to_json(self._planning.planner.latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of a micro-batch."""
        return _partitions(self._planning.planner.tasks(*map(_offset, (start, end))))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Returns the rows of a task, in an executor."""
        return self._planning.rows.read(partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Lets the journal remove what the query has completed."""
        self._planning.planner.committed(_offset(end))


def _offset(value: dict[str, Any]) -> SegmentOffset:
    return segment_offset.from_json(value)


def _partitions(tasks: "tuple[tuple[ChangeFile, ...], ...]") -> list[InputPartition]:
    return [InputPartition(files) for files in tasks]


def _limit(limit: ReadLimit) -> "MicroBatchLimit":
    from pipeline.lake.stream.segment_plan import MicroBatchLimit

    match limit:
        case ReadMaxRows(max_rows=rows):
            return MicroBatchLimit(rows=rows)
        case ReadMaxBytes(max_bytes=size):
            return MicroBatchLimit(bytes=size)
        case _:
            return MicroBatchLimit()
