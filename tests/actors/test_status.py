"""The pace of snapshots, and the picture of a status on a terminal; the rest of it is in test_http.py."""

import io
from typing import Any

from rich.console import Console

from actors.status import PACE_OVER_S, Pace
from actors.status_view import rendered


def test_pace_is_none_until_there_is_something_to_compare() -> None:
    pace = Pace()
    assert pace.per_second() is None
    pace.look(1.0, 100)
    assert pace.per_second() is None
    pace.look(1.0, 100)
    assert pace.per_second() is None
    pace.look(3.0, 300)
    assert pace.per_second() == 100.0


def test_pace_is_that_of_the_last_while() -> None:
    pace = Pace()
    for second in range(100):
        pace.look(float(second), 0 if second < 50 else (second - 50) * 10)
    assert pace.per_second() == 10.0
    assert len(pace._seen) <= PACE_OVER_S + 2


def table(name: str, **fields: Any) -> dict[str, Any]:
    return {"database": "shop", "table": name, "rows": 1500, "given_up": 0, "expected": 6000, **fields}


def test_a_status_is_shown() -> None:
    status = {
        "name": "shop",
        "ready": False,
        "position": "uuid:1-5",
        "delivered_position": None,
        "lag_seconds": 1.25,
        "freshness_seconds": 0.5,
        "paused": True,
        "windows": [{}, {}],
        "stopped": {"shop.odd": "[no] primary key"},
        "snapshots": [
            {
                "id": "s1",
                "tables": [
                    table("orders", state="chunking", rows_per_second=100.0, left_seconds=45.0),
                    table("gone", state="failed", reason="it was dropped"),
                ],
            }
        ],
        "actors": {
            "SparkSink": {
                "state": "restarting",
                "mailbox": {"depth": 1, "capacity": 1},
                "restarts": 3,
                "last_failure": "SparkSink: the JVM ended",
            }
        },
    }
    out = Console(file=io.StringIO(), width=160)
    out.print(rendered(status))
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    for shown in (
        "not ready",
        "1.2 s",
        "0.5 s",
        "paused",
        "[no] primary key",
        "1,500",
        "0:00:45",
        "it was dropped",
        "restarting",
        "SparkSink: the JVM ended",
    ):
        assert shown in text
    assert "delivered" not in text
