"""Protected columns on a real server: no byte that leaves the process has one of the planted values.

The values are planted in the snapshot, in the stream, in what updates and deletes found, in defaults, in rows that are
read again and in rows of a verification. The judge looks at the bytes of all files, not at what Tidemark says of them.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.toolchain.mysql_server import MysqlServer
from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.config.settings import LakeSettings, Secret, Settings, SnapshotMode
from pipeline.config.table_rules import LakeRule
from pipeline.journal.entry import FileKind
from pipeline.messages.signals import SignalAccepted, SignalRejected
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId
from pipeline.snapshot.snapshot import Chunking
from tests.servers.journal_oracle import entries, replay
from tests.servers.service import Running, pipeline, running

SALT = "0123456789abcdef-salt"
PLANTED = "kanarie"
ROWS = 300


def value(row: int, column: str) -> str:
    """A value that nobody may see."""
    return f"{PLANTED}-{column}-{row}"


def hashed(text: str) -> str:
    """The digits of a value's hash, by the standard's own words (RFC 2104) and not by our code."""
    key = SALT.encode().ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key) + text.encode()).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in key) + inner).hexdigest()


def rules(database: str, *more: ProtectionRule) -> Protection:
    tables = TableFilter((rf"{database}\.people",))
    return Protection(
        Secret(SALT),
        (
            ProtectionRule(tables, ("ssn",), Treatment.EXCLUDE),
            ProtectionRule(tables, ("Email",), Treatment.HASH),
            ProtectionRule(tables, ("phone",), Treatment.MASK, length=4),
            ProtectionRule(tables, ("note",), Treatment.TRUNCATE, length=3),
            ProtectionRule(TableFilter((rf"{database}\.logins",)), ("login",), Treatment.HASH),
            *more,
        ),
    )


def row_of(row: int) -> str:
    planted = ", ".join(f"'{value(row, column)}'" for column in ("ssn", "email", "phone", "note"))
    return f"({row}, {planted}, {row})"


def login_of(row: int) -> str:
    return f"('{value(row, 'login')}', {row})"


def created(server: MysqlServer, database: str) -> None:
    server.sql(
        "CREATE TABLE people (id INT PRIMARY KEY, ssn VARCHAR(40), email VARCHAR(40), phone VARCHAR(40), "
        "note TEXT, n INT, UNIQUE (email)) COMMENT 'people'",
        f"INSERT INTO people VALUES {', '.join(map(row_of, range(1, ROWS + 1)))}",
        "CREATE TABLE logins (login VARCHAR(40) PRIMARY KEY, n INT)",
        f"INSERT INTO logins VALUES {', '.join(map(login_of, range(1, ROWS + 1)))}",
        database=database,
    )


def changed(server: MysqlServer, database: str) -> None:
    """Inserts, updates with a row before and after, a key that moves, deletes."""
    server.sql(
        f"INSERT INTO people VALUES {row_of(1001)}, {row_of(1002)}",
        f"UPDATE people SET email = '{value(2001, 'email')}', n = -1 WHERE id = 5",
        f"UPDATE people SET id = 2002, ssn = '{value(2002, 'ssn')}' WHERE id = 6",
        "UPDATE people SET email = NULL, phone = NULL WHERE id = 7",
        "DELETE FROM people WHERE id IN (8, 1002)",
        f"INSERT INTO logins VALUES {login_of(1001)}",
        f"UPDATE logins SET login = '{value(2001, 'login')}' WHERE n = 5",
        "UPDATE logins SET n = -6 WHERE n = 6",
        "DELETE FROM logins WHERE n = 7",
        database=database,
    )


def leaks(folder: Path) -> Iterator[str]:
    """Files with planted values, be it in their bytes or in their columns, which are compressed.

    A file that is renamed meanwhile may be missed, so that the last look comes after the service's end.
    """
    for file in (Path(path) / name for path, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):
            if PLANTED.encode() in file.read_bytes():
                yield f"{file.name}: its bytes"
            if file.suffix == ".parquet" and PLANTED in json.dumps(
                pq.read_table(file).to_pylist(), default=str
            ):
                yield f"{file.name}: its rows"


async def in_journal(service: Running, folder: Path, id_: str) -> None:
    """Until a snapshot has ended and the journal has all of its rows."""
    await service.completed(id_)

    def sealed() -> bool:
        snapshots = entries(folder / "journal")[-1].checkpoint.snapshots
        return any(each.id == id_ and each.ended for each in snapshots)

    await service.until(sealed, f"the end of {id_} is sealed")


async def checked(service: Running, settings: Settings, logged: pytest.CaptureFixture[str]) -> None:
    """Nothing that has left the process by now has a planted value."""
    await service.sealed()
    folder = Path(settings.journal.path).parent
    assert list(leaks(folder)) == []
    statuses = [actor.status() for actor in service.supervisor.actors.values()]
    for what, text in (
        ("status", json.dumps(statuses, default=str)),
        ("metrics", service.assembly.metrics.text().decode()),
        ("log", "".join(logged.readouterr())),
    ):
        assert PLANTED not in text, what


def logins(folder: Path, database: str) -> dict[str, int]:
    """The rows of `logins` in the journal, by their keys."""
    rows = replay(folder / "journal", TableId(database, "logins")).live().values()
    return {row["login"]: row["n"] for row in rows}


def logins_at(server: MysqlServer, database: str) -> dict[str, int]:
    """The same of the source, with the keys that readers may have."""
    return {hashed(login): n for login, n in server.sql("SELECT login, n FROM logins", database=database)}


async def test_no_planted_value_leaves_the_process(
    mysql: MysqlServer, database: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    created(mysql, database)
    table = TableId(database, "people")
    settings = replace(
        pipeline(mysql, tmp_path, database, mode=SnapshotMode.INITIAL),
        protection=rules(database),
        lake=LakeSettings("lake", rules=(LakeRule(TableFilter((".*",)), before_images=True),)),
    )
    async with running(settings) as service:
        await service.begun()
        changed(mysql, database)
        await service.execute("s")
        await in_journal(service, tmp_path, "s")
        await service.caught_up(mysql)
        await checked(service, settings, capfd)
        rows = {key[0]: row for key, row in replay(tmp_path / "journal", table).live().items()}
        assert len(rows) == ROWS
        assert rows[1] == {
            "id": 1,
            "email": hashed(value(1, "email")),
            "phone": "****",
            "note": value(1, "note")[:3],
            "n": 1,
        }
        assert rows[5]["email"] == hashed(value(2001, "email"))
        assert (rows[7]["email"], rows[7]["phone"]) == (None, None)
        assert logins(tmp_path, database) == logins_at(mysql, database)
        assert isinstance(await service.tell("verify", "v", r".*"), SignalAccepted)
        await in_journal(service, tmp_path, "v")
        await checked(service, settings, capfd)
        kinds = {file.kind for entry in entries(tmp_path / "journal") for file in entry.files}
        assert kinds == set(FileKind), "rows of each kind were written"
        # A signal can't bring one in, neither as a value nor as the bound of a chunk.
        condition = f"EMAIL = '{value(3, 'email')}'"
        refused = await service.tell(
            "execute-snapshot",
            "f",
            r".*\.people",
            additional_conditions=[{"data-collection": r".*\.people", "filter": condition}],
        )
        assert isinstance(refused, SignalRejected)
        assert "compares its column EMAIL" in refused.reason
        refused = await service.tell("execute-snapshot", "w", r".*\.people", surrogate_key="email")
        assert isinstance(refused, SignalRejected)
        assert "surrogate-key" in refused.reason
        # A column comes with a default, and a protected one gets another name.
        mysql.sql("ALTER TABLE people ADD COLUMN extra INT NOT NULL DEFAULT 7", database=database)
        mysql.sql(f"INSERT INTO people VALUES {row_of(1003)[:-1]}, 8)", database=database)
        await service.caught_up(mysql)
        assert service.status()["stopped"] == {}
        mysql.sql(
            "ALTER TABLE people RENAME COLUMN email TO mail",
            f"INSERT INTO people VALUES {row_of(1004)[:-1]}, 9)",
            database=database,
        )
        reason = await service.until(
            lambda: service.status().get("stopped", {}).get(str(table)), "the table is stopped"
        )
        assert "'email'" in reason.lower()
        assert "protection" in reason
        await service.caught_up(mysql)
        await checked(service, settings, capfd)
        await service.stop()
    assert list(leaks(tmp_path)) == []


async def test_other_rules_begin_the_table_again(mysql: MysqlServer, database: str, tmp_path: Path) -> None:
    created(mysql, database)
    table = TableId(database, "people")
    settings = replace(pipeline(mysql, tmp_path, database), protection=rules(database))
    async with running(settings) as service:
        await service.begun()
        await service.execute("s")
        await service.completed("s")
        await service.caught_up(mysql)
        await service.sealed()
        await service.stop()
    first = entries(tmp_path / "journal")[-1]
    assert [column.name for column in first.stored_schemas[table].columns] == [
        "id",
        "email",
        "phone",
        "note",
        "n",
    ]
    more = ProtectionRule(TableFilter((rf"{database}\.people",)), ("n",), Treatment.MASK, text="gone")
    async with running(replace(settings, protection=rules(database, more))) as service:
        await service.begun()
        (again,) = (
            name
            for name in (each["id"] for each in service.status()["snapshots"])
            if name.startswith("protection-")
        )
        await service.completed(again)
        await service.sealed()
        await service.stop()
    last = entries(tmp_path / "journal")[-1]
    assert last.checkpoint.mirrors[table].since > first.checkpoint.mirrors[table].since
    assert last.stored_schemas[table].arrow.field("n").type == pa.string()
    async with running(replace(settings, protection=rules(database, more))) as service:
        await service.begun()
        assert service.status()["scn"] <= last.checkpoint.scn + 1, "the same rules change nothing"
        await service.stop()
    assert entries(tmp_path / "journal")[-1].checkpoint.mirrors == last.checkpoint.mirrors


async def test_a_snapshot_along_hashed_keys_begins_again_after_a_crash(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    """The journal has no key at which it could continue, and no row comes twice."""
    created(mysql, database)
    slow = pipeline(mysql, tmp_path, database, chunk_rows=20, rows_per_s=100)
    slow = replace(slow, protection=rules(database))
    async with running(slow) as service:
        await service.begun()
        await service.execute("s", r".*\.logins")

        def under_way() -> bool:
            snapshots = entries(tmp_path / "journal")[-1].checkpoint.snapshots
            return any(isinstance(s.tables[TableId(database, "logins")], Chunking) for s in snapshots)

        await service.until(under_way, "a part of the snapshot is sealed")
        assert service.tables("s")["logins"]["state"] == "chunking"
        assert PLANTED not in json.dumps(service.status(), default=str)
        await service.drop()
    fast = replace(slow, snapshot=replace(slow.snapshot, rows_per_s=0))
    async with running(fast) as service:
        await service.begun()
        changed(mysql, database)
        await in_journal(service, tmp_path, "s")
        await service.caught_up(mysql)
        await service.sealed()
        assert logins(tmp_path, database) == logins_at(mysql, database)
        assert replay(tmp_path / "journal", TableId(database, "logins")).twice == []
        await service.stop()
    assert list(leaks(tmp_path)) == []


async def test_a_key_that_would_not_tell_rows_apart_is_refused_by_name(
    mysql: MysqlServer, database: str, tmp_path: Path
) -> None:
    created(mysql, database)
    table = TableId(database, "people")
    rule = ProtectionRule(TableFilter((rf"{database}\.people",)), ("id",), Treatment.EXCLUDE)
    settings = replace(pipeline(mysql, tmp_path, database), protection=Protection(rules=(rule,)))
    async with running(settings) as service:
        reason = await service.until(
            lambda: service.status().get("stopped", {}).get(str(table)), "the table is stopped"
        )
        assert "'id' is in the primary key" in reason
        mysql.sql(
            f"INSERT INTO people VALUES {row_of(1001)}",
            "INSERT INTO logins VALUES ('of a table without rules', 1)",
            database=database,
        )
        await service.caught_up(mysql)
        await service.sealed()
        await service.stop()
    assert list(leaks(tmp_path)) == []
