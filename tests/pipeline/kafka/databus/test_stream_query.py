"""A request in Databus' parameters says where it begins, and a wrong one names the parameter and the remedy."""

import json

import pytest

from pipeline.errors import Definite
from pipeline.journal.changes.key_filter import KeyFilter
from pipeline.journal.changes.query import NamedPlace
from pipeline.kafka.databus.source_filters import KeySpan
from pipeline.kafka.databus.stream_query import (
    EventEncoding,
    StreamQuery,
    WindowPlace,
    parse_stream_query,
    parse_window,
)

ASKED = {"sources": "7", "size": "1000", "output": "json"}
WHOLE = '{"windowScn": 345, "windowOffset": -1, "prevScn": 340, "tsNsecs": 7}'
MULT = json.dumps({'{"id":0,"name":"*"}': WHOLE})


def test_all_that_can_be_said() -> None:
    asked = {**ASKED, "checkPoint": WHOLE, "output": "Binary", "key_modulo": "2:1", "maxev": "1"}
    assert parse_stream_query(asked) == StreamQuery(
        ("7",), WindowPlace(345), 1000, EventEncoding.BINARY, KeyFilter(divisor=2, remainders=frozenset({1}))
    )
    filters = '{"7": {"partitionType": "RANGE", "filters": [{"keyRange": {"start": 1, "end": 9}}]}}'
    subs = '[{"logicalPartition": {"source": {"id": 7}}}]'
    asked = {"subs": subs, "size": "9", "output": "json", "filters": filters, "checkPointMult": MULT}
    assert parse_stream_query(asked) == StreamQuery(
        ("7",), WindowPlace(345), 9, EventEncoding.JSON, None, {7: (KeySpan(1, 9),)}
    )
    latest = parse_stream_query({**ASKED, "streamFromLatestScn": "true"})
    assert latest.place == WindowPlace(NamedPlace.NOW)


@pytest.mark.parametrize(
    ("scn", "offset", "place"),
    [
        (345, -1, WindowPlace(345)),
        (345, 0, WindowPlace(344, 345, 0)),
        (345, 12, WindowPlace(344, 345, 12)),
        (0, -1, WindowPlace(0)),
        (-1, -1, WindowPlace(NamedPlace.EARLIEST)),
    ],
)
def test_a_checkpoint_is_a_place_amid_or_after_a_window(scn: int, offset: int, place: WindowPlace) -> None:
    assert parse_window(json.dumps({"windowScn": scn, "windowOffset": offset})) == place


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"psubs": "7"}, "psubs: there is no such parameter; there are sources"),
        ({"subs": "[{}]"}, "subs: give either sources or subs"),
        ({"checkPoint": WHOLE, "checkPointMult": MULT}, "checkPointMult: give either checkPoint or"),
        ({"checkPointMult": '{"{}": "345"}'}, "checkPoint: it is no object"),
        ({"checkPoint": WHOLE, "filters": "7"}, "filters: it is no object"),
        ({"checkPoint": WHOLE, "filters": "{}", "key_range": "1.."}, "filters: give either it, or key_range"),
        ({"sources": ""}, "sources: it is missing"),
        ({"output": "xml"}, "output: 'xml' is none of json, binary"),
        ({"size": "0"}, "size: '0' is no number of bytes from 1 to"),
        ({"size": "1e9"}, "size: '1e9' is no number"),
        ({"streamFromLatestScn": "yes"}, "streamFromLatestScn: 'yes' is neither true nor false"),
        ({}, "checkPoint: it is missing; give .*, or streamFromLatestScn=true"),
        ({"checkPoint": "345"}, "checkPoint: it is no object"),
        ({"checkPoint": "{"}, "checkPoint: it isn't JSON"),
        ({"checkPoint": "[" * 4000}, "checkPoint: it isn't JSON"),
        ({"size": "9" * 5000}, "size: .* is no number of bytes"),
        ({"checkPoint": '{"windowScn": 1}'}, "checkPoint: windowOffset is null, and no number"),
        ({"checkPoint": '{"windowScn": -2, "windowOffset": -1}'}, "checkPoint: windowScn is -2"),
        ({"checkPoint": '{"windowScn": true, "windowOffset": -1}'}, "checkPoint: windowScn is true"),
        ({"checkPoint": '{"windowScn": 0, "windowOffset": 1}'}, "checkPoint: there is no window 0"),
        ({"checkPoint": WHOLE, "key_modulo": "x"}, "key_modulo: 'x' is no modulo"),
    ],
)
def test_a_wrong_parameter_is_named(asked: dict[str, str], said: str) -> None:
    with pytest.raises(Definite, match=said):
        parse_stream_query({**ASKED, **asked})
