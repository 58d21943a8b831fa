"""What events say, by MySQL's own bytes (`golden`), by made-up ones, and by damaged ones."""

import contextlib
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.binlog.event_type import Code
from pipeline.binlog.events import event as events
from pipeline.binlog.events.event import (
    Event,
    FormatDescription,
    Heartbeat,
    Incident,
    PreviousGtids,
    Rotate,
    RowsChanged,
    RowsStatement,
    Skipped,
    Stop,
    TableMapped,
    XaPrepare,
)
from pipeline.binlog.events.gtid_event import TransactionBegins
from pipeline.binlog.events.payload_event import Payload
from pipeline.binlog.events.query_event import Query
from pipeline.binlog.events.table_map_event import table_map
from pipeline.errors import Definite, UndecodableError
from pipeline.gtid.gtid_set import NO_GTIDS, Gtid, GtidSet
from pipeline.schema.table_map import FullMetadata, MinimalMetadata, NoMetadata, TableMap
from pipeline.schema.table_schema import TableId
from pipeline.types import column_types as t
from pipeline.types.cursor import Cursor
from pipeline.types.text.collations import charset
from tests.pipeline.binlog.golden import STORIES, story


def made(code: int, body: bytes, *, end: int = 0, flags: int = 0) -> bytes:
    """An event with a checksum."""
    head = struct.pack("<IBIIIH", 1, code, 1, 19 + len(body) + 4, end, flags)
    return head + body + zlib.crc32(head + body).to_bytes(4, "little")


def parsed(event: bytes, *, checksum: bool = True) -> Event:
    return events.parse_event(events.header(event), event, checksum=checksum)


def told(name: str) -> Iterator[Event]:
    """All events of a story, read as its format descriptions say."""
    checksum = True
    for event in story(name):
        this = parsed(event, checksum=checksum)
        if isinstance(this, FormatDescription):
            checksum = this.checksum
        yield this


def the_map(name: str) -> TableMap:
    [mapped] = [event for event in told(name) if isinstance(event, TableMapped)]
    return table_map(mapped.body)


# -- the log's frame


def test_a_log_begins_with_where_it_is_and_how_it_is_written() -> None:
    rotate, description, previous_gtids, *_ = told("transactions")
    assert rotate == Rotate("binlog.000001", 4)
    assert description == FormatDescription(checksum=True)
    assert previous_gtids == PreviousGtids(NO_GTIDS)


def test_a_log_without_checksums_is_read_by_its_format_description() -> None:
    everything = list(told("without_checksums"))
    assert everything[1] == FormatDescription(checksum=False)
    creation = Query("shop", "CREATE DATABASE shop", frozenset({"shop"}), strict=True, thread=9, escapes=True)
    assert creation in everything


@pytest.mark.parametrize("name", STORIES)
def test_headers_tell_where_events_end(name: str) -> None:
    at = 4
    for event in story(name):
        head = events.header(event)
        if head.end and head.code != Code.FORMAT_DESCRIPTION:
            assert head.end == at + head.size
        at = head.end or 4


def test_heartbeats_of_both_forms() -> None:
    assert parsed(made(Code.HEARTBEAT, b"binlog.000007", end=5)) == Heartbeat("binlog.000007", None)
    # Field 1 (13 bytes), field 2 (9 bytes: a length-encoded integer), field 9, which is passed over, and the end.
    body = b"\x01\x0dbinlog.000007\x02\x09\xfe" + (2**33).to_bytes(8, "little") + b"\x09\x01?\x00"
    assert parsed(made(Code.HEARTBEAT_V2, body)) == Heartbeat("binlog.000007", 2**33)
    with pytest.raises(UndecodableError, match="the log's position"):
        parsed(made(Code.HEARTBEAT_V2, b"\x01\x0dbinlog.000007\x00"))


# -- transactions


def test_gtids_with_and_without_a_tag_and_their_commit_times() -> None:
    begun = [event for event in told("transactions") if isinstance(event, TransactionBegins)]
    [server] = {event.gtid.source.uuid for event in begun if event.gtid is not None}
    assert [str(event.gtid).removeprefix(server) for event in begun] == [
        *(f":{n}" for n in range(1, 6)),
        ":mytag:1",
        *(f":{n}" for n in range(6, 9)),
    ]
    times = [event.commit_time for event in begun]
    assert times == sorted(times)
    headers = [events.header(event).time for event in story("transactions") if event[4] in (33, 42)]
    assert [time // 1_000_000 for time in times] == headers


def test_a_gtid_of_a_replicated_transaction_has_both_of_its_times() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    begin = bytes([1]) + bytes.fromhex(uuid.replace("-", "")) + (7).to_bytes(8, "little")
    clock = b"\x02" + bytes(16)
    here, there = 1_700_000_000_000_002, 1_700_000_000_000_001
    times = (here | 1 << 55).to_bytes(7, "little") + there.to_bytes(7, "little")
    assert parsed(made(Code.GTID, begin + clock + times + b"\x50")) == TransactionBegins(
        Gtid.parse(f"{uuid}:7"), here, there
    )
    # MySQL 5.7 has a clock and no times, 5.6 neither; the header's time is 1 s.
    for old in (begin + clock, begin):
        assert parsed(made(Code.GTID, old)) == TransactionBegins(Gtid.parse(f"{uuid}:7"), 1_000_000)


def test_a_tagged_gtid_of_percona_server() -> None:
    """Bytes of another server (8.4.11) than the stories'."""
    body = bytes.fromhex(
        "027c00000202ee4503410258026903 22c503690282410235 02dcbedc3502 04040610746573745f746167"
        "08000a040c7f003e8900fa5b06104505 12dbd009"
    )
    event = parsed(made(Code.TAGGED_GTID, body))
    assert isinstance(event, TransactionBegins)
    assert str(event.gtid) == "77d1902c-01da-11f1-9a41-908d6e5f6e8d:test_tag:1"
    assert datetime.fromtimestamp(event.commit_time / 1e6, UTC).year == 2026


def test_xa_prepare_in_one_phase_and_in_two() -> None:
    prepared = [event for event in told("xa") if isinstance(event, XaPrepare)]
    assert prepared == [
        XaPrepare("X'74776f',X'6272616e6368',7", one_phase=False),
        XaPrepare("X'6261636b',X'',1", one_phase=False),
        XaPrepare("X'6f6e65',X'',1", one_phase=True),
    ]


def test_statements_say_where_they_changed_something() -> None:
    inserts = [
        q for q in told("statement_format") if isinstance(q, Query) and q.statement.startswith("INSERT")
    ]
    assert inserts == [
        Query(
            "", f"INSERT INTO {table} VALUES (1)", frozenset({database}), strict=True, thread=9, escapes=True
        )
        for database, table in (("other", "other.things"), ("shop", "shop.orders"))
    ]


def query(variables: bytes, statement: bytes, error: int = 0) -> Query:
    body = struct.pack("<IIBHH", 1, 0, 4, error, len(variables)) + variables + b"shop\0" + statement
    event = parsed(made(Code.QUERY, body))
    assert isinstance(event, Query)
    return event


@pytest.mark.parametrize(
    ("mode", "strict"),
    [
        (1 << 21, True),
        (1 << 22 | 1 << 25 | 1 << 30, True),
        (1 << 25, False),
        (1 << 22 | 1 << 31, False),  # PAD_CHAR_TO_FULL_LENGTH
        (1 << 21 | 1 << 40, False),  # one that isn't known
    ],
)
def test_a_mode_that_converts_values_as_they_are(mode: int, strict: bool) -> None:
    assert query(b"\x01" + mode.to_bytes(8, "little"), b"ALTER TABLE t FORCE").strict is strict


@pytest.mark.parametrize(("mode", "escapes"), [(1 << 21, True), (1 << 20 | 1 << 21, False)])
def test_a_mode_says_whether_a_backslash_escapes(mode: int, escapes: bool) -> None:
    assert query(b"\x01" + mode.to_bytes(8, "little"), b"ALTER TABLE t FORCE").escapes is escapes


def test_whether_a_backslash_escapes_is_open_without_a_mode() -> None:
    assert query(b"", b"ALTER TABLE t FORCE").escapes is None


def test_a_statement_that_failed_says_so() -> None:
    assert query(b"", b"DROP TABLE t", error=1217).failed
    assert not query(b"", b"DROP TABLE t").failed


def test_a_statement_says_whether_it_depended_on_its_session() -> None:
    body = struct.pack("<IIBHH", 1, 0, 1, 0, 0) + b"d\0TRUNCATE t"
    for flags in (0x4, 0xC, 0x8, 0):
        found = parsed(made(Code.QUERY, body, flags=flags))
        assert isinstance(found, Query)
        assert found.thread_specific is bool(flags & 0x4)


def test_a_statement_has_its_time_zone_where_it_used_it() -> None:
    mode = b"\x01" + (1 << 22).to_bytes(8, "little")
    alter = query(mode + b"\x06\x03std\x05\x06SYSTEM\x07\x00\x00", b"ALTER TABLE t MODIFY a TIMESTAMP(3)")
    assert (alter.zone, alter.strict) == ("SYSTEM", True)
    assert query(mode, b"ALTER TABLE t MODIFY a INT").zone == ""


def test_a_statement_is_read_in_its_clients_character_set() -> None:
    latin1 = b"\x04" + struct.pack("<HHH", 8, 8, 255)
    assert query(latin1, "DROP TABLE `Ã©`".encode("latin1")).statement == "DROP TABLE `Ã©`"
    utf8 = b"\x04" + struct.pack("<HHH", 255, 255, 255)
    assert query(utf8, b"DROP TABLE `\xc3\xa9`").statement == "DROP TABLE `é`"
    assert query(utf8, b"DROP TABLE `\xe9`").statement == "DROP TABLE `\ufffd`"
    binary = b"\x04" + struct.pack("<HHH", 63, 63, 255)
    assert query(binary, b"DROP TABLE `\xc3\xa9`").statement == "DROP TABLE `é`"
    unknown = b"\x04" + struct.pack("<HHH", 2000, 255, 255)
    assert query(unknown, b"DROP TABLE `\xc3\xa9`").statement == "DROP TABLE `\ufffd\ufffd`"


def test_updated_databases_that_the_event_does_not_tell() -> None:
    assert query(b"\x0c\x02a\0b\0", b"UPDATE t").updated == frozenset({"a", "b"})
    assert query(b"\x0c\xfe", b"UPDATE t").updated is None  # more than there is room for
    assert query(b"\x63\x0c\x01a\0", b"UPDATE t").updated is None  # after a variable of a later version
    assert query(b"", b"UPDATE t").updated is None
    everything = (
        b"\x00" + bytes(4) + b"\x01" + bytes(8) + b"\x06\x03std\x03" + bytes(4) + b"\x05\x03UTC\x07" + bytes(2)
        + b"\x08" + bytes(2) + b"\x09" + bytes(8) + b"\x0b\x01u\x01h\x02\x03std\0\x0c\x01a\0"
    )  # fmt: skip
    assert query(everything, b"UPDATE t").updated == frozenset({"a"})
    with pytest.raises(UndecodableError, match="zero"):
        query(b"\x0c\x02a\0b", b"UPDATE t")


# -- tables

KINDS: dict[str, t.ColumnType] = {
    "id": t.Integer(8, unsigned=True),
    "ti": t.Integer(1, unsigned=False),
    "si": t.Integer(2, unsigned=True),
    "me": t.Integer(3, unsigned=False),
    "i": t.Integer(4, unsigned=False),
    "y": t.Year(),
    "de": t.Decimal(10, 3),
    "fl": t.Float(),
    "do": t.Double(),
    "b1": t.Bit(1),
    "b9": t.Bit(9),
    "da": t.Date(),
    "t": t.Time(0),
    "t3": t.Time(3),
    "dt": t.DateTime(0),
    "dt6": t.DateTime(6),
    "ts": t.Timestamp(0),
    "ts2": t.Timestamp(2),
    "c": t.Text("utf8mb4"),
    "cl": t.Text("latin1"),
    "big": t.Text("utf8mb4"),
    "v": t.Text("utf8mb4"),
    "vl": t.Text("utf8mb4"),
    "bi": t.FixedBinary(4),
    "vb": t.Binary(),
    "bl": t.Binary(),
    "mb": t.Binary(),
    "tx": t.Text("latin1"),
    "lt": t.Text("utf8mb4"),
    "e": t.Enum(("a", "b'c", "ü")),
    "el": t.Enum(("ä", "z")),
    "s": t.Set(("x", "y")),
    "j": t.Json(),
    "g": t.Geometry(),
    "p": t.Geometry(),
    "ve": t.Vector(),
    "weird `näme": t.Integer(4, unsigned=False),
    "vg": t.Integer(4, unsigned=False),
    "sg": t.Integer(4, unsigned=False),
}


def test_a_table_map_with_full_metadata_describes_the_table() -> None:
    described = the_map("types")
    assert described.table == TableId("shop", "kinds")
    assert described.metadata == FullMetadata(names=tuple(KINDS), key=(4, 21))
    assert dict(zip(KINDS, described.types, strict=True)) == KINDS
    assert {name for name, nullable in zip(KINDS, described.nullable, strict=True) if not nullable} == {
        "i",
        "v",
    }


def test_a_table_map_with_minimal_metadata_leaves_out_names_and_labels_alone() -> None:
    full, minimal = the_map("types"), the_map("types_minimal")
    assert minimal.metadata == MinimalMetadata()
    assert minimal.storage == full.storage
    assert minimal.nullable == full.nullable
    labelled = {"e": t.Enum(()), "el": t.Enum(()), "s": t.Set(())}
    assert dict(zip(KINDS, minimal.types, strict=True)) == {**KINDS, **labelled}


def map_body(codes: bytes, metadata: bytes, optional: bytes) -> bytes:
    nullable = bytes((len(codes) + 7) // 8)
    names = b"\x01d\0\x01t\0"
    return (
        bytes(8)
        + names
        + bytes([len(codes)])
        + codes
        + bytes([len(metadata)])
        + metadata
        + nullable
        + optional
    )


def test_a_table_map_of_a_server_without_optional_metadata_leaves_open_what_it_must() -> None:
    def described(code: bytes, metadata: bytes = b"") -> t.LogType:
        found = table_map(map_body(code, metadata, b""))
        assert found.metadata == NoMetadata()
        [kind] = found.types
        return kind

    integers = {b"\x01": 1, b"\x02": 2, b"\x09": 3, b"\x03": 4, b"\x08": 8}
    assert {code: described(code) for code in integers} == {c: t.RawInteger(n) for c, n in integers.items()}
    assert described(b"\xfe", b"\xfe\x0a") == t.RawChar(10)
    assert described(b"\xfe", b"\xce\xff") == t.RawChar(1023)
    assert {described(b"\x0f", b"\x0a\x00"), described(b"\xfc", b"\x02")} == {t.RawString()}
    assert described(b"\xfe", b"\xf7\x01") == t.Enum(())
    assert described(b"\xf6", b"\x0a\x02") == t.Decimal(10, 2)
    assert [described(code) for code in (b"\x0a", b"\x0d")] == [t.Date(), t.Year()]
    assert described(b"\xff", b"\x04") == t.Geometry()


def test_a_table_map_whose_metadata_lack_signs_or_character_sets_is_refused_by_name() -> None:
    name = b"\x04\x02\x01a"
    with pytest.raises(UndecodableError, match=r"d\.t: .*unsigned"):
        table_map(map_body(b"\x03", b"", name))
    with pytest.raises(UndecodableError, match=r"d\.t: .*character sets"):
        table_map(map_body(b"\x0f", b"\x0a\x00", name))


def test_a_table_map_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(UndecodableError, match="text column 1, of 1"):
        table_map(map_body(b"\x0f", b"\x0a\x00", b"\x02\x03\xff\x01\x3f".replace(b"\xff", b"\x2d")))
    with pytest.raises(UndecodableError, match="the column 3, of 1"):
        table_map(map_body(b"\x0a", b"", b"\x04\x02\x01a\x08\x01\x03"))
    with pytest.raises(UndecodableError, match="the type 200"):
        table_map(map_body(b"\xc8", b"", b""))
    with pytest.raises(UndecodableError, match="belong to no column"):
        table_map(map_body(b"\x0a", b"\x01", b""))


def test_collations_belong_to_character_sets() -> None:
    assert [charset(i) for i in (8, 33, 45, 63, 255)] == ["latin1", "utf8mb3", "utf8mb4", "binary", "utf8mb4"]
    with pytest.raises(UndecodableError, match="unknown id 17"):
        charset(17)


def test_an_incident_has_the_servers_word() -> None:
    assert parsed(made(Code.INCIDENT, b"\x01\x00\x04gone")) == Incident("gone")
    with pytest.raises(UndecodableError, match=r"^INCIDENT: "):
        parsed(made(Code.INCIDENT, b"\x01\x00\x05gone"))


def test_a_file_names_what_was_logged_before_it() -> None:
    before = GtidSet.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7:tag:1-3")
    assert parsed(made(Code.PREVIOUS_GTIDS, before.encode())) == PreviousGtids(before)
    with pytest.raises(UndecodableError, match=r"^PREVIOUS_GTIDS: "):
        parsed(made(Code.PREVIOUS_GTIDS, before.encode()[:-1]))


def test_the_servers_own_compressed_and_partial_events() -> None:
    assert any(isinstance(event, Payload) for event in told("compressed"))
    codes = [event.code for event in told("partial_json") if isinstance(event, RowsChanged)]
    assert codes == [Code.WRITE_ROWS, Code.PARTIAL_UPDATE_ROWS]


def test_an_unknown_event_is_an_error_unless_its_server_says_that_it_may_be_ignored() -> None:
    with pytest.raises(UndecodableError, match=r"type 99: .*isn't known"):
        parsed(made(99, b"whatever"))
    assert parsed(made(99, b"whatever", flags=0x80)) == Skipped()
    assert parsed(made(Code.ROWS_QUERY, b"\x05hello")) == RowsStatement(b"hello")
    assert parsed(made(Code.STOP, b"")) == Stop()


def test_a_damaged_event_is_refused() -> None:
    event = bytearray(story("transactions")[5])
    event[30] ^= 1
    with pytest.raises(UndecodableError, match="damaged: its CRC32 is"):
        parsed(bytes(event))
    with pytest.raises(UndecodableError, match="its header says"):
        events.header(bytes(event[:-1]))
    with pytest.raises(UndecodableError, match="shorter than its header"):
        events.header(b"\0" * 18)


def test_a_format_that_is_not_read_is_refused() -> None:
    description = bytearray(story("transactions")[1][19:-4])
    for at, value, words in (
        (0, 3, "format is 3"),
        (56, 13, "13 bytes"),
        (-1, 2, "algorithm 2"),
        (75, 6, "too old"),
    ):
        changed = bytearray(description)
        changed[at] = value
        with pytest.raises(UndecodableError, match=words):
            parsed(made(Code.FORMAT_DESCRIPTION, bytes(changed)))


def test_a_server_that_changes_its_description_without_checksums_is_believed() -> None:
    """MySQL 5.6 clears the time of the log's creation when it sends it, and leaves the checksum as it was."""
    description = bytearray(story("without_checksums")[1])
    description[19 + 52 : 19 + 56] = bytes(4)
    description[-1] ^= 1
    assert parsed(bytes(description)) == FormatDescription(checksum=False)
    description = bytearray(story("transactions")[1])
    description[-1] ^= 1
    with pytest.raises(UndecodableError, match="damaged"):
        parsed(bytes(description))


def test_a_log_from_before_gtids_is_too_old() -> None:
    """MySQL 5.5 knew 27 kinds of events, and no checksums."""
    lengths = story("transactions")[1][19 + 57 :][:27]
    body = b"\x04\x00" + b"5.5.62-log".ljust(50, b"\0") + bytes(4) + b"\x13" + lengths
    event = struct.pack("<IBIIIH", 1, Code.FORMAT_DESCRIPTION, 1, 19 + len(body), 0, 0) + body
    with pytest.raises(UndecodableError, match="too old"):
        parsed(event)


BY_CODE: dict[int, list[bytes]] = {}
for _event in (event for name in STORIES for event in story(name)):
    BY_CODE.setdefault(_event[4], []).append(_event)


@pytest.mark.parametrize("code", BY_CODE)
@given(data=st.data())
def test_whatever_is_in_an_event_it_is_read_or_refused(code: int, data: st.DataObject) -> None:
    """A changed body with a right checksum: it raises only our own errors, for any bytes."""
    event = data.draw(st.sampled_from(BY_CODE[code]))
    body = bytearray(event[19:-4])
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del body[data.draw(st.integers(0, len(body))) :]
    with contextlib.suppress(Definite):
        this = parsed(made(code, bytes(body)))
        if isinstance(this, TableMapped):
            table_map(this.body)


# -- integers


def variable(value: int) -> bytes:
    """MySQL's variable-length form, by the words of its page: ones, a zero, and the value, from the lowest bit up."""
    size = max(1, (value.bit_length() + 6) // 7)
    if size > 8:
        return b"\xff" + value.to_bytes(8, "little")
    ones: int = (1 << (size - 1)) - 1
    return (value << size | ones).to_bytes(size, "little")


@given(st.integers(0, 2**64 - 1))
@example(0)
@example(2**56 - 1)
@example(2**56)
@example(2**63)
def test_integers_of_variable_length(value: int) -> None:
    cursor = Cursor(variable(value) + b"!")
    assert cursor.variable() == value
    assert cursor.left == 1


def test_the_examples_of_mysqls_own_page() -> None:
    assert Cursor(bytes.fromhex("fbff07")).variable() == 65535
    assert Cursor(bytes.fromhex("f3ff0f")).variable_signed() == 65535
    assert Cursor(bytes.fromhex("ebff0f")).variable_signed() == -65535
    assert Cursor(bytes.fromhex("fbff0f")).variable_signed() == -65536


def test_length_encoded_integers() -> None:
    assert [Cursor(b).packed() for b in (b"\xfa", b"\xfc\x01\x02", b"\xfd\x01\x02\x03")] == [
        250,
        0x201,
        0x30201,
    ]
    assert Cursor(b"\xfe" + (2**40).to_bytes(8, "little")).packed() == 2**40
    with pytest.raises(UndecodableError, match="begins with 251"):
        Cursor(b"\xfb").packed()
