"""A reader's commands without a lake. With one: tests/actors/service/lake/test_lake_listing.py."""

import json
from pathlib import Path

from actors.runtime.supervisor import ExitCode
from actors.service.client import address_file
from actors.service.config_file import load
from tests.actors.service.command_line import answering, tidemark


def test_sql_of_a_table_that_the_lake_does_not_have(config: Path) -> None:
    for name in ("shop.orders", "orders"):
        told = tidemark("sql", config, name, "--dialect", "duckdb")
        assert told.exit_code == ExitCode.DEFINITE
        assert f"has no mirror of {name} (database.table)" in told.output


def test_the_service_says_what_is_wrong_with_an_endless_wait(config: Path) -> None:
    file = address_file(load(config, {}))
    file.parent.mkdir()
    with answering(400, '{"error": "timeout_s: too long"}') as port:
        file.write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "pid": 1}))
        told = tidemark("wait", config, "--gtid", "a:1", "--timeout", "inf")
    assert (told.exit_code, told.output) == (ExitCode.DEFINITE, "tidemark: timeout_s: too long\n")
