"""A lake by its path alone: what's in it, and what's wrong with a path that isn't one."""

import json
import re
import shutil
import zipfile
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from actors.runtime.supervisor import ExitCode
from actors.service.lake.lake_listing import find_lake, list_lake
from actors.service.lake.lake_status import lake_report
from actors.service.live_view_text import script
from pipeline.errors import Definite
from pipeline.lake.reading.sql_dialects import Dialect
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.tier import Tier
from tests.actors.service.command_line import tidemark
from tests.servers.delta_rs import execute
from tests.servers.duckdb_engine import engine

KEPT = Path(__file__).parents[3] / "kept" / "journal_and_lake.zip"
NAMES = ("every_type", "keyless", "large", "later", "orders")

TOML = """
name = "shop"
tables = ["kept\\\\..*"]
source = {{ host = "127.0.0.1", port = 1, user = "tidemark", server_id = 7 }}
journal = {{ path = "{}/journal" }}
lake = {{ path = "{}" }}
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake without its journal and without a configuration."""
    with zipfile.ZipFile(KEPT) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("lake/")])
    return tmp_path / "lake"


def test_all_tables_of_a_lake_become_views_by_its_path_alone(lake: Path) -> None:
    told = tidemark("views", "--lake", lake, "--dialect", "duckdb")
    assert told.exit_code == ExitCode.CLEAN
    with closing(engine()) as connection:
        connection.execute(told.output)
        found = {name: connection.execute(f'FROM "kept"."{name}"').fetchall() for name in NAMES}
        for name in NAMES:
            text = tidemark("sql", "--lake", lake, f"kept.{name}", "--dialect", "duckdb").output
            assert sorted(map(repr, connection.execute(text).fetchall())) == sorted(map(repr, found[name]))
    assert all(found.values())


def test_each_query_of_all_tables_is_one_that_delta_rs_runs(lake: Path) -> None:
    texts = list(script(str(lake), (), Dialect.DELTA_RS))
    assert [text.splitlines()[0] for text in texts] == [f"-- kept.{name}" for name in NAMES]
    for name, text in zip(NAMES, texts, strict=True):
        (one,) = script(str(lake), (f"kept.{name}",), Dialect.DELTA_RS)
        assert one == text
        assert len(execute(text.removesuffix(";"))) > 0


def test_what_cannot_be_read_is_named_and_the_others_are_there(lake: Path) -> None:
    stop(lake / "kept" / "later", "of a reason")
    shutil.move(lake / "kept" / "large", lake / "kept" / "moved")
    (lake / "kept" / "keyless" / "changelog" / "_delta_log" / f"{0:020}.json").write_text("{")
    write_deltalake(lake / "mine" / "t" / "changelog", pa.table({"id": [1]}))
    text = tidemark("sql", "--lake", lake, "--dialect", "duckdb").output
    assert [line for line in text.splitlines() if line.startswith("-- kept.")] == [
        "-- kept.every_type",
        "-- kept.orders",
    ]
    (stopped,) = re.findall("^-- `kept`.`later` is left out: kept.later was stopped, .*$", text, re.MULTILINE)
    assert "of a reason" in stopped
    assert f"moved/changelog is the changelog of kept.large, whose place is {lake}/kept/large" in text
    assert "keyless/changelog can't be read" in text
    assert f"{lake}/mine/t/changelog is a Delta table that Tidemark hasn't written" in text
    assert len(lake_report(str(lake))) == 6
    for name, why in {
        "kept.keyless": "can't be read",
        "mine.t": "that Tidemark hasn't written",
        "kept.large": "has no mirror of kept.large",
        "kept.later": "was stopped",
    }.items():
        told = tidemark("views", "--lake", lake, "kept.orders", name)
        assert (told.exit_code, why in told.output) == (ExitCode.DEFINITE, True), told.output


def test_a_table_that_was_stopped_before_it_had_anything_says_why(lake: Path) -> None:
    reason = "from segment 1 on: column '__op' of kept.later has the name of a column that Tidemark adds"
    stop(lake / "kept" / "later", reason, without=Property.SCHEMA)
    shutil.rmtree(lake / "kept" / "later" / Tier.MIRROR)
    for command in ("sql", "views"):
        text = tidemark(command, "--lake", lake).output
        (left_out,) = (line for line in text.splitlines() if "left out" in line)
        assert f"{lake}/kept/later" in left_out and reason in left_out
        for more in ((), ("--stale",)):
            told = tidemark(command, "--lake", lake, "kept.later", *more)
            assert (told.exit_code, reason in told.output) == (ExitCode.DEFINITE, True), told.output


def stop(table: Path, reason: str, without: str = "") -> None:
    """What the sink writes when it stops a table, perhaps one that lacks a property as yet."""
    log = table / Tier.CHANGELOG / "_delta_log"
    commits = sorted(log.glob("*.json"))
    actions = (json.loads(line) for commit in commits for line in commit.read_text().splitlines())
    *_, metadata = (action["metaData"] for action in actions if "metaData" in action)
    metadata["configuration"].pop(without, None)
    metadata["configuration"][Property.STOPPED] = reason
    (log / f"{int(commits[-1].stem) + 1:020}.json").write_text(json.dumps({"metaData": metadata}))


def test_a_path_that_is_no_lake_is_refused_by_what_it_is(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    write_deltalake(tmp_path / "foreign", pa.table({"id": [1]}))
    for path, why in {
        tmp_path / "gone": "there is nothing at",
        tmp_path / "file": "is a file",
        tmp_path / "empty": "has no table of Tidemark's",
        tmp_path / "foreign": "is a Delta table that Tidemark hasn't written",
        lake / "kept": f"is a folder in a lake: give the lake's path, {lake}",
        lake / "kept" / "orders": f"is a folder in a lake: give the lake's path, {lake}",
        lake / "kept" / "orders" / "mirror": f"is a lake table of kept.orders: give the lake's path, {lake}",
    }.items():
        with pytest.raises(Definite, match=re.escape(why)):
            find_lake(str(path))
        for command in ("sql", "views"):
            for name in ((), ("kept.orders",)):
                told = tidemark(command, "--lake", path, *name)
                assert (told.exit_code, why in told.output) == (ExitCode.DEFINITE, True), told.output
    assert list_lake(str(tmp_path / "gone")).tables == ()


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_the_status_of_what_is_no_lake_says_so(lake: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    config = tmp_path / "shop.toml"
    for path, why in {
        tmp_path / "gone": f"there is nothing at {tmp_path}/gone",
        lake / "kept": f"is a folder in a lake: give the lake's path, {lake}",
    }.items():
        config.write_text(TOML.format(tmp_path, path))
        told = tidemark("status", config, "--lake", *more)
        assert (told.exit_code, told.stdout, why in told.stderr) == (ExitCode.DEFINITE, "", True), told.output
    config.write_text(TOML.format(tmp_path, lake))
    assert "kept.orders" in tidemark("status", config, "--lake", *more).stdout


def test_names_that_differ_by_case_alone_are_one_view_and_the_other_is_named(lake: Path) -> None:
    source, other = lake / "kept" / "orders", lake / "kept" / "Orders"
    shutil.copytree(source, other)
    for commit in other.glob("*/_delta_log/*.json"):
        commit.write_text(re.sub(r"(table\W+)orders", r"\1Orders", commit.read_text()))
    text = "\n".join(script(str(lake), (), Dialect.DUCKDB, views=True))
    assert "-- `kept`.`orders` is left out: kept.Orders has a view of that name" in text
    assert text.count('VIEW "kept"."Orders"') == 1
    assert "is left out" not in "".join(script(str(lake), (), Dialect.TRINO, views=True))


def test_a_configuration_or_a_path_has_to_be_given(lake: Path) -> None:
    assert "give CONFIG, or the lake's path with --lake" in tidemark("sql").output
    told = tidemark("sql", "--lake", lake, "kept.orders", "--gtid", "a:1")
    assert "--gtid asks the service" in told.output
    assert "--gtid is for one table" in tidemark("sql", "--lake", lake, "--gtid", "a:1").output
