"""GTID sets against plain Python sets of (source, number), and the texts and bytes that they're read from."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import Definite
from pipeline.gtid import LARGEST_NUMBER, Gtid, GtidSet, MalformedGtid, Source

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "a0b1c2d3-0000-4000-8000-000000000001"

SOURCES = [Source(uuid, tag) for uuid in (A, B) for tag in ("", "_x", "batch", "batch2")]

Plain = frozenset[tuple[Source, int]]

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
def test_one_more_is_the_union_with_it(a: Plain, more: tuple[Source, int]) -> None:
    gtid = Gtid(*more)
    grown = gtid_set(a).with_gtid(gtid)
    assert plain(grown) == a | {more}
    assert grown == gtid_set(a) | gtid_set(frozenset({more}))
    assert gtid in grown
    assert (gtid in gtid_set(a)) == (more in a)


@given(plain_sets, st.sampled_from(SOURCES), st.lists(number, max_size=20))
def test_many_more_are_the_union_with_them(a: Plain, source: Source, more: list[int]) -> None:
    grown = gtid_set(a).with_numbers(source, np.array(more, dtype=np.int64))
    assert plain(grown) == a | {(source, n) for n in more}


@given(plain_sets, st.sampled_from(SOURCES), st.lists(number, max_size=20))
def test_membership_of_many_is_that_of_each(a: Plain, source: Source, probes: list[int]) -> None:
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
    ranges: list[tuple[Source, int, int]], rng: random.Random
) -> None:
    pieces = [f"{source}:{low}-{low + more}" for source, low, more in ranges]
    singles = [f"{source}:{n}" for source, low, more in ranges for n in range(low, low + more + 1)]
    rng.shuffle(singles)
    loose = [rng.choice((str.upper, str.lower))(text.replace(":", " : ")) for text in singles]
    values = [GtidSet.parse(sep.join(p)) for sep, p in ((",", pieces), (",\n", singles), (" ,,\t ", loose))]
    assert values[0] == values[1] == values[2]
    assert len({str(value) for value in values}) == len(set(values)) == 1


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
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
    ],
)
def test_texts_that_the_server_reads(text: str, canonical: str) -> None:
    assert str(GtidSet.parse(text)) == canonical


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("nonsense", "'nonsense'"),
        (f"{A[:-1]}:1", repr(A[:-1])),
        (f"{A}0:1", repr(A + "0")),
        (f"{{{A}:1", repr("{" + A)),
        (f"{{{A.replace('-', '')}}}:1", repr(A.replace("-", ""))),
        (A.replace("-", "", 1) + ":1", repr(A.replace("-", "", 1))),
        (f"{A}:010", "'010'"),
        (f"{A}:1-010", "'1-010'"),
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
    ],
)
def test_texts_that_are_no_set_are_refused_with_the_bad_piece(text: str, piece: str) -> None:
    with pytest.raises(MalformedGtid) as refusal:
        GtidSet.parse(f"{B}:1-3,{text},{B}:5")
    assert piece in str(refusal.value)
    assert isinstance(refusal.value, Definite)


def test_the_uuid_of_a_gtid_may_be_spelt_as_in_a_set() -> None:
    assert Gtid.parse(f"{{{A}}}:7") == Gtid.parse(f"{A.replace('-', '')}:7") == Gtid(Source(A), 7)


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
            Source(uuid, tag)
    for wrong in (0, -1, LARGEST_NUMBER + 1):
        with pytest.raises(MalformedGtid):
            Gtid(Source(A), wrong)
        with pytest.raises(MalformedGtid):
            GtidSet().with_numbers(Source(A), np.array([5, wrong], dtype=np.int64))


def test_a_source_from_the_bytes_of_an_event() -> None:
    assert Source.from_bytes(bytes.fromhex(A.replace("-", "")), "tag") == Source(A, "tag")


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
