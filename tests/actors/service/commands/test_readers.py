"""A reader's commands without a lake. With one: tests/actors/service/lake/test_lake_listing.py."""

from pathlib import Path

from actors.runtime.supervisor import ExitCode
from tests.actors.service.command_line import tidemark


def test_sql_of_a_table_that_the_lake_does_not_have(config: Path) -> None:
    for name in ("shop.orders", "orders"):
        told = tidemark("sql", config, name, "--dialect", "duckdb")
        assert told.exit_code == ExitCode.DEFINITE
        assert f"has no mirror of {name} (database.table)" in told.output
