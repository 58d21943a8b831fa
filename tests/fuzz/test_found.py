"""What damaged bytes once did, so that they never do it again; and what a small case can't show: large packets."""

import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Final

import pyarrow as pa
import pytest

from pipeline.binlog.event_type import Code
from pipeline.binlog.events.table_map_event import table_map
from pipeline.binlog.slice import SliceBound
from pipeline.errors import Definite
from pipeline.messages.binlog import TransactionsRead
from pipeline.types.field_types import FieldType
from tests.fuzz import payloads
from tests.fuzz.corpus import HEADER, rebuilt
from tests.fuzz.logs import log_told, stream, wire_told
from tests.fuzz.mutation import Case
from tests.fuzz.rows import RowsCase, rows_told
from tests.pipeline.binlog import test_transaction_assembler as logs
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.test_packets import FULL, framed

# A table d.t without columns, and a row of it, which has no bytes.
NO_COLUMNS: Final = RowsCase(
    bytes(8) + b"\x01d\0\x01t\0" + b"\x00\x00",
    ((Code.WRITE_ROWS, bytes(6) + b"\x01\x00\x02\x00\x00" + b"\x05"),),
)


def test_a_table_without_columns() -> None:
    """It was divided by the bytes of a row."""
    assert rows_told(NO_COLUMNS) == ("UndecodableError", "d.t: it has no columns")


@pytest.mark.parametrize("event", [logs.rotate(offset=2**63), logs.heartbeat("binlog.000001", 2**64 - 1)])
def test_an_offset_that_no_number_of_eight_bytes_with_a_sign_holds(event: bytes) -> None:
    told = log_told(Case((logs.rotate(), event), cuts=0))
    assert "UndecodableError" in str(told)
    assert "no file has an offset" in str(told)


# -- each type's metadata

EDGES: Final = (0, 1, 2, 3, 4, 7, 8, 9, 30, 31, 38, 65, 66, 127, 247, 248, 254, 255)


def of_one_column(code: int, metadata: bytes) -> RowsCase:
    """A column of this type in a table d.t, with a sign and a collation for those that have them, and a few rows."""
    optional = b"\x01\x01\x00" + b"\x02\x01\x2d" + b"\x0a\x01\x2d"
    described = bytes([1, code, len(metadata)]) + metadata + b"\x01" + optional
    head = bytes(6) + b"\x01\x00\x02\x00\x01\xff"
    rows = [
        b"\x00" + bytes((7 * i + k) % 256 for k in range(size)) for i, size in enumerate((0, 1, 3, 9, 40))
    ]
    return RowsCase(
        bytes(8) + b"\x01d\0\x01t\0" + described, tuple((Code.WRITE_ROWS, head + row) for row in rows)
    )


@pytest.mark.parametrize(
    ("code", "metadata"),
    [
        (FieldType.STRING, bytes([FieldType.ENUM, 0])),  # such values were read where the next one begins
        (FieldType.STRING, bytes([FieldType.SET, 5])),
        (
            FieldType.BIT,
            b"\0\0",
        ),  # Arrow's errors came for these: BIT(0), DECIMAL(0,0), DECIMAL(2,9), DECIMAL(66,0)
        (FieldType.BIT, b"\x01\x08"),
        (FieldType.NEWDECIMAL, b"\0\0"),
        (FieldType.NEWDECIMAL, b"\x02\x09"),
        (FieldType.NEWDECIMAL, b"\x42\x00"),
    ],
)
def test_metadata_that_no_column_has(code: int, metadata: bytes) -> None:
    kind, text = rows_told(of_one_column(code, metadata))
    assert kind == "UndecodableError"
    assert f"type code {int(code)} with metadata" in text


def test_whatever_a_types_metadata_say_its_values_are_read_or_refused() -> None:
    decoded = 0
    for code, low, high in product(FieldType, EDGES, EDGES):
        for metadata in (b"", bytes([low]), bytes([low, high])):
            if len(metadata) == 2 or high == 0:
                decoded += sum(_decoded(row) for row in _rows_of(of_one_column(code, metadata)))
    assert decoded > 300


def _decoded(case: RowsCase) -> bool:
    kind, _ = rows_told(case)
    return kind == "decoded"


def _rows_of(case: RowsCase) -> Iterator[RowsCase]:
    """The case with one row each, if the table map is one."""
    with suppress(Definite):
        table_map(case.map)
        for row in case.events:
            yield replace(case, events=(row,))


def test_a_documents_length_that_would_go_on_behind_the_last_event() -> None:
    """What no random damage finds soon: a string's length of which each byte says that another follows."""
    described = of_one_column(FieldType.JSON, b"\x04").map
    row = bytes(6) + b"\x01\x00\x02\x00\x01\xff" + b"\x00" + b"\x02\x00\x00\x00" + b"\x0c\x80"
    kind, text = rows_told(RowsCase(described, ((Code.WRITE_ROWS, row),)))
    assert kind == "UndecodableError"
    assert "ends inside" in text


# -- what is large


def test_a_payload_much_larger_than_memory_would_be_passes_piece_by_piece() -> None:
    """Half a gigabyte of events in some KiB, that's 16 times what the reading may take."""
    size, block = 1 << 29, 1 << 20
    query_event = rebuilt(
        bytes(4) + bytes([Code.ROWS_QUERY]) + bytes(14), bytes(block // 64 - HEADER), checksum=False
    )
    inside = [logs.query("BEGIN"), logs.MAP, logs.ROW]
    first = b"".join(rebuilt(event[:HEADER], event[HEADER:-4], checksum=False) for event in inside)
    last = rebuilt(bytes(4) + bytes([Code.XID]) + bytes(14), bytes(8), checksum=False)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as zstd:
        zstd.write(first)
        for _ in range(size // block):
            zstd.write(query_event * 64)
        zstd.write(last)
    data = sink.getvalue().to_pybytes()
    assert len(data) < size // 1000
    whole = len(first) + size + len(last)
    fields: dict[int, int] = {
        payloads.Field.TYPE: 0,
        payloads.Field.SIZE: len(data),
        payloads.Field.UNCOMPRESSED_SIZE: whole,
    }
    log = [logs.rotate(), logs.begin(1), made(Code.TRANSACTION_PAYLOAD, payloads.body(fields, data))]
    tracemalloc.start()
    arrow_before = pa.default_memory_pool().bytes_allocated()
    *_, passed = logs.folded(stream(SliceBound()), log)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(passed, TransactionsRead)
    assert len(passed.transactions) == 1
    assert peak + pa.default_memory_pool().bytes_allocated() - arrow_before < size // 16


LARGE: Final = 2**24 + 1000


@pytest.mark.parametrize("seed", range(12))
def test_damage_to_an_event_of_several_packets(seed: int) -> None:
    """Its heads lie, its bytes change, and however it's cut, it comes to the same."""
    rng = random.Random(seed)
    text = made(Code.ROWS_QUERY, rng.randbytes(1000) + bytes(LARGE))
    wire = bytearray(
        framed(
            [b"\0" + event for event in (logs.rotate(), *logs.transaction(1, logs.MAP, text, logs.ROW))], 1
        )
    )
    first = wire.index(b"\xff\xff\xff")  # of the two heads of the large one
    at = rng.choice((first, first + 4 + FULL)) + rng.randrange(4) if seed % 2 else rng.randrange(len(wire))
    wire[at] = rng.choice((0, 1, 254))
    wire_told(bytes(wire), cuts=seed)  # raises where it differs
