"""The picture of a status on a terminal; what it says is in test_http.py and test_pace.py."""

import io
from typing import Any

from rich.console import Console

from actors.service.terminal_status import status_tables


def table(name: str, **fields: Any) -> dict[str, Any]:
    told = {
        "database": "shop",
        "table": name,
        "rows": 1400,
        "given_up": 100,
        "expected": 6000,
        "ranges": 0,
        "ranges_done": 0,
        "windows": 0,
        "rows_per_second": None,
        "left_seconds": None,
    }
    return {**told, **fields}


def test_a_status_is_shown() -> None:
    status = {
        "name": "shop",
        "ready": False,
        "position": "uuid:1-5",
        "delivered_position": None,
        "lag_seconds": 1.25,
        "freshness_seconds": 0.5,
        "paused": True,
        "busy": "65 threads run on the source",
        "no_room": "its quota is reached",
        "windows": [{}, {}],
        "stopped": {"shop.odd": "[no] primary key"},
        "keyless": ["shop.log", "shop.audit"],
        "consumers": {"lake": {"segment": 7, "behind": 1200}},
        "late": ["shop.bag"],
        "rebuilding": {"shop.half": 7.0},
        "snapshots": [
            {
                **table("", id="s1", state="paused", rows=2900, left_seconds=3700.0),
                "tables": [
                    table(
                        "orders",
                        state="chunking",
                        ranges=8,
                        ranges_done=3,
                        windows=2,
                        rows_per_second=1234.5,
                        left_seconds=45.0,
                    ),
                    table("gone", state="failed", reason="it was dropped"),
                ],
            }
        ],
        "actors": {
            "BinlogReader": {
                "state": "running",
                "mailbox": {"depth": 0, "capacity": 1},
                "restarts": 0,
                "last_failure": None,
                "source": "db:3306",
                "server": "0a1b2c3d-0000-0000-0000-00000000000a",
            },
            "SparkSink": {
                "tables": {"shop.bad": {"stopped": "another key"}, "shop.good": {"stopped": None}},
                "state": "restarting",
                "mailbox": {"depth": 1, "capacity": 1},
                "restarts": 3,
                "last_failure": "SparkSink: the JVM ended",
            },
        },
    }
    out = Console(file=io.StringIO(), width=160)
    out.print(status_tables(status))
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    for shown in (
        "not ready",
        "1.2 s",
        "0.5 s",
        "paused",
        "[no] primary key",
        "stopped in the lake shop.bad  another key",
        "db:3306",
        "0a1b2c3d-0000-0000-0000-00000000000a",
        "shop.log, shop.audit",
        "1,200 segments behind",
        "shop.bag",
        "shop.half",
        "65 threads run on the source",
        "its quota is reached",
        "1,500",
        "3/8",
        "1,234",
        "0:00:45",
        "3,000",
        "1:01:40",
        "it was dropped",
        "restarting",
        "SparkSink: the JVM ended",
    ):
        assert shown in text
    assert "delivered" not in text
    assert "shop.good" not in text
