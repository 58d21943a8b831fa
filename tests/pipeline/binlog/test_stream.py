"""The compiled parser takes what it takes as the fold in Python does, and leaves the rest to it.

Random logs, most of which can be and some of which can't, go both ways: event by event through the fold, and in
random pieces through packets and parser. What comes out is the same, messages and errors to the word.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.binlog.event_type import Code
from pipeline.binlog.packets import Packets
from pipeline.binlog.slice import SliceBound
from pipeline.binlog.stream import LogMessage, LogStream
from pipeline.binlog.stream_state import LONGEST_STATEMENT
from pipeline.errors import Definite
from pipeline.messages.binlog import TransactionPartRead, TransactionsRead
from pipeline.messages.row_images import TableImages
from tests.pipeline.binlog.events.test_event import made
from tests.pipeline.binlog.events.test_payload_event import body as payload_body
from tests.pipeline.binlog.folding_stream import FoldingStream, frames
from tests.pipeline.binlog.golden import STORIES, story
from tests.pipeline.binlog.test_packets import framed
from tests.pipeline.binlog.test_transaction_assembler import (
    SERVER,
    begin,
    heartbeat,
    messages,
    query,
    rotate,
    row,
    table,
)

SMALL = SliceBound(transactions=3, bytes=150, held=120)
CREATE = "CREATE TABLE `new` (`id` int) START TRANSACTION"
XID = made(Code.XID, bytes(8))
NAMES = ("orders", "items", "ignored")


def log_stream(keeps_statements: bool) -> FoldingStream:
    return FoldingStream(
        lambda table: table.name != "ignored",
        lambda database: database == "shop",
        SMALL,
        keeps_statements=keeps_statements,
    )


def told(message: LogMessage) -> Any:
    """All that a message says, so that two can be compared."""
    if not isinstance(message, TransactionsRead | TransactionPartRead):
        return message
    tables = [
        (t.map, t.images.to_pylist(), t.rows.to_pylist(), t.impossible_dates)
        if isinstance(t, TableImages)
        else t
        for t in message.tables
    ]
    if isinstance(message, TransactionPartRead):
        return message.gtid, message.commit_time, tables
    gtids = message.transactions.gtid_texts().to_pylist()
    run = message.transactions
    times = run.commit_time.tolist(), run.original_time.tolist()
    return gtids, times, tables, message.end, message.unread, message.prepared


def outcome(given_: Iterator[Any], log: LogStream) -> list[Any]:
    """What came, and what it ended with."""
    came = []
    try:
        came += list(given_)
        came += log.take()
        end = "the end"
    except Definite as error:
        end = str(error)
    return [*map(told, messages(came)), end]


def folded(log_events: list[bytes], keeps_statements: bool = False) -> list[Any]:
    log = log_stream(keeps_statements)
    return outcome((given_ for event in log_events for given_ in log.fold(event)), log)


def parsed(log_events: list[bytes], sizes: list[int], keeps_statements: bool = False) -> list[Any]:
    log, packets = log_stream(keeps_statements), Packets(0)
    stream = framed([b"\0" + event for event in log_events], 0)

    def given_() -> Iterator[Any]:
        at = 0
        while at < len(stream):
            for size in sizes:
                piece = stream[at : at + size]
                at += len(piece)
                packets.room()[: len(piece)] = piece
                packets.arrived(len(piece))
                while (these := packets.frames()) is not None:
                    yield from log.parse(these)

    return outcome(given_(), log)


# -- random logs


def compressed(*inside: bytes) -> bytes:
    """The events without their checksums, in a payload."""
    plain = b"".join(event[:9] + (len(event) - 4).to_bytes(4, "little") + event[13:-4] for event in inside)
    return made(
        Code.TRANSACTION_PAYLOAD, payload_body(pa.compress(plain, codec="zstd", asbytes=True), len(plain))
    )


def tagged(number: int) -> bytes:
    source = "".join(
        f"{byte << 1:02x}" if byte < 128 else f"{byte << 2 & 255 | 1:02x}{byte >> 6:02x}" for byte in _UUID
    )
    fields = (
        "0000" + "02" + source + "04" + f"{number << 2:02x}" + "06" + "06746167" + "0800" + "0a02" + "0c10"
    )
    body = bytes.fromhex(fields)
    return made(Code.TAGGED_GTID, bytes([2, 2 * (len(body) + 3), 0x0C]) + body)


_UUID = bytes.fromhex(SERVER.replace("-", ""))

IDS = st.integers(1, 3)
INSIDE = st.one_of(
    st.builds(
        lambda i, n, vs: [table(i, n), *(row(i, v) for v in vs)],
        IDS,
        st.sampled_from(NAMES),
        st.lists(IDS, max_size=4),
    ),
    st.builds(lambda i, v: [row(i, v)], IDS, IDS),
    st.builds(lambda i, v: [table(i, "orders"), row(i, v)[:-9] + bytes(9)], IDS, IDS),  # damaged
    st.sampled_from(
        [
            [made(Code.ROWS_QUERY, b"\x05hello")],
            [query("SAVEPOINT `s`")],
            [query("ROLLBACK TO `s`")],
            [query(CREATE)],
            [query("INSERT INTO t VALUES (1)", updated="other")],
            [query("INSERT INTO t VALUES (1)", updated="shop")],
            [
                made(Code.TABLE_MAP, b"\x01" + bytes(7) + b"\x04shop\0\x06orders\0" + b"\x01\xc8\x00\x00"),
                row(1, 2),
            ],
            [made(99, b"?", flags=0x80)],
            [made(99, b"?")],
            [XID],
            [rotate()],
        ]
    ),
)
ORDINARY = st.builds(
    lambda texts, i, n, vs: [
        *(made(Code.ROWS_QUERY, b"\0" + text) for text in texts),
        table(i, n),
        *(row(i, v) for v in vs),
    ],
    st.lists(st.sampled_from([b"", b"INSERT", b"\xe9" * 40]), max_size=1),
    IDS,
    st.sampled_from(NAMES),
    st.lists(IDS, max_size=4),
)
ENDS = st.sampled_from([*[XID] * 8, query("COMMIT"), query("COMMIT"), query("ROLLBACK")])


@st.composite
def logs(draw: st.DrawFn) -> list[bytes]:
    """A log's events: ordinary transactions, others, what is between them, and faults, each more or less often."""
    strange = draw(st.sampled_from([0, 0, 1, 10]))
    log = [rotate()]
    ends = 4
    kinds = draw(st.sampled_from([0, 2, 14, 14]))  # of transactions, of which 0 are compressed ones
    for number in range(1, draw(st.integers(1, 12))):
        inside = [
            e
            for part in draw(st.lists(INSIDE if draw(st.integers(0, 20)) < strange else ORDINARY, max_size=4))
            for e in part
        ]
        first = begin(number) if draw(st.integers(0, 5)) else tagged(number)
        end = draw(ENDS)
        match draw(st.integers(0, kinds)):
            case 0:
                log += [first, compressed(query("BEGIN"), *inside, end)]
            case 1:
                xid = "X'61',X'',1"
                phase = draw(st.sampled_from([b"\0", b"\1"]))
                prepare = made(Code.XA_PREPARE, phase + bytes([1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]) + b"a")
                log += [first, query(f"XA START {xid}"), *inside, query(f"XA END {xid}"), prepare]
            case 2 if strange:
                log += [
                    first,
                    query(draw(st.sampled_from(["XA COMMIT X'61',X'',1", "XA ROLLBACK X'61',X'',1"]))),
                ]
            case 3:
                log += [first, query("DROP TABLE x")]
            case 4:
                log += [first, query("BEGIN"), query(CREATE), *inside, XID]
            case _:
                log += [first, query("BEGIN"), *inside, end]
        if not draw(st.integers(0, 3)):
            log.append(
                draw(
                    st.sampled_from(
                        [
                            rotate("binlog.000002"),
                            heartbeat("binlog.000001", 2**33),
                            made(Code.HEARTBEAT, b"binlog.000001"),
                        ]
                    )
                )
            )
    if strange > 1 and draw(st.booleans()):
        at = draw(st.integers(0, len(log) - 1))
        log[at : at + 1] = draw(st.sampled_from([[], [log[at], log[at]], [log[at][:-1]], [flipped(log[at])]]))
    for at, event in enumerate(log):  # places in the file, as a server gives them
        if len(event) >= 23 and event[4] != Code.HEARTBEAT_V2 and draw(st.integers(0, 9)):
            ends += len(event)
            log[at] = _placed(event, ends)
    return log


def flipped(event: bytes) -> bytes:
    return event[:-6] + bytes([event[-6] ^ 1]) + event[-5:]


def _placed(event: bytes, end: int) -> bytes:
    if zlib.crc32(event[:-4]).to_bytes(4, "little") != event[-4:]:
        return event
    placed = event[:13] + end.to_bytes(4, "little") + event[17:-4]
    return placed + zlib.crc32(placed).to_bytes(4, "little")


SIZES = st.lists(st.integers(1, 700), min_size=1, max_size=5)


@settings(max_examples=4 * settings().max_examples)
@given(logs(), SIZES, st.booleans())
def test_the_parser_and_the_fold_are_one(log_events: list[bytes], sizes: list[int], statements: bool) -> None:
    assert parsed(log_events, sizes, statements) == folded(log_events, statements)


@pytest.mark.parametrize("by", ["parse", "fold"])
def test_statements_about_tables_that_are_not_captured_take_no_room(by: str) -> None:
    log = log_stream(keeps_statements=True)
    text = made(Code.ROWS_QUERY, b"\0" + b"x" * 40)
    too_long = made(Code.ROWS_QUERY, b"\0" + b"x" * (LONGEST_STATEMENT + 1))
    others = [event for _ in range(100) for event in (text, table(2, "ignored"), row(2, 1))]
    others += [text, too_long, text]
    ours = [made(Code.ROWS_QUERY, b"\0ours"), table(1, "orders"), row(1, 7)]
    come = [rotate(), begin(1), query("BEGIN"), *others, *ours, *others, row(1, 8), XID]
    pieces = [log.parse(frames(come))] if by == "parse" else [log.fold(event) for event in come]
    [read] = messages([*(each for piece in pieces for each in piece), *log.take()])
    assert isinstance(read, TransactionsRead)
    [images] = read.tables
    assert isinstance(images, TableImages)
    texts = [source["query"] for source in images.images.column("source").to_pylist()]
    assert texts == ["ours", "x" * 40]


@pytest.mark.parametrize("name", sorted(STORIES))
@given(SIZES)
@settings(max_examples=20)
def test_they_are_one_on_the_servers_stories(name: str, sizes: list[int]) -> None:
    assert parsed(story(name), sizes) == folded(story(name))


@given(st.data())
def test_whatever_bytes_are_in_an_event_the_two_agree(data: st.DataObject) -> None:
    """With a right checksum, so that its bytes are read."""
    log_events = story("transactions")
    at = data.draw(st.integers(0, len(log_events) - 1))
    body = bytearray(log_events[at][19:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body))) :]
    log_events[at] = made(log_events[at][4], bytes(body))
    assert parsed(log_events, [1 << 16]) == folded(log_events)
