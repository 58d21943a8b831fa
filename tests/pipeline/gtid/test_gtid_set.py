"""GTID sets against plain Python sets of (source, number), and the texts and bytes that they're read from."""

import random
import struct
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import LARGEST_NUMBER, Gtid, GtidSet, MalformedGtid, Tsid
from pipeline.gtid.intervals import Intervals

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "a0b1c2d3-0000-4000-8000-000000000001"

SOURCES = [Tsid(uuid, tag) for uuid in (A, B) for tag in ("", "_x", "batch", "batch2")]

Plain = frozenset[tuple[Tsid, int]]

number = st.integers(1, 30) | st.integers(LARGEST_NUMBER - 3, LARGEST_NUMBER)
pair = st.tuples(st.sampled_from(SOURCES), number)
plain_sets = st.frozensets(pair, max_size=40)


def gtid_set(plain: Plain) -> GtidSet:
    return GtidSet.parse(",".join(f"{source}:{number}" for source, number in plain))


def plain(value: GtidSet) -> Plain:
    edges = {source: numbers.edges.tolist() for source, numbers in value.intervals.items()}
    assert all(edges.values()), "a source without transactions is in the set"
    assert list(edges) == sorted(edges)
    return frozenset(
        (source, n)
        for source, places in edges.items()
        for start, end in zip(places[0::2], places[1::2], strict=True)
        for n in range(start, end)
    )


@pytest.mark.parametrize("between", ["", ",\n"])
@pytest.mark.parametrize("uuid", [A, "12345678-71ca-11e1-9e33-c80aa9429562"])
def test_owned_transactions_are_read_without_their_threads(uuid: str, between: str) -> None:
    """As a server writes them: with nothing between a thread and the next UUID, which may begin with digits."""
    text = f"{uuid}:23#3:7#12{uuid}:tag:1#5{between}{B}:1#40"
    assert GtidSet.parse_owned(text) == GtidSet.parse(f"{uuid}:7:23:tag:1,{B}:1")
    assert GtidSet.parse_owned("") == GtidSet()


@given(plain_sets, plain_sets)
def test_operators_are_those_of_sets(a: Plain, b: Plain) -> None:
    x, y = gtid_set(a), gtid_set(b)
    assert plain(x | y) == a | b
    assert plain(x & y) == a & b
    assert plain(x - y) == a - b
    assert (x <= y) == (a <= b)
    assert (x >= y) == (a >= b)
    assert (x == y) == (a == b)
    assert bool(x) == bool(a)
    assert x.count() == len(a)


@given(plain_sets, plain_sets, plain_sets)
def test_laws(a: Plain, b: Plain, c: Plain) -> None:
    x, y, z = gtid_set(a), gtid_set(b), gtid_set(c)
    assert x | y == y | x
    assert (x | y) | z == x | (y | z)
    assert x | x == x
    assert (x - y) | y == x | y
    assert not (x - y) & y
    assert x & y == x - (x - y)
    assert x & y <= x <= x | y
    assert hash(x | y) == hash(y | x)


@given(plain_sets, pair)
def test_one_more_is_the_union_with_it(a: Plain, more: tuple[Tsid, int]) -> None:
    gtid = Gtid(*more)
    grown = gtid_set(a).with_gtid(gtid)
    assert plain(grown) == a | {more}
    assert grown == gtid_set(a) | gtid_set(frozenset({more}))
    assert gtid in grown
    assert (gtid in gtid_set(a)) == (more in a)


@given(plain_sets, st.sampled_from(SOURCES), st.lists(number, max_size=20))
def test_many_more_are_the_union_with_them(a: Plain, source: Tsid, more: list[int]) -> None:
    grown = gtid_set(a).with_numbers(source, np.array(more, dtype=np.int64))
    assert plain(grown) == a | {(source, n) for n in more}


@given(plain_sets, st.sampled_from(SOURCES), st.lists(number, max_size=20))
def test_membership_of_many_is_that_of_each(a: Plain, source: Tsid, probes: list[int]) -> None:
    value = gtid_set(a)
    inside = value.contains_many(source, np.array(probes, dtype=np.int64))
    assert inside.dtype == np.bool_
    assert inside.tolist() == [(source, n) in a for n in probes]
    assert inside.tolist() == [Gtid(source, n) in value for n in probes]


@given(plain_sets)
def test_text_and_bytes_give_the_set_back(a: Plain) -> None:
    value = gtid_set(a)
    assert GtidSet.parse(str(value)) == value
    assert GtidSet.decode(value.encode()) == value


@given(
    st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(1, 30), st.integers(0, 9)), max_size=15),
    st.randoms(use_true_random=False),
)
def test_one_set_written_in_other_ways_is_one_value(
    ranges: list[tuple[Tsid, int, int]], rng: random.Random
) -> None:
    pieces = [f"{source}:{low}-{low + more}" for source, low, more in ranges]
    singles = [f"{source}:{n}" for source, low, more in ranges for n in range(low, low + more + 1)]
    rng.shuffle(singles)
    loose = [rng.choice((str.upper, str.lower))(text.replace(":", " : ")) for text in singles]
    values = [GtidSet.parse(sep.join(p)) for sep, p in ((",", pieces), (",\n", singles), (" ,,\t ", loose))]
    assert values[0] == values[1] == values[2]
    assert len({str(value) for value in values}) == len(set(values)) == 1


# The integration test also queries a live server for each text.
READ = [
    ("", ""),
    (" \n,, ", ""),
    (A, ""),
    (f"{A.upper().replace('-', '')}:7", f"{A}:7"),
    (f"{{{A}}}:7", f"{A}:7"),
    (f"{A}:5-3", ""),
    (f"{A}:5-0:7", f"{A}:7"),
    (f"{A}:1-5:6:8", f"{A}:1-6:8"),
    (f"{A}:8:1-5:3-6", f"{A}:1-6:8"),
    (f"{A.upper()}:7", f"{A}:7"),
    (f" {A} : 1 - 5 :\n7", f"{A}:1-5:7"),
    (f"{B}:1,{A}:1", f"{A}:1,\n{B}:1"),
    (f"{A}:1-5:tag:1-3:other:7", f"{A}:1-5:other:7:tag:1-3"),
    (f"{A}:Tag:1-3,{A}:1,{A}:TAG:4", f"{A}:1:tag:1-4"),
    (f"{A}:tag:1:tag:2", f"{A}:tag:1-2"),
    (f"{A}:tag", ""),
    (f"{A}:b:1:_:2:a0:3:a_:4:a:5", f"{A}:_:2:a:5:a0:3:a_:4:b:1"),
    (f"{A}:{LARGEST_NUMBER}", f"{A}:{LARGEST_NUMBER}"),
    (f"{A}:1-{LARGEST_NUMBER}", f"{A}:1-{LARGEST_NUMBER}"),
    (f"{A}\n:\t5\r-\v7\f", f"{A}:5-7"),
    (f"\n{A}:1,\n{B}:2\n", f"{A}:1,\n{B}:2"),
    (f",{A}:1,,{A}:2,", f"{A}:1-2"),
    (f"{A}:3-5:4-9:1:6", f"{A}:1:3-9"),
    (f"{A}:tag:9:other", f"{A}:tag:9"),
    (f"{A}:{'T' * 32}:1", f"{A}:{'t' * 32}:1"),
]


@pytest.mark.parametrize(("text", "canonical"), READ)
def test_texts_that_the_server_reads(text: str, canonical: str) -> None:
    assert str(GtidSet.parse(text)) == canonical


REFUSED = [
    ("nonsense", "'nonsense'"),
    (f"{A[:-1]}:1", repr(A[:-1])),
    (f"{A}0:1", repr(A + "0")),
    (f"{{{A}:1", repr("{" + A)),
    (f"{{{A.replace('-', '')}}}:1", repr(A.replace("-", ""))),
    (A.replace("-", "", 1) + ":1", repr(A.replace("-", "", 1))),
    (f"{A}:", "''"),
    (f"{A}:0", "'0'"),
    (f"{A}:0-5", "'0-5'"),
    (f"{A}:-5", "'-5'"),
    (f"{A}:1-", "'1-'"),
    (f"{A}:1-2-3", "'1-2-3'"),
    (f"{A}:1 2", "'1 2'"),
    (f"{A}:{'9' * 5000}", "999"),
    (f"{A}:1;{B}:1", f"'1;{B}'"),
    (f"{A}:1_000", "'1_000'"),
    (f"{A}:\u0661", "'\u0661'"),
    (f"{A}:9tag:1", "'9tag'"),
    (f"{A}:ta-g:1", "'ta-g'"),
    (f"{A}:{'t' * 33}:1", "t" * 33),
    (f"{A}:{LARGEST_NUMBER + 1}", str(LARGEST_NUMBER + 1)),
    (f"{A}:1-{LARGEST_NUMBER + 1}", f"1-{LARGEST_NUMBER + 1}"),
    (f"{A}:1-2,+", "'+'"),
    (f"{A}:+5", "'+5'"),
    (f"{A}:1--2", "'1--2'"),
    (f"{A}:0x10", "'0x10'"),
    (f"{A}:1e3", "'1e3'"),
    (f"{A}:\u00a05", r"'\xa05'"),
    (f"{A}:ta g:1", "'ta g'"),
    (f"{A}:a:", "''"),
    (f"{A}:00", "'00'"),
    (f"{A}:{2**64 + 1}", str(2**64 + 1)),
]

# What 9.7 reads as decimal numbers and older servers as octal ones.
DOUBTFUL = [
    (f"{A}:010", "'010'"),
    (f"{A}:1-010", "'1-010'"),
]


@pytest.mark.parametrize(("text", "piece"), [*REFUSED, *DOUBTFUL])
def test_texts_that_are_no_set_are_refused_with_the_bad_piece(text: str, piece: str) -> None:
    with pytest.raises(MalformedGtid) as refusal:
        GtidSet.parse(f"{B}:1-3,{text},{B}:5")
    assert piece in str(refusal.value)
    assert isinstance(refusal.value, Definite)


def test_the_uuid_of_a_gtid_may_be_spelt_as_in_a_set() -> None:
    assert Gtid.parse(f"{{{A}}}:7") == Gtid.parse(f"{A.replace('-', '')}:7") == Gtid(Tsid(A), 7)


@pytest.mark.parametrize("text", [f"{A}:7", f"{A}:tag:7", f"{B}:{LARGEST_NUMBER}"])
def test_a_gtid_is_the_text_that_names_it(text: str) -> None:
    assert str(Gtid.parse(text)) == text
    assert Gtid.parse(f" {text.upper()}\n") == Gtid.parse(text)
    assert str(GtidSet().with_gtid(Gtid.parse(text))) == text


@pytest.mark.parametrize(
    "text", ["", A, f"{A}:", f"{A}:0", f"{A}:1-2", f"{A}:tag", f"{A}:a:b:1", f"{A}:{LARGEST_NUMBER + 1}"]
)
def test_texts_that_are_no_gtid_are_refused(text: str) -> None:
    with pytest.raises(MalformedGtid):
        Gtid.parse(text)


def test_sources_and_numbers_are_validated() -> None:
    for uuid, tag in (
        (A.upper(), ""),
        ("", ""),
        (A, "Tag"),
        (A, "1"),
        (A, "t" * 33),
        (A + "\n", ""),
        (A, "t\n"),
    ):
        with pytest.raises(MalformedGtid):
            Tsid(uuid, tag)
    for wrong in (0, -1, LARGEST_NUMBER + 1):
        with pytest.raises(MalformedGtid):
            Gtid(Tsid(A), wrong)
        with pytest.raises(MalformedGtid):
            GtidSet().with_numbers(Tsid(A), np.array([5, wrong], dtype=np.int64))


def test_a_source_from_the_bytes_of_an_event() -> None:
    assert Tsid.from_bytes(bytes.fromhex(A.replace("-", "")), "tag") == Tsid(A, "tag")


def test_the_binary_forms() -> None:
    sid = bytes.fromhex(A.replace("-", ""))
    assert GtidSet().encode() == bytes(8)
    untagged = struct.pack("<Q16sQqqqq", 1, sid, 2, 1, 6, 8, 9)
    assert GtidSet.parse(f"{A}:1-5:8").encode() == untagged
    tagged = struct.pack("<Q16sBQqq", 1 << 56 | 2 << 8 | 1, sid, 0, 1, 1, 6)
    tagged += struct.pack("<16sB3sQqq", sid, 6, b"tag", 1, 8, 9)
    assert GtidSet.parse(f"{A}:1-5:tag:8").encode() == tagged
    assert str(GtidSet.decode(tagged)) == f"{A}:1-5:tag:8"


def test_bytes_cut_short_or_run_on_are_refused() -> None:
    encoded = GtidSet.parse(f"{A}:1-5:8,{B}:3:tag:8").encode()
    for length in range(len(encoded)):
        with pytest.raises(MalformedGtid):
            GtidSet.decode(encoded[:length])
    with pytest.raises(MalformedGtid, match="1 bytes after its end"):
        GtidSet.decode(encoded + b"\0")


@pytest.mark.parametrize("edges", [(0, 5), (5, 5), (5, 4), (1, 5, 5, 9), (7, 9, 1, 3), (-3, 5)])
def test_bytes_with_intervals_out_of_order_are_refused(edges: tuple[int, ...]) -> None:
    sid = bytes.fromhex(A.replace("-", ""))
    encoded = struct.pack(f"<Q16sQ{len(edges)}q", 1, sid, len(edges) // 2, *edges)
    with pytest.raises(MalformedGtid, match="in order"):
        GtidSet.decode(encoded)


def test_bytes_of_other_formats_are_refused() -> None:
    sid = bytes.fromhex(A.replace("-", ""))
    one = struct.pack("<16sQqq", sid, 1, 1, 6)
    with pytest.raises(MalformedGtid, match="format 2"):
        GtidSet.decode(struct.pack("<Q", 2 << 56 | 1) + one)
    with pytest.raises(MalformedGtid, match="twice"):
        GtidSet.decode(struct.pack("<Q", 2) + one + one)
    for length, tag in ((3, b"a"), (2, b"A"), (2, b"\xff"), (66, b"a" * 33)):
        with pytest.raises(MalformedGtid):
            GtidSet.decode(struct.pack("<Q16sB", 1 << 56 | 1 << 8 | 1, sid, length) + tag + one[16:])


def test_a_source_without_intervals_in_the_bytes_is_not_in_the_set() -> None:
    sid = bytes.fromhex(A.replace("-", ""))
    assert GtidSet.decode(struct.pack("<Q16sQ", 1, sid, 0)) == GtidSet()


def test_containment_is_a_partial_order() -> None:
    a, b = GtidSet.parse(f"{A}:1-5"), GtidSet.parse(f"{B}:1")
    assert not a <= b
    assert not b <= a
    with pytest.raises(TypeError):
        assert a < b  # type: ignore[operator]


@settings(max_examples=200)
@given(st.text(alphabet="aA_0159:-,{} \n\t" + B[:8], max_size=60), st.data())
def test_any_text_is_a_set_or_refused(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    for whole in (text, f"{text[:at]}{A}:{text[at:]}", f"{A}:1,{text}"):
        try:
            value = GtidSet.parse(whole)
        except MalformedGtid:
            continue
        assert GtidSet.parse(str(value)) == value


@settings(max_examples=200)
@given(plain_sets, st.data())
def test_any_bytes_are_a_set_or_refused(a: Plain, data: st.DataObject) -> None:
    encoded = bytearray(gtid_set(a).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.sampled_from((0, 1, 2, 127, 255)))
    try:
        value = GtidSet.decode(bytes(encoded))
    except MalformedGtid:
        return
    assert GtidSet.decode(value.encode()) == value


# -- huge sets


@cache
def scattered(seed: int, intervals: int) -> GtidSet:
    """A set of as many intervals, short ones with short gaps between them."""
    steps = np.random.default_rng(seed).integers(1, 9, 2 * intervals)
    return GtidSet({Tsid(A): Intervals.of_edges(np.cumsum(steps).astype(np.int64))})


@cache
def of_many_sources(count: int) -> GtidSet:
    return GtidSet.parse(",".join(f"{i:08x}{A[8:]}:{i + 1}" for i in range(count)))


Operation = Callable[[GtidSet, GtidSet], object]

OPERATIONS: dict[str, Operation] = {
    "union": lambda a, b: a | b,
    "intersection": lambda a, b: a & b,
    "subtraction": lambda a, b: a - b,
    "containment": lambda a, b: a <= a | b,
    "equality": lambda a, b: a == a | b,
    "hash": lambda a, _: hash(a),
    "printing": lambda a, _: str(a),
    "parsing": lambda a, _: GtidSet.parse(str(a)),
    "encoding": lambda a, _: GtidSet.decode(a.encode()),
    "one more": lambda a, _: a.with_gtid(Gtid(Tsid(A), LARGEST_NUMBER)).with_gtid(Gtid(Tsid(A), 1)),
    "many more": lambda a, b: a.with_numbers(Tsid(A), b.intervals[Tsid(A)].edges),
    "membership of many": lambda a, b: a.contains_many(Tsid(A), b.intervals[Tsid(A)].edges),
}


def cpu_seconds(operation: Operation, a: GtidSet, b: GtidSet) -> float:
    began = time.thread_time()
    operation(a, b)
    return time.thread_time() - began


def assert_not_quadratic(
    operation: Operation, small: tuple[GtidSet, GtidSet], large: tuple[GtidSet, GtidSet]
) -> None:
    """The large sets are ten times the small ones; what is quadratic takes a hundred times as long.

    A tenth of a second is the memory's, whose pages a large result needs anew each time; what is quadratic takes more
    than that for the small sets already. What else the machine does takes processor time of it now and then, by the
    caches that it empties, but what is quadratic is so each time.
    """
    most = 40 * min(cpu_seconds(operation, *small) for _ in range(3)) + 0.1
    assert any(cpu_seconds(operation, *large) < most for _ in range(3))


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_operation_on_a_million_intervals_is_quadratic(name: str) -> None:
    small, large = ((scattered(1, n), scattered(2, n)) for n in (100_000, 1_000_000))
    assert_not_quadratic(OPERATIONS[name], small, large)


@pytest.mark.parametrize("name", sorted(OPERATIONS.keys() - {"many more", "membership of many"}))
def test_nor_is_one_on_many_sources(name: str) -> None:
    small, large = ((of_many_sources(n), of_many_sources(n + 1)) for n in (1_000, 10_000))
    assert_not_quadratic(OPERATIONS[name], small, large)


def test_a_follower_of_a_huge_set_copies_nothing() -> None:
    """What the stream does for each transaction: its cost isn't that of the set."""
    value = scattered(1, 1_000_000)
    last = value.intervals[Tsid(A)].end
    grown = value.with_gtid(Gtid(Tsid(A), last))
    assert grown.intervals[Tsid(A)].inner is value.intervals[Tsid(A)].inner
    assert grown.count() == value.count() + 1
