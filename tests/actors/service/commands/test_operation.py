"""What an operator's commands send to a service and say of its answer. With one:
tests/integration/service/test_run.py."""

import json
from pathlib import Path
from typing import Any

import pytest

from actors.journal.store import JournalStore
from actors.runtime.supervisor import ExitCode
from actors.service import client
from actors.service.client import address_file
from actors.service.commands import operation
from actors.service.config_file import load
from pipeline.errors import Transient
from pipeline.snapshot.snapshot import DROPPED
from tests.actors.service.command_line import answering, tidemark


def test_pause_takes_no_tables(config: Path) -> None:
    told = tidemark("signal", config, "pause", "--tables", "a")
    assert told.exit_code == ExitCode.DEFINITE
    assert "takes no --tables" in told.output


def test_recapture_is_of_the_tables_that_are_named(config: Path) -> None:
    told = tidemark("signal", config, "recapture")
    assert told.exit_code == ExitCode.DEFINITE
    assert "recapture needs --tables" in told.output
    file = address_file(load(config, {}))
    file.parent.mkdir()
    posted: list[Any] = []
    with answering(200, '{"id": "r1", "detail": "recapture of shop.a, which had stopped"}', posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("signal", config, "recapture", "-t", r"shop\.a", "--id", "r1")
    assert told.output == "r1: recapture of shop.a, which had stopped\n"
    assert posted == [{"type": "recapture", "data": {"data-collections": [r"shop\.a"]}, "id": "r1"}]


def test_an_empty_id_is_left_to_the_service_to_reject(config: Path) -> None:
    """A shell's variable that isn't set: with another id each time, a signal would take effect each time."""
    file = address_file(load(config, {}))
    file.parent.mkdir()
    posted: list[Any] = []
    with answering(422, '{"error": "no id"}', posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("signal", config, "execute", "--id", "")
    assert (told.exit_code, told.output) == (1, "tidemark: no id\n")
    assert [each["id"] for each in posted] == [""]


def test_a_snapshot_may_hold_the_log_and_nothing_else_may(config: Path) -> None:
    told = tidemark("signal", config, "stop", "--blocking")
    assert told.exit_code == ExitCode.DEFINITE
    assert "stop takes no --blocking" in told.output
    file = address_file(load(config, {}))
    file.parent.mkdir()
    posted: list[Any] = []
    with answering(200, '{"id": "s1", "detail": "snapshot of shop.a"}', posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        for more in ([], ["--blocking"]):
            tidemark("signal", config, "execute", "-t", r"shop\.a", *more)
    assert [signal["data"]["type"] for signal in posted] == ["incremental", "blocking"]


def test_without_tables_all_are_meant_though_a_pattern_of_the_file_matches_none(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pattern of a signal has to match a table. Those of a file needn't."""
    monkeypatch.setenv("TIDEMARK__TABLES", r'["shop\\.a", "crm\\..*"]')
    file = address_file(load(config, {}))
    file.parent.mkdir()
    posted: list[Any] = []
    body = {"id": "v1", "detail": "", **known("v1")}
    with answering(200, json.dumps(body), posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        for action in ("execute", "stop"):
            assert tidemark("signal", config, action).exit_code == ExitCode.CLEAN
        assert tidemark("verify", config, "--where", "id > 3").exit_code == ExitCode.CLEAN
    assert [signal["data"]["data-collections"] for signal in posted] == [[".*"]] * 3
    assert posted[2]["data"]["additional-conditions"] == [{"data-collection": ".*", "filter": "id > 3"}]


def known(id_: str, *results: dict[str, Any] | None) -> dict[str, Any]:
    """What /snapshots says of a verification whose rows are all read."""
    tables = [
        {"database": "shop", "table": f"t{at}", "state": "completed", "rows": 3, "result": each}
        for at, each in enumerate(results)
    ]
    return {"snapshots": [{"id": id_, "tables": tables}]}


def result(verdict: str, repaired: str | None = None, reason: str = "") -> dict[str, Any]:
    of = {"rows": 3, "found": {}, "position": "a:1-7", "reason": reason, "at": 5.0}
    again = None if repaired is None else {"verdict": repaired, **of}
    return {"verdict": verdict, **of, "repaired": again}


DROPPED_TABLE = result("unjudged", reason=f"{DROPPED}: Table 'shop.t1' doesn't exist")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([result("equal"), result("equal")], 0),
        ([result("equal"), result("different")], 1),
        ([result("different", "equal"), result("equal")], 0),
        ([result("different", "different"), result("equal")], 1),
        ([result("equal"), result("unjudged")], 2),
        ([result("different"), result("unjudged")], 1),
        ([result("equal"), DROPPED_TABLE], 0),
        ([result("different", reason=DROPPED), result("equal")], 0),
        ([result("unjudged"), DROPPED_TABLE], 2),
        ([DROPPED_TABLE, DROPPED_TABLE], 2),
    ],
)
def test_a_verification_exits_with_what_it_found(
    results: list[dict[str, Any]], code: int, config: Path
) -> None:
    file = address_file(load(config, {}))
    file.parent.mkdir()
    body = {"id": "v1", **known("v1", *results)}
    posted: list[Any] = []
    with answering(200, json.dumps(body), posted) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("verify", config, "--repair", "--rows-per-s", "9", "-t", "a", "--where", "id > 3")
    assert told.exit_code == code
    assert told.output.splitlines()[0].startswith(f"shop.t0: {results[0]['verdict']}, 3 rows read")
    data = {"data-collections": ["a"], "repair": True, "rows-per-s": 9}
    data["additional-conditions"] = [{"data-collection": "a", "filter": "id > 3"}]
    assert posted == [{"type": "verify", "data": data}]


def test_no_name_reason_or_error_commands_the_terminal(config: Path) -> None:
    """Whoever may make a table in the source chooses its name."""
    file = address_file(load(config, {}))
    file.parent.mkdir()
    body = {"id": "v1", **known("v1", result("different", reason="so \x1b[1m"))}
    body["snapshots"][0]["tables"][0]["table"] = "a\x1b[2Jb"
    with answering(200, json.dumps(body), []) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("verify", config)
    assert told.output == "shop.a\\x1b[2Jb: different, 3 rows read, so \\x1b[1m, at a:1-7\n"
    with answering(422, json.dumps({"error": "two lines:\nno `\x1b[2J`"}), []) as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        for command in ("signal", "verify"):
            told = tidemark(command, config, *(["execute"] if command == "signal" else []))
            assert told.output == "tidemark: two lines:\nno `\\x1b[2J`\n"


@pytest.mark.parametrize(("patience_s", "code"), [(60.0, 0), (0.0, 2)])
def test_a_verification_outlasts_a_service_that_fails_to_answer(
    patience_s: float, code: int, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, Any] | Transient] = [
        known("v1", result("equal")),
        known("v1", None),
        {"snapshots": []},
    ]
    answers += [Transient("too many requests at once")] * 3

    def get(*_: object) -> dict[str, Any]:
        if isinstance(answer := answers.pop(), Transient):
            raise answer
        return answer

    monkeypatch.setattr(client, "get", get)
    monkeypatch.setattr(client, "post", lambda *_: (200, {"id": "v1"}))
    monkeypatch.setattr(operation, "RESULT_PATIENCE_S", patience_s)
    told = tidemark("verify", config)
    assert told.exit_code == code
    said = "shop.t0: equal, 3 rows read" if code == 0 else "tidemark: too many requests at once"
    assert said in told.output


def test_a_table_that_the_lake_fails_to_take_holds_up_no_result_of_another(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake tries that table again without an end, and its rows can be compared no earlier."""
    read = known("v1", result("equal"), None)
    reading = known("v1", result("equal"), None)
    reading["snapshots"][0]["tables"][1]["state"] = "chunking"
    why = "it failed 7 times in a row and is tried again: no permission"
    stopped = [None, None, why]
    asked: list[str] = []

    def get(_: object, path: str) -> dict[str, Any]:
        asked.append(path)
        if path == "/snapshots":
            return reading if asked.count("/tables") == 0 else read
        lacks = stopped[asked.count("/tables") - 1]
        return {"tables": [{"table": f"shop.t{at}", "lake": {"stopped": lacks}} for at in range(2)]}

    monkeypatch.setattr(client, "get", get)
    monkeypatch.setattr(client, "post", lambda *_: (200, {"id": "v1"}))
    monkeypatch.setattr(operation, "RESULT_PATIENCE_S", 0.01)
    monkeypatch.setattr(operation, "RESULT_EVERY_S", 0.02)
    told = tidemark("verify", config)
    assert told.exit_code == 2
    assert told.output.splitlines() == [
        "shop.t0: equal, 3 rows read, at a:1-7",
        f"shop.t1: unjudged, 3 rows read, the lake doesn't have its changes: {why}",
    ]
    assert asked.count("/tables") == len(stopped)


def test_a_verification_that_the_service_has_forgotten_has_no_result(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "get", lambda *_: known("v2", result("equal")))
    monkeypatch.setattr(client, "post", lambda *_: (200, {"id": "v1"}))
    told = tidemark("verify", config)
    assert told.exit_code == 2
    assert "the service has forgotten the verification v1" in told.output


def test_a_service_of_an_older_version_has_no_result(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = {"database": "shop", "table": "t0"}
    monkeypatch.setattr(client, "get", lambda *_: {"snapshots": [{"id": "v1", "tables": [table]}]})
    monkeypatch.setattr(client, "post", lambda *_: (200, {"id": "v1"}))
    told = tidemark("verify", config)
    assert told.exit_code == 2
    assert "doesn't say what the verification v1 finds; restart it with this version" in told.output


@pytest.mark.parametrize("more", [["--every", "daily"], ["--every", "0s"], ["--rows-per-s", "0"]])
def test_a_wrong_option_of_a_verification_is_named(more: list[str], config: Path) -> None:
    told = tidemark("verify", config, *more)
    assert told.exit_code == ExitCode.DEFINITE
    assert f"Invalid value for '{more[0]}'" in told.output


def test_a_consumer_is_forgotten(config: Path) -> None:
    settings = load(config, {})
    store = JournalStore.open_single_writer(settings.journal.path, settings.name)
    store.consumers.record_progress("topics", 7)
    assert tidemark("forget-consumer", config, "topics").exit_code == ExitCode.CLEAN
    assert store.consumers.all() == {}
    again = tidemark("forget-consumer", config, "topics")
    assert again.exit_code == ExitCode.DEFINITE
    assert "'topics' isn't a consumer" in again.output
    store.close()
