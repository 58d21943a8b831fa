"""Signals: Debezium's examples are understood, and nothing else gets through or breaks the parser."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_filter import ALL_TABLES, TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.signals.signal import (
    LONGEST_SIGNAL,
    MOST_NESTED,
    ExecuteSnapshot,
    Filter,
    KeyList,
    MalformedSignal,
    PauseSnapshot,
    ReportPosition,
    ResumeSnapshot,
    SetBinlogPosition,
    Signal,
    SourceSignal,
    StopSnapshot,
    VerifyTables,
    parse_row,
    parse_signal,
    record_id,
)

A = "0a1b2c3d-0000-0000-0000-00000000000a"
B = "0a1b2c3d-0000-0000-0000-00000000000b"


def signal(**fields: Any) -> str:
    return json.dumps({"id": "s1", "type": "execute-snapshot", **fields})


def execute(**data: Any) -> str:
    return signal(data={"data-collections": ["a"], **data})


def filtered(condition: dict[str, Any]) -> str:
    return execute(**{"additional-conditions": [condition]})


def keyed(keys: Any) -> str:
    return execute(keys=[{"data-collection": "a", "keys": keys}])


def position(data: dict[str, Any]) -> str:
    return signal(type="set-binlog-position", data=data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"id":"s1","type":"execute-snapshot","data":{"type":"incremental","data-collections":["shop\\\\.orders"]}}',
            ExecuteSnapshot("s1", TableFilter(("shop\\.orders",))),
        ),
        (
            '{"id":"s1","type":"execute-snapshot","data":{"data-collections":["a.b","c.d"],"type":"INCREMENTAL"}}',
            ExecuteSnapshot("s1", TableFilter(("a.b", "c.d"))),
        ),
        (
            '{"id":"s3","type":"stop-snapshot","data":{"type":"incremental","data-collections":["shop.orders"]}}',
            StopSnapshot("s3", TableFilter(("shop.orders",))),
        ),
        ('{"id":"s3","type":"stop-snapshot","data":{"type":"incremental"}}', StopSnapshot("s3", ALL_TABLES)),
        ('{"id":"s3","type":"stop-snapshot","data":{"data-collections":[]}}', StopSnapshot("s3", ALL_TABLES)),
        ('{"id":"s3","type":"stop-snapshot"}', StopSnapshot("s3", ALL_TABLES)),
        ('{"id":"s4","type":"pause-snapshot","data":{}}', PauseSnapshot("s4")),
        ('{"id":"s5","type":"resume-snapshot"}', ResumeSnapshot("s5")),
        ('{"id":"initial-load","type":"pause-snapshot"}', PauseSnapshot("initial-load")),
        # As Debezium's documentation has them.
        (
            (
                '{"id":"s1","type":"execute-snapshot","data":{"type":"incremental","data-collections":["shop\\\\.orders",'
                '"shop\\\\.c.*"],"additional-conditions":[{"data-collection":"shop\\\\.orders","filter":"status=\'open\'"}],'
                '"surrogate-key":"uid"}}'
            ),
            ExecuteSnapshot(
                "s1",
                TableFilter((r"shop\.orders", r"shop\.c.*")),
                (Filter(TableFilter((r"shop\.orders",)), "status='open'"),),
                surrogate="uid",
            ),
        ),
        (
            '{"id":"s2","type":"execute-snapshot","data":{"type":"blocking","data-collections":["shop.orders"]}}',
            ExecuteSnapshot("s2", TableFilter(("shop.orders",)), blocking=True),
        ),
        ('{"id":"s6","type":"log","data":{"message":"at {}"}}', ReportPosition("s6", "at {}")),
        (
            f'{{"id":"s7","type":"set-binlog-position","data":{{"gtid_set":"{A}:1-100,{B}:1-5"}}}}',
            SetBinlogPosition("s7", GtidSet.parse(f"{A}:1-100,{B}:1-5")),
        ),
        # Ours.
        (
            f'{{"id":"s7","type":"set-binlog-position","data":{{"gtid_set":" {A}:1-5:8-9 ,\\n{B}:tag:7 "}}}}',
            SetBinlogPosition("s7", GtidSet.parse(f"{A}:1-5:8-9,{B}:tag:7")),
        ),
        (
            (
                '{"id":"s8","type":"execute-snapshot","data":{"data-collections":[".*"],"priority":-3,"chunk-rows":500,"rows-per-s":9,'
                '"keys":[{"data-collection":"a.b","keys":[1,"x",[2],[3,"y",{"hex":"00ff"}],1.5]}]}}'
            ),
            ExecuteSnapshot(
                "s8",
                TableFilter((".*",)),
                keys=(KeyList(TableFilter(("a.b",)), ((1,), ("x",), (2,), (3, "y", b"\0\xff"), (1.5,))),),
                chunk_rows=500,
                priority=-3,
                rows_per_s=9,
            ),
        ),
        ('{"id":"s9","type":"verify"}', VerifyTables("s9")),
        (
            (
                '{"id":"s9","type":"verify","data":{"data-collections":["a.b"],"chunk-rows":5,"priority":0,"repair":true,"rows-per-s":7,'
                '"additional-conditions":[{"data-collection":"a.b","filter":"id > 3"}]}}'
            ),
            VerifyTables(
                "s9",
                TableFilter(("a.b",)),
                (Filter(TableFilter(("a.b",)), "id > 3"),),
                chunk_rows=5,
                priority=0,
                repair=True,
                rows_per_s=7,
            ),
        ),
    ],
)
def test_signals_are_read(text: str, expected: Signal) -> None:
    assert parse_signal(text) == expected
    assert parse_signal(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSON"),
        ("[]", "isn't a JSON object"),
        ("[" * 60_000, "JSON"),
        ('{"type":"pause-snapshot"}', 'no "id"'),
        ('{"id":7,"type":"pause-snapshot"}', '"id" isn\'t printable'),
        ('{"id":"","type":"pause-snapshot"}', '"id" isn\'t printable'),
        ('{"id":"restart-7-shop.orders","type":"pause-snapshot"}', "gives such ids to its own snapshots"),
        ('{"id":"protection-7","type":"pause-snapshot"}', "gives such ids to its own snapshots"),
        ('{"id":"\\ud800","type":"pause-snapshot"}', '"id" isn\'t printable'),
        ('{"id":"a","id":"b","type":"pause-snapshot"}', "twice"),
        ('{"id":"s1"}', 'no "type"'),
        (
            signal(type="explode"),
            "there are execute-snapshot, verify, stop-snapshot, recapture, pause-snapshot, resume-snapshot, log, set",
        ),
        (signal(type="execute_snapshot"), "'execute_snapshot'; did you mean execute-snapshot?"),
        (signal(type=["execute-snapshot"]), "no signal of the type"),
        (signal(type="schema-changes"), "'schema-changes' are a connector's own"),
        (signal(type="snapshot-window-open"), "'snapshot-window-open' are a connector's own"),
        (signal(type="log"), '"message" isn\'t text'),
        (signal(type="log", data={"message": 5}), '"message" isn\'t text'),
        (position({}), 'give the GTIDs of all that has been executed up to there as "gtid_set"'),
        (
            position({"binlog_filename": "mysql-bin.000003", "binlog_position": 1234}),
            "an offset aren't taken",
        ),
        (position({"gtid_set": f"{A}:1", "binlog_position": 4}), "an offset aren't taken"),
        (position({"gtid_set": f"{A}:5-x"}), "5-x"),
        (position({"gtid_set": 5}), '"gtid_set" isn\'t text'),
        (position({"gtid_set": " , "}), '"gtid_set" is empty'),
        (position({"gtid": f"{A}:1"}), "unknown fields: 'gtid'"),
        (signal(extra=1, more=2), "'extra', 'more'; there are id, type, data"),
        (r'{"id":"s","type":"log","data":{"message":"\ud800"}}', "surrogates not allowed"),
        (keyed(["\ud800"]), "surrogates not allowed"),
        (signal(data=[]), '"data" isn\'t'),
        (signal(data={}), '"data-collections" isn\'t a list'),
        (signal(data={"data-collections": []}), "at least one"),
        (signal(data={"data-collections": ["ok", 5]}), "something else than printable text"),
        (signal(data={"data-collections": ["("]}), "'(' isn't a regular expression"),
        (signal(data={"data-collections": ["a"], "type": None}), "no snapshot of the type None"),
        (signal(data={"data-collections": [["a"]]}), "something else than printable text"),  # dbz#798
        (signal(data={"data-collections": [None]}), "something else than printable text"),
        (execute(**{"surrogate-key": 5}), '"surrogate-key" isn\'t text'),
        (execute(**{"surrogate-key": ["a"]}), '"surrogate-key" isn\'t text'),
        (
            execute(**{"additional-condition": "a=1"}),
            "unknown fields: 'additional-condition'; did you mean additional-conditions?",
        ),
        (execute(**{"additional-conditions": {}}), '"additional-conditions" isn\'t a list'),
        (execute(**{"additional-conditions": ["a=1"]}), "something else than JSON objects: 'a=1'"),
        (filtered({"data-collection": "a"}), 'an entry of "additional-conditions" has no "filter"'),
        (filtered({"filter": "a=1"}), 'an entry of "additional-conditions" has no "data-collection"'),
        (filtered({"data-collection": "a", "filter": "a=1", "x": 1}), "unknown fields: 'x'"),
        (filtered({"data-collection": "(", "filter": "a=1"}), "'(' isn't a regular expression"),
        (filtered({"data-collection": "a", "filter": ["a=1"]}), '"filter" isn\'t text'),
        (
            filtered({"data-collection": "a", "filter": "a=1; DROP"}),
            "the \"filter\" of 'a' can't be taken: this can't",
        ),
        (
            filtered({"data-collection": "a", "filter": "SELECT * FROM a"}),
            "only what would come after its WHERE",
        ),
        (execute(keys=[1]), "something else than JSON objects: 1"),
        (keyed([]), "the \"keys\" of 'a' aren't a list of at least one"),
        (keyed("1"), "aren't a list"),
        (keyed([[]]), "an empty key"),
        (keyed([[[1]]]), '"keys" holds [1]'),
        (keyed([None]), '"keys" holds None'),
        (keyed([True]), '"keys" holds True'),
        (keyed([{"hex": "0g"}]), '"keys" holds'),
        (keyed([{"hex": "00", "x": 1}]), '"keys" holds'),
        (keyed([1e400]), "is no number"),
        (execute(priority="high"), '"priority" isn\'t a whole number from -1000 to 1000'),
        (execute(priority=1001), '"priority" isn\'t'),
        (execute(priority=None), '"priority" isn\'t'),
        (execute(priority=True), '"priority" isn\'t'),
        (execute(**{"chunk-rows": 0}), '"chunk-rows" isn\'t a whole number from 1'),
        (execute(**{"chunk-rows": 1.5}), '"chunk-rows" isn\'t'),
        (execute(**{"rows-per-s": -1}), '"rows-per-s" isn\'t a whole number from 0'),
        ('{"id":"s","type":"verify","data":{"rows-per-s":1e3}}', '"rows-per-s" isn\'t a whole number from 0'),
        (signal(data={"data-collections": ["a"], "colections": []}), "'colections'"),
        (signal(data={"data-collections": ["x" * LONGEST_SIGNAL]}), "longer than"),
        ('{"id":"s","type":"verify","data":{"keys":[]}}', "'keys'"),
        ('{"id":"s","type":"verify","data":{"repair":1}}', '"repair" isn\'t true or false'),
        ('{"id":"s","type":"pause-snapshot","data":{"data-collections":["a"]}}', "'data-collections'"),
        ('{"id":"s","type":"stop-snapshot","data":{"data-collections":{"a":1}}}', "isn't a list"),
    ],
)
def test_what_is_wrong_is_named(text: str, reason: str) -> None:
    with pytest.raises(MalformedSignal) as refused:
        parse_signal(text)
    assert reason in str(refused.value)


def test_a_refusal_knows_whose_it_is() -> None:
    with pytest.raises(MalformedSignal) as refused:
        parse_signal(signal(type="explode"))
    assert refused.value.id == "s1"


def test_a_given_id_stands_in_only_where_there_is_none() -> None:
    assert parse_signal('{"type":"pause-snapshot"}', "made") == PauseSnapshot("made")
    assert parse_signal('{"id":"own","type":"pause-snapshot"}', "made") == PauseSnapshot("own")


def test_a_row_of_a_signal_table_is_one() -> None:
    assert parse_row(SourceSignal("s4", "pause-snapshot", "")) == PauseSnapshot("s4")
    assert parse_row(SourceSignal("s4", "pause-snapshot", "{}")) == PauseSnapshot("s4")
    assert parse_row(SourceSignal("s6", "log", '{"message": "x"}')) == ReportPosition("s6", "x")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("s1", "log", "{"), 'of its "data", it isn\'t JSON'),
        (("s1", "log", '{"message": "x"}, "id": "other"'), 'of its "data", it isn\'t JSON'),
        (("s1", "log", "[]"), '"data" isn\'t a JSON object'),
        (("s1", "explode", ""), "no signal of the type 'explode'"),
        (("", "log", ""), '"id" isn\'t printable'),
        (("s1", "log", "x" * (LONGEST_SIGNAL + 1)), 'of its "data", it\'s longer than'),
    ],
)
def test_what_is_wrong_with_a_row_is_named(row: tuple[str, str, str], reason: str) -> None:
    with pytest.raises(MalformedSignal) as refused:
        parse_row(SourceSignal(*row))
    assert reason in str(refused.value)
    assert refused.value.id in (row[0], None)


def nested_key(depth: int) -> str:
    """A key that is so many lists in each other, for orders."""
    return f'[{{"data-collection": "orders", "keys": [{"[" * depth}1{"]" * depth}]}}]'


def test_lists_in_each_other_are_refused_however_many() -> None:
    for depth in (*range(850, 1100), MOST_NESTED):
        data = f'{{"data-collections": ["orders"], "keys": {nested_key(depth)}}}'
        with pytest.raises(MalformedSignal) as of_row:
            parse_row(SourceSignal("s1", "execute-snapshot", data))
        with pytest.raises(MalformedSignal) as of_text:
            parse_signal(f'{{"id": "s1", "type": "execute-snapshot", "data": {data}}}')
        assert depth > MOST_NESTED or "deep in each other" in f"{of_row.value}"
        assert depth > MOST_NESTED or "deep in each other" in f"{of_text.value}"


def test_the_deepest_field_is_far_from_that_bound() -> None:
    with pytest.raises(MalformedSignal, match="a key is made of"):
        parse_signal(signal(data={"data-collections": ["orders"], "keys": json.loads(nested_key(3))}))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
# What the data of signals has, each of it good for some signal.
GOOD = {
    "type": "incremental",
    "data-collections": ["a.b"],
    "surrogate-key": "id",
    "additional-conditions": [{"data-collection": "a.b", "filter": "a=1"}],
    "keys": [{"data-collection": "a.b", "keys": [7, ["x", 1]]}],
    "priority": 1,
    "chunk-rows": 500,
    "rows-per-s": 9,
    "repair": True,
    "message": "at {}",
    "gtid_set": f"{A}:1-5",
}
TAKEN = {
    "execute-snapshot": [*GOOD][:8],
    "verify": ["data-collections", "additional-conditions", "priority", "chunk-rows", "rows-per-s", "repair"],
    "stop-snapshot": ["type", "data-collections"],
    "recapture": ["data-collections"],
    "pause-snapshot": ["type"],
    "log": ["message"],
    "set-binlog-position": ["gtid_set"],
}


@st.composite
def nearly(draw: st.DrawFn) -> dict[str, Any]:
    """A signal of which at most one value is anything."""
    kind = draw(st.sampled_from([*TAKEN]))
    data = {name: GOOD[name] for name in TAKEN[kind]}
    whole: dict[str, Any] = {"id": "s1", "type": kind, "data": data}
    of = draw(st.sampled_from([whole, data]))
    of |= draw(st.dictionaries(st.sampled_from([*of]) | st.text(), plain | st.text(), max_size=1))
    return whole


@settings(max_examples=200)
@given(st.binary() | st.text() | plain.map(json.dumps) | nearly().map(json.dumps))
def test_any_text_is_a_signal_or_refused_with_a_reason(text: str | bytes) -> None:
    try:
        parsed = parse_signal(text)
    except MalformedSignal:
        return
    assert parsed.id.encode()


@given(st.text(max_size=20))
def test_any_pattern_is_one_or_refused(pattern: str) -> None:
    try:
        tables = TableFilter((pattern,))
    except ValueError:
        return
    assert tables.match(TableId("a", "b")) in (True, False)


def test_a_pattern_cannot_run_away() -> None:
    assert not TableFilter(("(a+)+b",)).match(TableId("a" * 64, "a" * 64))


@pytest.mark.parametrize("length", [1, 100, 113, 126, 249])
def test_a_record_of_a_topic_of_any_name_has_an_id_of_its_own(length: int) -> None:
    last = 2**63 - 1
    names = ["t" * length, "t" * (length - 1) + "u"]
    ids = [record_id(name, *place) for name in names for place in [(0, 7), (1, 7), (1, 8), (last, last)]]
    assert len(set(ids)) == 8
    for each in ids:
        assert parse_signal('{"type":"pause-snapshot"}', each) == PauseSnapshot(each)
