"""The picture of a status on a terminal; what it says is in test_http.py and test_pace.py."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from actors.service.commands.terminal_status import show, status_tables


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
                "beside": {"work": "merge", "table": "shop.big"},
                "state": "restarting",
                "mailbox": {"depth": 1, "capacity": 1},
                "restarts": 3,
                "last_failure": "SparkSink: the JVM ended",
            },
            "KafkaSink": {
                "set_aside": {"shop.shop.wide": "a message is larger than its topic takes"},
                "state": "running",
                "mailbox": {"depth": 0, "capacity": 1},
                "restarts": 0,
                "last_failure": None,
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
        "set aside shop.shop.wide      a message is larger than its topic takes",
        "db:3306",
        "0a1b2c3d-0000-0000-0000-00000000000a",
        "shop.log, shop.audit",
        "1,200 segments behind",
        "shop.bag",
        "shop.half",
        "65 threads run on the source",
        "its quota is reached",
        "beside batches                merge shop.big",
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


def a_status() -> dict[str, Any]:
    """What /status says of a snapshot of tables with long names."""
    counts = {"state": "chunking", "rows": 1_200, "given_up": 3, "expected": 9_000, "rows_per_second": 300.0}
    more = {"left_seconds": 26.0, "ranges": 4, "ranges_done": 1, "windows": 2}
    tables = [
        {"database": "sakila_production", "table": f"customer_address_{at}", **counts, **more}
        for at in (1, 2)
    ]
    told = dict.fromkeys(("source", "server", "position", "delivered_position", "busy", "no_room"))
    return {
        "name": "shop",
        "ready": True,
        "lag_seconds": 0.1,
        "freshness_seconds": None,
        "windows": [],
        "paused": False,
        "snapshots": [{"id": "initial-1", "tables": tables, **counts, **more}],
        "actors": {},
        "stopped": {},
        "keyless": [],
        "consumers": {},
        "late": [],
        "rebuilding": [],
        **told,
    }


def test_no_name_is_cut_at_80_columns() -> None:
    out = Console(width=80, file=io.StringIO())
    out.print(status_tables(a_status(), 80))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    (head,) = [line for line in lines if line.startswith("snapshot ")]
    column = slice(head.index("table"), head.index("state"))
    names = "".join(line[column].strip() for line in lines)
    assert "sakila_production.customer_address_1sakila_production.customer_address_2" in names


def test_in_a_pipe_a_long_reason_pads_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(iter([{**a_status(), "stopped": {"shop.t": "so " * 100}}]))
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("stopped shop.t  so so ") for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_name_with_a_dot_is_quoted() -> None:
    out = Console(width=200, file=io.StringIO())
    status = a_status()
    status["snapshots"][0]["tables"][0] |= {"database": "biz", "table": "odd name.é"}
    out.print(status_tables(status, 200))
    assert "`biz`.`odd name.é`" in out.file.getvalue()  # type: ignore[attr-defined]


def test_no_name_or_reason_commands_the_terminal() -> None:
    """Whoever may make a table in the source chooses its name."""
    out = Console(width=200, file=io.StringIO())
    status = a_status()
    status["snapshots"][0]["tables"][0] |= {"table": "a\x1b[2Jb"}
    status |= {"stopped": {"shop.`\x1b]0;t\x07`": "\x9b1m"}, "position": "a:1-7,\nb:1"}
    out.print(status_tables(status, 200))
    text = out.file.getvalue()  # type: ignore[attr-defined]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert r"a\x1b[2Jb" in text and r"\x1b]0;t\x07" in text and r"\x9b1m" in text


def test_a_verification_has_its_last_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    status = a_status()
    result = {"verdict": "different", "rows": 9, "found": {"missing": 1}, "position": "a:1-7", "reason": ""}
    again = {**result, "verdict": "equal", "found": {}, "at": 1796000000.0}
    results = [
        {**result, "at": 1796000000.0, "repaired": None},
        {**result, "at": 1.0, "repaired": again},
        None,
    ]
    tables = [table(f"t{at}", state="completed", result=each) for at, each in enumerate(results)]
    status["snapshots"].append({"id": "v1", "verification": {"since": 7, "narrowed": []}, "tables": tables})
    show(iter([status]))
    lines = capsys.readouterr().out.splitlines()
    (begin,) = [at for at, line in enumerate(lines) if line.startswith("verification ")]
    for line, said in zip(
        lines[begin + 1 :],
        (
            "v1            shop.t0  different, 1 missing (2026-11-30 00:53:20 UTC)",
            "v1            shop.t1  repaired (2026-11-30 00:53:20 UTC)",
            "v1            shop.t2  to be compared",
        ),
        strict=False,
    ):
        assert line.startswith(said)
    assert not any("v1" in line for line in lines[:begin])


def test_a_verification_of_an_older_service_has_its_state(capsys: pytest.CaptureFixture[str]) -> None:
    status = a_status()
    for id_ in ("v1", "v2"):
        tables = [table("t0", state="completed")]
        status["snapshots"].append({"id": id_, "verification": {"since": 7}, "tables": tables})
    show(iter([status]))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "shop.t0" in line]
    assert line.startswith("v2            shop.t0  completed")


def test_in_a_pipe_each_table_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show(iter([a_status()]))
    lines = capsys.readouterr().out.splitlines()
    for at in (1, 2):
        (line,) = [line for line in lines if f"sakila_production.customer_address_{at}" in line]
        assert "1,203" in line and "1/4" in line
