"""Messages of one topic in columns, as they are before they have a partition."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.kafka.avro.wire_format import framed
from pipeline.kafka.debezium.connect_schema import Schema
from pipeline.kafka.debezium.envelope import Numbers
from pipeline.types.buffers import Longs


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """The Connect schemas of keys and values. Each value has the schema with its number in `of`, or the first one."""

    key: Schema
    values: tuple[Schema, ...]
    of: Longs | None = None


@dataclass(frozen=True, slots=True)
class StreamPlaces:
    """The places in the stream of changes, by the journal's SCN and ordinal."""

    scn: Longs
    ordinal: Longs

    @staticmethod
    def of(changes: pa.RecordBatch, rows: Numbers) -> "StreamPlaces":
        """Returns the places of these rows."""
        scn, ordinal = (np.asarray(changes.column(name), np.int64) for name in ("__scn", "__ordinal"))
        return StreamPlaces(scn[rows], ordinal[rows])

    def taken(self, rows: Longs) -> "StreamPlaces":
        """Returns the places of these rows."""
        return StreamPlaces(self.scn[rows], self.ordinal[rows])


@dataclass(frozen=True, slots=True)
class Records:
    """Messages of one topic in their order. `headers`: texts by the header's name, null if a message lacks it.

    `times` (ms since the epoch) and `partitions` are null, or None, if the message has none of its own. `schemas`:
    those whose ids the messages still lack (`identified`). `places`: those of the rows that the messages are of, None
    if they are of none.
    """

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: tuple[tuple[str, pa.Array], ...] = ()
    times: pa.Array | None = None
    partitions: pa.Array | None = None
    schemas: RecordSchemas | None = None
    places: StreamPlaces | None = None

    @property
    def nameless(self) -> tuple[tuple[str, Schema], ...]:
        """Returns the schemas that need ids, of the `key` and of the `value`s."""
        if self.schemas is None:
            return ()
        keyed = self.keys.null_count < len(self.keys)
        keys = (("key", self.schemas.key),) if keyed else ()
        return (*keys, *(("value", self.schemas.values[number]) for number in self._used.tolist()))

    def identified(self, ids: Sequence[int]) -> "Records":
        """Returns the messages with heads that name their schemas; `ids` are those of `nameless`."""
        assert self.schemas is not None
        keys, values, keyed = self.keys, self.values, self.keys.null_count < len(self.keys)
        if keyed:
            keys = framed(keys, ids[:1], np.zeros(len(keys), np.int64))
        if len(ids) > keyed:
            numbers = np.searchsorted(self._used, self._schema_numbers)
            values = framed(values, ids[keyed:], np.minimum(numbers, len(self._used) - 1))
        return replace(self, keys=keys, values=values, schemas=None)

    @property
    def _schema_numbers(self) -> Longs:
        """Returns the number of each value's schema."""
        assert self.schemas is not None
        return np.zeros(len(self.values), np.int64) if self.schemas.of is None else self.schemas.of

    @property
    def _used(self) -> Longs:
        """Returns the numbers of the schemas that values have, in their order. A tombstone has none."""
        return np.unique(self._schema_numbers[np.asarray(self.values.is_valid())])


def by_topic(records: Records, topics: pa.Array) -> Iterator[Records]:
    """Returns the messages of each topic, in their order; `topics` has the topic of each."""
    for topic in topics.unique().to_pylist():
        rows = np.flatnonzero(np.asarray(pc.equal(topics, topic)))
        at = pa.array(rows)
        headers = tuple((name, texts.take(at)) for name, texts in records.headers)
        times, partitions_ = (
            None if each is None else each.take(at) for each in (records.times, records.partitions)
        )
        schemas, places = records.schemas, records.places
        if schemas is not None and schemas.of is not None:
            schemas = replace(schemas, of=schemas.of[rows])
        yield Records(
            topic,
            records.keys.take(at),
            records.values.take(at),
            headers,
            times,
            partitions_,
            schemas,
            None if places is None else places.taken(rows),
        )
