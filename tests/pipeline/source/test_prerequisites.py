"""All that a server lacks for capture is reported by name, at once."""

from dataclasses import replace

import pytest

from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId
from pipeline.source.finding import Finding, Severity
from pipeline.source.prerequisites import (
    Privilege,
    ServerFacts,
    findings,
    server_version,
    unlogged_foreign_keys,
    watermark_findings,
)

FIT = ServerFacts(
    version="9.7.4",
    variables={
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "binlog_row_metadata": "FULL",
        "enforce_gtid_consistency": "ON",
        "gtid_mode": "ON",
        "log_bin": "ON",
        "log_replica_updates": "ON",
        "replica_parallel_workers": "4",
        "replica_preserve_commit_order": "ON",
        "server_id": "1",
    },
    replica=False,
    log_filters=(),
    user="tidemark@10.0.%",
    denied={},
)


def found_with(variables: dict[str, str], replica: bool = False) -> tuple[Finding, ...]:
    return findings(replace(FIT, replica=replica, variables={**FIT.variables, **variables}))


def test_nothing_is_found_on_a_fit_server() -> None:
    assert findings(FIT) == findings(replace(FIT, replica=True)) == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("binlog_format", "STATEMENT"),
        ("binlog_format", "MIXED"),
        ("enforce_gtid_consistency", "WARN"),
        ("gtid_mode", "ON_PERMISSIVE"),
        ("gtid_mode", "OFF"),
        ("log_bin", "OFF"),
        ("server_id", "0"),
    ],
)
def test_each_setting_that_capture_needs(variable: str, value: str) -> None:
    [finding] = found_with({variable: value})
    assert finding.severity is Severity.ERROR
    assert finding.wrong.startswith(f"{variable} is {value}")
    assert finding.remedy


def test_minimal_metadata_is_a_warning_that_says_what_it_costs() -> None:
    [finding] = found_with({"binlog_row_metadata": "MINIMAL"})
    assert finding.severity is Severity.WARNING
    assert str(finding).startswith("warning: binlog_row_metadata isn't FULL")
    assert "reads the whole table again" in finding.wrong


def test_a_log_that_is_kept_for_hours_is_a_warning() -> None:
    for kept in (
        {"binlog_expire_logs_seconds": "86400"},
        {"binlog_expire_logs_seconds": "0"},
        {"expire_logs_days": "1"},
    ):
        assert found_with(kept) == ()
    assert found_with({"binlog_expire_logs_seconds": "3600", "binlog_expire_logs_auto_purge": "OFF"}) == ()
    [finding] = found_with({"binlog_expire_logs_seconds": "5400"})
    assert str(finding).startswith("warning: the server keeps its log for 1.5 h")
    assert "binlog_expire_logs_seconds = 604800" in finding.remedy


def test_a_replica_has_to_log_and_commit_in_the_sources_order() -> None:
    lacking = {"log_replica_updates": "OFF", "replica_preserve_commit_order": "OFF"}
    assert found_with(lacking) == ()
    assert [finding.wrong.split()[0] for finding in found_with(lacking, replica=True)] == list(lacking)
    [updates] = found_with({**lacking, "replica_parallel_workers": "1"}, replica=True)
    assert updates.wrong.startswith("log_replica_updates")


def test_a_replica_of_old_names() -> None:
    new = ("log_replica_updates", "replica_parallel_workers", "replica_preserve_commit_order")
    variables = {name: value for name, value in FIT.variables.items() if name not in new}
    old = {"log_slave_updates": "OFF", "slave_parallel_workers": "8", "slave_preserve_commit_order": "OFF"}
    found = findings(replace(FIT, version="8.0.20", replica=True, variables={**variables, **old}))
    assert [finding.wrong.split()[0] for finding in found] == [
        "log_slave_updates",
        "slave_preserve_commit_order",
    ]


def test_a_filtered_log() -> None:
    [finding] = findings(replace(FIT, log_filters=("shop",)))
    assert "filtered by database (shop)" in finding.wrong


def test_foreign_keys_that_change_rows_below_the_log() -> None:
    orders, items, lines = (TableId("shop", name) for name in ("orders", "items", "lines"))
    keys = tuple(ForeignKey(child, orders, ("id",), deletes=True, updates=False) for child in (lines, items))
    cascading = replace(FIT, cascading=keys, tables=frozenset({items, lines, orders}))
    assert findings(cascading) == ()
    assert unlogged_foreign_keys(cascading) == ()
    native = replace(cascading, variables={**FIT.variables, "innodb_native_foreign_keys": "ON"})
    for facts in (native, replace(cascading, version="8.4.6")):
        assert unlogged_foreign_keys(facts) == keys
        [finding] = findings(facts)
        assert [note.severity for note in findings(facts, begun=True)] == [Severity.NOTE]
        assert finding.severity is Severity.ERROR
        assert "shop.items, shop.lines" in finding.wrong
        assert "snapshot.foreign_keys" in finding.remedy
        [note] = findings(facts, reread=True)
        assert note.severity is Severity.NOTE
        assert note.wrong.endswith("read again each time that a row of shop.orders goes or gets another key")
        [error, _] = findings(replace(facts, tables=frozenset({items, lines})), reread=True)
        assert error.severity is Severity.ERROR
        assert "shop.orders isn't captured" in error.wrong
    assert findings(replace(native, cascading=())) == ()


def test_rows_that_may_lack_columns_are_told_of() -> None:
    for image in ("MINIMAL", "NOBLOB"):
        [note] = findings(replace(FIT, variables={**FIT.variables, "binlog_row_image": image}))
        assert note.severity is Severity.NOTE
        assert note.wrong.startswith(f"binlog_row_image is {image}")


def test_labels_that_cannot_be_known_without_the_logs_own() -> None:
    doubtful = replace(FIT, doubtful={TableId("shop", "t"): ("a", "b")})
    assert findings(doubtful) == ()
    for facts in (
        replace(doubtful, variables={**FIT.variables, "binlog_row_metadata": "MINIMAL"}),
        replace(old("5.6.24"), doubtful=doubtful.doubtful),
    ):
        [_, note] = findings(facts)
        assert note.severity is Severity.NOTE
        assert "a label of a, b of shop.t has a question mark" in note.wrong


def test_what_the_user_may_not_do_comes_with_the_grant() -> None:
    found = findings(
        replace(
            FIT,
            denied={
                Privilege.SLAVE: "access denied",
                Privilege.CLIENT: "denied",
                TableId("shop", "a%b"): "SELECT command denied",
            },
        )
    )
    assert [finding.remedy for finding in found] == [
        "GRANT REPLICATION SLAVE ON *.* TO 'tidemark'@'10.0.%'",
        "GRANT REPLICATION CLIENT ON *.* TO 'tidemark'@'10.0.%'",
        "GRANT SELECT ON `shop`.`a%b` TO 'tidemark'@'10.0.%'",
    ]
    assert found[2].wrong == "shop.a%b can't be read: SELECT command denied"


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("10.11.6-MariaDB-log", "MariaDB"),
        ("5.5.5-10.11.14-MariaDB-0+deb12u2-log", "MariaDB"),
        ("5.5.62", "MySQL 5.5.62"),
    ],
)
def test_servers_without_such_gtids_are_named_and_nothing_else_of_them(version: str, name: str) -> None:
    [finding] = findings(replace(FIT, version=version, variables={"log_bin": "OFF"}))
    assert finding.severity is Severity.ERROR
    assert name in finding.wrong


OLD = {"binlog_row_image": "FULL", "log_slave_updates": "ON", "slave_parallel_workers": "0"}


def old(version: str, **variables: str) -> ServerFacts:
    """The facts of a server that has only the variables that it had."""
    kept = ("binlog_format", "enforce_gtid_consistency", "gtid_mode", "log_bin", "server_id")
    return replace(
        FIT, version=version, variables={**{name: FIT.variables[name] for name in kept}, **OLD, **variables}
    )


@pytest.mark.parametrize("version", ["5.6.24-log", "5.7.44-log"])
def test_a_fit_server_that_logs_no_metadata(version: str) -> None:
    [warning] = findings(old(version))
    assert warning.severity is Severity.WARNING
    assert f"MySQL {version} doesn't describe tables" in warning.wrong
    assert warning.remedy.endswith("upgrade to 8.0.1 or later")


@pytest.mark.parametrize(
    ("version", "wrong", "remedy"),
    [
        (
            "5.6.24",
            {"gtid_mode": "OFF"},
            "--gtid-mode=ON --enforce-gtid-consistency --log-bin --log-slave-updates",
        ),
        ("5.6.24", {"enforce_gtid_consistency": "OFF"}, "--enforce-gtid-consistency --log-bin"),
        ("5.7.44", {"gtid_mode": "OFF"}, "SET GLOBAL gtid_mode = OFF_PERMISSIVE, then"),
        (
            "5.7.44",
            {"enforce_gtid_consistency": "WARN"},
            "SET GLOBAL enforce_gtid_consistency = ON, and the same in",
        ),
        ("5.6.24", {"binlog_format": "MIXED"}, "SET GLOBAL binlog_format = ROW, and the same in"),
        ("8.0.36", {"binlog_format": "MIXED"}, "SET PERSIST binlog_format = ROW, and reconnect"),
    ],
)
def test_a_remedy_is_one_that_the_server_knows(version: str, wrong: dict[str, str], remedy: str) -> None:
    [error, _] = findings(old(version, **wrong))
    assert error.severity is Severity.ERROR
    assert remedy in error.remedy


def test_a_server_that_may_lose_its_log() -> None:
    """By default before MySQL 5.7.7."""
    _, note = findings(old("5.6.24", binlog_error_action="IGNORE_ERROR"))
    assert note.severity is Severity.NOTE
    assert note.remedy.startswith("SET GLOBAL binlog_error_action = ABORT_SERVER")
    assert len(findings(old("5.6.24", binlog_error_action="ABORT_SERVER"))) == 1


def test_a_replica_that_cannot_keep_the_order_of_commits() -> None:
    facts = replace(old("5.6.24", slave_parallel_workers="8"), replica=True)
    [error, _] = findings(facts)
    assert "slave_parallel_workers is 8" in error.wrong
    assert "SET GLOBAL slave_parallel_workers = 0" in error.remedy
    assert len(findings(replace(facts, replica=False))) == 1


def test_everything_is_told_at_once_and_notes_last() -> None:
    settings = {"gtid_mode": "OFF", "binlog_format": "MIXED", "binlog_row_metadata": "MINIMAL"}
    found = found_with({**settings, "binlog_error_action": "IGNORE_ERROR"})
    assert [finding.severity for finding in found] == [
        Severity.ERROR, Severity.ERROR, Severity.WARNING, Severity.NOTE,
    ]  # fmt: skip


def test_versions() -> None:
    assert server_version("9.7.4-2") == (9, 7, 4)
    assert server_version("5.6.24-log") < (5, 7) < server_version("8.0.36")


def test_commits_have_to_be_in_the_logs_order() -> None:
    [order] = found_with({"binlog_order_commits": "OFF"})
    assert order.severity is Severity.ERROR
    assert order.wrong.startswith("binlog_order_commits is OFF")
    assert order.remedy == "SET PERSIST binlog_order_commits = ON"


def test_watermarks_in_a_table_need_the_table() -> None:
    table = TableId("tidemark", "odd`name%")
    assert list(watermark_findings(FIT, table, None)) == []
    [lacking] = watermark_findings(FIT, table, "Table doesn't exist")
    assert lacking.severity is Severity.ERROR
    assert lacking.wrong == "watermarks can't be written into `tidemark`.`odd``name%`: Table doesn't exist"
    assert "CREATE TABLE `tidemark`.`odd``name%` (id" in lacking.remedy
    assert lacking.remedy.endswith("GRANT SELECT, INSERT ON `tidemark`.`odd``name%` TO 'tidemark'@'10.0.%'")
