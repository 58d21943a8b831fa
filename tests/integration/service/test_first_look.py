"""`tidemark init` at a real server: its file passes `tidemark check`, and what it refuses names the remedy."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.service.cli import main
from deploy.toolchain.mysql_server import Account, MysqlServer
from deploy.toolchain.parts import Parts


def tidemark(*arguments: str | Path, given: str = "") -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], input=given)


@pytest.fixture
def machine(tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(parts.java_home))
    monkeypatch.setenv("TIDEMARK__SPARK__JARS", str([str(jar) for jar in parts.jars]))
    return tmp_path


def options(mysql: MysqlServer, account: Account, folder: Path) -> list[str | Path]:
    password = folder / "password"
    password.write_text(account.password)
    password.chmod(0o600)
    given: list[str | Path] = ["--host", mysql.host, "--port", str(mysql.port), "--user", account.user]
    return ["init", *given, "--password-file", password, "--tls", "disabled", "-o", folder / "shop.toml"]


def test_its_file_passes_the_check(mysql: MysqlServer, database: str, machine: Path) -> None:
    mysql.sql(
        "CREATE TABLE orders (id INT PRIMARY KEY)",
        "CREATE TABLE parts (id INT PRIMARY KEY, o INT, FOREIGN KEY (o) REFERENCES orders (id) ON DELETE CASCADE)",
        "CREATE TABLE log (words TEXT)",
        "CREATE TABLE odd (id INT PRIMARY KEY, _metadata INT)",
        database=database,
    )
    asked = [*options(mysql, mysql.create_capture_user(database), machine), "--database", database]
    made = tidemark(*asked)
    assert made.exit_code == 0, made.output
    nothing = (
        f"nothing in the lake: column '_metadata' of {database}.odd has a name that Spark and Delta keep"
    )
    assert nothing in made.output
    text = (machine / "shop.toml").read_text()
    assert "only changes are captured: log\n" in text and 'password_file = "password"' in text

    checked = tidemark("check", machine / "shop.toml")
    assert checked.exit_code == 0, checked.output
    assert f"{database}.orders" in checked.output and nothing in checked.output

    again = tidemark(*asked)
    assert again.exit_code == 2
    assert "shop.toml is there already, and isn't overwritten" in again.output
    assert (machine / "shop.toml").read_text() == text


def test_it_asks_for_what_it_is_not_given(mysql: MysqlServer, database: str, machine: Path) -> None:
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY)", database=database)
    account = mysql.create_capture_user(database)
    (machine / "password").write_text(account.password)
    answers = "\n".join([mysql.host, str(mysql.port), account.user, str(machine / "password"), ""])
    told = tidemark("init", "--tls", "disabled", "-d", database, "-o", "-", given=answers)
    assert told.exit_code == 0, told.output
    assert f'host = "{mysql.host}"' in told.stdout and "server_id = " in told.stdout


def test_what_keeps_it_from_capturing_comes_with_the_statements_to_run(
    mysql: MysqlServer, database: str, machine: Path
) -> None:
    mysql.sql("CREATE TABLE orders (id INT PRIMARY KEY)", database=database)
    account = Account("hardly any", "secret")
    mysql.create_capture_user(account=account)
    mysql.sql(f"REVOKE REPLICATION CLIENT ON *.* FROM '{account.user}'@'%'")
    asked = options(mysql, account, machine)
    told = tidemark(*asked, "--database", database)
    assert told.exit_code == 1
    assert f"GRANT REPLICATION CLIENT ON *.* TO '{account.user}'@'%'" in told.output
    pattern = database.replace("_", r"\_")
    assert f"GRANT SELECT ON `{pattern}`.* TO '{account.user}'@'%'" in told.output

    (machine / "password").write_text("wrong")
    stranger = tidemark(*asked)
    assert stranger.exit_code == 2
    assert "CREATE USER 'hardly any'@'%'" in stranger.output and "secret" not in stranger.output
    (machine / "password").unlink()
    assert "password can't be read (No such file" in tidemark(*asked).output
    assert not (machine / "shop.toml").exists()
