"""Changes as lines of JSON, made in columns.

    {"table":"shop.orders","op":"u","scn":17,"ordinal":0,"gtid":"…:17","time":"2026-…Z","row":{"id":1,…}}
    {"checkpoint":"3f5c0a.12.17","scn":17}

The line of a checkpoint says in `restarted` and `stopped` what has become of tables (`TableNotices`). The last line of
all that is wanted is one with `complete`.
If the log lacks values of a row, `absent` names their columns. `chunk` names the chunk of a snapshot's row.
Values are as in Debezium's messages with decimals, moments and bytes as texts. JSON is JSON, and BIGINT UNSIGNED a
number. Debezium has no text of a TIME below 00:00:00 or from 24:00:00 on: a TIME has the lake's text.
"""

import json
from collections.abc import Hashable
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.http.changes.segment_changes import ChangesRead
from pipeline.config.message_handling import BinaryHandling, DecimalHandling, Handling, TimePrecision
from pipeline.journal.changes.commit_order import LaneRows
from pipeline.kafka.debezium.json_values import json_lists, json_piece, json_told, object_piece
from pipeline.kafka.debezium.text_rows import Chosen, TextPiece, joined
from pipeline.schema.table_schema import Column, TableSchema
from pipeline.types.arrow_arrays import bytes_of
from pipeline.types.column_types import Integer, Json, Time, Timestamp
from pipeline.types.lake_forms import time_texts

_HANDLING: Final = Handling(DecimalHandling.STRING, TimePrecision.ISOSTRING, binary=BinaryHandling.BASE64)
_TIME: Final = Column("time", Timestamp(6), nullable=True)


class JsonLines:
    """Writes a reader's changes as lines."""

    content_type = "application/x-ndjson"

    @property
    def key(self) -> Hashable:
        """Returns the same for all: lines depend on nothing that was sent before."""
        return ()

    def begin(self) -> bytes:
        """Returns nothing: lines need no beginning."""
        return b""

    def write(self, read: ChangesRead) -> bytes:
        """Returns a line for each row, and one for the checkpoint."""
        lines = b"" if read.rows is None else _lines(read)
        return lines if read.checkpoint is None else lines + _checkpoint_line(read)

    def error(self, text: str) -> bytes:
        """Returns a last line that has the error."""
        return json.dumps({"error": text}).encode() + b"\n"

    def end(self) -> bytes:
        """Returns nothing."""
        return b""


def _checkpoint_line(read: ChangesRead) -> bytes:
    told = {"checkpoint": str(read.checkpoint), "scn": read.scn, **read.notices.to_json()}
    told |= {"complete": True} if read.complete else {}
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _lines(read: ChangesRead) -> bytes:
    assert read.rows is not None
    texts, places = [], []
    for part, at in read.rows.taken():
        texts.append(_texts(part, read.lanes[part.lane]))
        places.append(at)
    if len(texts) > 1:
        every = pa.concat_arrays(texts)
        texts = [every.take(pa.array(np.argsort(np.concatenate(places))))]
    return bytes_of(texts[0])[0].tobytes()


def _texts(part: LaneRows, schema: TableSchema) -> pa.Array:
    """Returns the line of each row."""
    rows, count = part.rows, part.rows.num_rows
    own = {column.name: _value(column, rows.column(column.name)) for column in schema.columns}
    fields: dict[str, TextPiece] = {
        "table": json.dumps(str(schema.table), ensure_ascii=False),
        "op": json_told(rows.column("__op")),
        "scn": json_told(rows.column("__scn")),
        "ordinal": json_told(rows.column("__ordinal")),
        "gtid": json_told(rows.column("__gtid")),
        "time": json_piece(_TIME, rows.column("__commit_time"), _HANDLING),
    }
    begin = object_piece(fields)[:-1]
    more = (_optional("chunk", rows.column("__chunk")), _optional("absent", rows.column("__absent")))
    return joined(*begin, *more, ',"row":', object_piece(own), "}\n", count=count)


def _optional(name: str, values: pa.Array) -> TextPiece:
    """Returns a field with a text or a list of texts, which only rows have that have a value."""
    count, exists = len(values), np.asarray(values.is_valid())
    if not exists.any():
        return ""
    value = json_lists(values) if pa.types.is_list(values.type) else json_told(values)
    return Chosen(joined(f',"{name}":', value, count=count), none=b"").where(exists)


def _value(column: Column, values: pa.Array) -> TextPiece:
    """Returns the values of a column; a value that no calendar has is null, and so are those of an emptied table."""
    exists = np.asarray(values.is_valid())
    match column.type:
        case Json():
            return Chosen(values).where(exists)
        case Integer(8, unsigned=True):
            return Chosen(pc.cast(values, pa.string())).where(exists)
        case Time():
            return Chosen(time_texts(values), quoted=True).where(exists)
        case _:
            return json_piece(replace(column, nullable=True), values, _HANDLING)
