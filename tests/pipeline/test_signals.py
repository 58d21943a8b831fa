"""Signals: Debezium's examples are understood, and nothing else gets through or breaks the parser."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.schema import TableId
from pipeline.signals import (
    ALL_TABLES,
    LONGEST,
    ExecuteSnapshot,
    MalformedSignal,
    PauseSnapshot,
    ResumeSnapshot,
    Signal,
    StopSnapshot,
    Tables,
    parse,
)


def signal(**fields: Any) -> str:
    return json.dumps({"id": "s1", "type": "execute-snapshot", **fields})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"id":"s1","type":"execute-snapshot","data":{"type":"incremental","data-collections":["shop\\\\.orders"]}}',
            ExecuteSnapshot("s1", Tables(("shop\\.orders",))),
        ),
        (
            '{"id":"s1","type":"execute-snapshot","data":{"data-collections":["a.b","c.d"],"type":"INCREMENTAL"}}',
            ExecuteSnapshot("s1", Tables(("a.b", "c.d"))),
        ),
        (
            '{"id":"s3","type":"stop-snapshot","data":{"type":"incremental","data-collections":["shop.orders"]}}',
            StopSnapshot("s3", Tables(("shop.orders",))),
        ),
        ('{"id":"s3","type":"stop-snapshot","data":{"type":"incremental"}}', StopSnapshot("s3", ALL_TABLES)),
        ('{"id":"s3","type":"stop-snapshot","data":{"data-collections":[]}}', StopSnapshot("s3", ALL_TABLES)),
        ('{"id":"s4","type":"pause-snapshot","data":{}}', PauseSnapshot("s4")),
        ('{"id":"s5","type":"resume-snapshot"}', ResumeSnapshot("s5")),
    ],
)
def test_signals_are_read(text: str, expected: Signal) -> None:
    assert parse(text) == expected
    assert parse(text.encode()) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "JSON"),
        ("[]", "isn't a JSON object"),
        ("[" * 60_000, "JSON"),
        ('{"type":"pause-snapshot"}', 'no "id"'),
        ('{"id":7,"type":"pause-snapshot"}', '"id" isn\'t printable'),
        ('{"id":"","type":"pause-snapshot"}', '"id" isn\'t printable'),
        ('{"id":"\\ud800","type":"pause-snapshot"}', '"id" isn\'t printable'),
        ('{"id":"a","id":"b","type":"pause-snapshot"}', "twice"),
        ('{"id":"s1"}', 'no "type"'),
        (signal(type="explode"), "no signal of the type 'explode'"),
        (signal(type=["execute-snapshot"]), "no signal of the type"),
        (signal(type="set-binlog-position"), "'set-binlog-position' aren't supported yet"),
        (signal(extra=1, more=2), "'extra', 'more'"),
        (signal(data=[]), '"data" isn\'t'),
        (signal(data={}), '"data-collections" isn\'t a list'),
        (signal(data={"data-collections": []}), "at least one"),
        (signal(data={"data-collections": ["ok", 5]}), "something else than printable text"),
        (signal(data={"data-collections": ["("]}), "'(' isn't a regular expression"),
        (signal(data={"data-collections": ["a"], "type": "blocking"}), "blocking"),
        (signal(data={"data-collections": ["a"], "type": None}), "no snapshot of the type None"),
        (
            signal(data={"data-collections": ["a"], "surrogate-key": "uid"}),
            '"surrogate-key" isn\'t supported',
        ),
        (signal(data={"data-collections": ["a"], "additional-conditions": []}), '"additional-conditions"'),
        (signal(data={"data-collections": ["a"], "colections": []}), "'colections'"),
        (signal(data={"data-collections": ["x" * LONGEST]}), "longer than"),
        ('{"id":"s","type":"pause-snapshot","data":{"data-collections":["a"]}}', "'data-collections'"),
        ('{"id":"s","type":"stop-snapshot","data":{"data-collections":{"a":1}}}', "isn't a list"),
    ],
)
def test_what_is_wrong_is_named(text: str, reason: str) -> None:
    with pytest.raises(MalformedSignal) as refused:
        parse(text)
    assert reason in str(refused.value)


def test_a_refusal_knows_whose_it_is() -> None:
    with pytest.raises(MalformedSignal) as refused:
        parse(signal(type="explode"))
    assert refused.value.id == "s1"


def test_a_given_id_stands_in_only_where_there_is_none() -> None:
    assert parse('{"type":"pause-snapshot"}', "made") == PauseSnapshot("made")
    assert parse('{"id":"own","type":"pause-snapshot"}', "made") == PauseSnapshot("own")


def test_patterns_match_whole_names_only() -> None:
    tables = Tables(("shop\\.orders", "crm\\..*"))
    assert tables.match(TableId("shop", "orders"))
    assert tables.match(TableId("crm", "people"))
    assert not tables.match(TableId("shop", "orders_old"))
    assert not tables.match(TableId("myshop", "orders"))
    assert ALL_TABLES.match(TableId("odd", "a\nb"))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
nearly = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=3) | plain,
        "type": st.sampled_from(["execute-snapshot", "stop-snapshot", "pause-snapshot", "log"]) | plain,
        "data": st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["incremental", "blocking"]) | plain,
                "data-collections": st.lists(st.text()) | plain,
                "surrogate-key": plain,
            },
        )
        | plain,
    },
)


@given(st.binary() | st.text() | plain.map(json.dumps) | nearly.map(json.dumps))
def test_any_text_is_a_signal_or_refused_with_a_reason(text: str | bytes) -> None:
    try:
        parsed = parse(text)
    except MalformedSignal:
        return
    assert parsed.id.encode()


@given(st.text(max_size=20))
def test_any_pattern_is_one_or_refused(pattern: str) -> None:
    try:
        tables = Tables((pattern,))
    except ValueError:
        return
    assert tables.match(TableId("a", "b")) in (True, False)


def test_a_pattern_cannot_run_away() -> None:
    assert not Tables(("(a+)+b",)).match(TableId("a" * 64, "a" * 64))
