"""What an alert says, which troubles a status has, and what is kept of them."""

import json
from dataclasses import replace

import pytest

from pipeline.signals.alerts import state as alert_state
from pipeline.signals.alerts.state import LONGEST_REASON, Alert, AlertKind, Trouble, troubles_of
from pipeline.snapshot.snapshot import DROPPED, LEFT_OUT

STOPPED = Trouble(AlertKind.TABLE_STOPPED, "shop.orders", "capture", "its engine")


def test_a_document_has_what_a_chat_shows_and_no_endless_reason() -> None:
    told = Alert(replace(STOPPED, reason="x" * 5000 + "; do this"), 1_795_000_000.0).document("shop")
    assert told.keys() == {"id", "kind", "pipeline", "subject", "part", "reason", "at", "text"}
    assert told["text"].startswith("Tidemark shop: the table shop.orders was stopped (capture): x")
    assert len(told["reason"]) == LONGEST_REASON
    assert told["reason"].endswith("x; do this")
    assert told["at"] == "2026-11-18T11:06:40+00:00"


def test_troubles_are_found_in_a_status() -> None:
    tables = [
        {"database": "shop", "table": "bag", "state": "failed", "reason": "no key"},
        {"database": "shop", "table": "t", "state": "completed"},
        {"database": "shop", "table": "gone", "state": "failed", "reason": f"{DROPPED}: it doesn't exist"},
        {"database": "shop", "table": "left_out", "state": "failed", "reason": LEFT_OUT},
    ]
    status = {
        "stopped": {"shop.a": "why", "shop.left_out": f"{LEFT_OUT}; then begin it again"},
        "snapshots": [
            {"id": "s1", "verification": None, "tables": tables},
            {"id": "v1", "verification": {"since": 7, "narrowed": []}, "tables": tables},
        ],
        "actors": {
            "SparkSink": {
                "tables": {
                    "shop.b": {"stopped": "so", "lasting": True},
                    "shop.c": {"stopped": None, "lasting": False},
                    "shop.retried": {"stopped": "it failed 1 times in a row", "lasting": False},
                }
            },
            "KafkaSink": {"set_aside": {"shop.shop.d": "too large"}},
        },
    }
    assert list(troubles_of(status)) == [
        Trouble(AlertKind.TABLE_STOPPED, "shop.a", "capture", "why"),
        Trouble(AlertKind.TABLE_STOPPED, "shop.b", "lake", "so"),
        Trouble(AlertKind.TOPIC_SET_ASIDE, "shop.shop.d", "kafka", "too large"),
        Trouble(AlertKind.SNAPSHOT_FAILED, "shop.bag", "s1", "no key"),
    ]
    assert not list(troubles_of({**status, "stopped": {}, "snapshots": [], "actors": {"SparkSink": {}}}))


def test_an_alert_has_no_key_of_a_row_that_was_not_read() -> None:
    reason = "it can't be read (not read: through ('ann@example.org',))"
    table = {"database": "shop", "table": "a.b", "state": "failed", "reason": reason}
    status = {
        "stopped": {},
        "snapshots": [{"id": "s1", "verification": None, "tables": [table]}],
        "actors": {"SparkSink": {}},
    }
    assert list(troubles_of(status)) == [
        Trouble(AlertKind.SNAPSHOT_FAILED, "`shop`.`a.b`", "s1", "it can't be read")
    ]


@pytest.mark.parametrize("kept", ["{}", '{"seen": [], "waiting": [["x"]]}', "[]"])
def test_what_was_not_kept_by_this_is_refused(kept: str) -> None:
    with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
        alert_state.from_json(json.loads(kept), 0.0)
