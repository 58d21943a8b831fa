"""The file that `tidemark init` writes, as a whole: `starter_file.toml` beside this test."""

import tomllib
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from actors.service.config_file import load
from pipeline.config.settings import ForeignKeys, TlsMode
from pipeline.config.starter_file import FoundTable, Starter, capturable, default_name, starter_text
from pipeline.schema.table_schema import TableId

KEPT = Path(__file__).with_name("starter_file.toml")
TABLES = (
    FoundTable(TableId("shop", "orders"), True, 1_200_000, 300 << 20),
    FoundTable(TableId("shop", "log"), False, 10, 1 << 20),
    FoundTable(TableId("crm-eu", "people"), True, 5, 1 << 20),
    FoundTable(TableId("crm-eu", "odd"), True, 5, 1 << 20, "its charset\nis unknown"),
)
STARTER = Starter(
    name="shop",
    host="mysql.internal",
    port=3306,
    user="tidemark",
    password_file="mysql-password",
    tls=TlsMode.VERIFY,
    ca="ca.pem",
    server_id=3_000_000_001,
    journal="journal",
    lake="s3a://bucket/lake",
    version="9.7.0",
    tables=TABLES,
    cascades=True,
)


def test_it_is_written_as_it_is_kept() -> None:
    assert starter_text(STARTER) == KEPT.read_text(encoding="utf-8")


def test_it_is_read_as_what_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "mysql-password").write_text("secret")
    (tmp_path / "shop.toml").write_text(starter_text(STARTER), encoding="utf-8")
    settings = load(tmp_path / "shop.toml", {})
    assert [f.table for f in TABLES if settings.tables.match(f.table)] == [
        f.table for f in capturable(TABLES)
    ]
    assert settings.source.host == "mysql.internal" and settings.source.server_id == 3_000_000_001
    assert settings.source.password.value == "secret"
    assert settings.source.tls.ca == PurePath(tmp_path / "ca.pem")
    assert settings.snapshot.foreign_keys is ForeignKeys.REREAD


@pytest.mark.parametrize("tls", [TlsMode.REQUIRED, TlsMode.DISABLED])
def test_what_was_not_chosen_stays_a_comment(tls: TlsMode) -> None:
    plain = replace(STARTER, tls=tls, ca=None, password_file=None, cascades=False)
    found = tomllib.loads(starter_text(plain))
    assert found["source"]["tls"] == {"mode": tls}
    assert "password_file" not in found["source"] and "foreign_keys" not in found["snapshot"]


def test_names_of_any_kind_are_quoted(tmp_path: Path) -> None:
    wild = FoundTable(TableId('a"\\.b\n', "t"), True, 0, 0)
    (tmp_path / "wild.toml").write_text(
        starter_text(replace(STARTER, tables=(wild,), password_file=None)), encoding="utf-8"
    )
    assert load(tmp_path / "wild.toml", {}).tables.match(wild.table)


def test_a_pipeline_is_named_after_its_file() -> None:
    assert [default_name(PurePath(name)) for name in ("etc/Shop EU.toml", "9-lives.toml", "-")] == [
        "shopeu",
        "lives",
        "tidemark",
    ]
