"""Where a connector stopped, in each form in which Connect keeps it."""

import json

import pytest

from pipeline.config.debezium.offsets import NoOffset, stopped_at
from pipeline.gtid.gtid_set import GtidSet

GTIDS = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9"
OFFSET = {"ts_sec": 1, "file": "binlog.000003", "pos": 4, "gtids": GTIDS, "event": 2, "row": 1}
KEY = json.dumps(["shop", {"server": "dbserver1"}])


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"offsets": [{"partition": {"server": "dbserver1"}, "offset": OFFSET}]}).encode(),
        f"{KEY}\t{json.dumps({**OFFSET, 'gtids': 'x'})}\n{KEY}\t{json.dumps(OFFSET)}\n".encode(),
        b"\xac\xed\x00\x05sr\x00\x11java.util.HashMap\x00ur\x00\x02[B\xac\xf3xp\x00\x00\x00\x20"
        + KEY.encode()
        + b"uq\x00~\x00\x02\x00\x00\x00\x70"
        + json.dumps(OFFSET).encode()
        + b"x",
    ],
    ids=["rest", "topic", "file"],
)
def test_each_form_says_it(content: bytes) -> None:
    assert stopped_at(content, "dbserver1") == GtidSet.parse(GTIDS)
    with pytest.raises(NoOffset, match="no offset of a connector"):
        stopped_at(content, "another")


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ("null", "no offset"),
        (json.dumps({**OFFSET, "snapshot": True}), "first snapshot"),
        (
            json.dumps({**OFFSET, "incremental_snapshot_collections": '[{"incremental_snapshot_id":"a.b"}]'}),
            "an incremental snapshot of the connector hasn't ended",
        ),
        (json.dumps({"file": "binlog.000003", "pos": 4}), "no GTIDs"),
        (json.dumps({**OFFSET, "gtids": "0-1-2"}), "other GTIDs"),
    ],
)
def test_what_cannot_be_continued_is_named(record: str, told: str) -> None:
    with pytest.raises(NoOffset, match=told):
        stopped_at(f"{KEY}\t{record}\n".encode(), "dbserver1")
