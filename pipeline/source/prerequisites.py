"""The requirements of capture on the source server and the user's rights. All findings come at once.

The facts are the server's own words: its variables, and its answers to attempts of everything that needs a right. An
attempt shows more than SHOW GRANTS can, which leaves out default roles, partial revokes and column grants.

Sources: MySQL 9.7 Reference Manual, "Binary Logging Options and Variables", "Replication and Binary Logging with
GTIDs", "Privileges Provided by MySQL", "FOREIGN KEY Constraints"; "Replica Server Options and Variables"
(replica_preserve_commit_order) for the order in which a replica has to commit.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pipeline.config.settings import SnapshotMode, SnapshotSettings
from pipeline.errors import NEW_JOURNAL
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.table_schema import TableId
from pipeline.source.binlog_retention import RETENTION, retention_s
from pipeline.source.finding import Finding, Severity
from pipeline.source.statement import quoted_table

# The server's variables that are judged, by all the names that they have had.
VARIABLES = (
    "binlog_error_action",
    "binlog_format",
    "binlog_order_commits",
    "binlog_row_image",
    "binlog_row_metadata",
    "enforce_gtid_consistency",
    "gtid_mode",
    "innodb_native_foreign_keys",
    "log_bin",
    "log_replica_updates",
    "log_slave_updates",
    "partial_revokes",
    "replica_parallel_workers",
    "replica_preserve_commit_order",
    "server_id",
    "slave_parallel_workers",
    "slave_preserve_commit_order",
    *RETENTION,
)

# A log that is kept for less (s) is lost in a night.
_KEPT_AT_LEAST_S = 86_400

# How a server without GTIDs is captured from.
_BY_COORDINATES = 'snapshot.watermark = "signal_table", which needs no GTIDs'

_GTIDS_AT_START = (
    "start it, and at once all servers that replicate with it, with --gtid-mode=ON --enforce-gtid-consistency --log-bin"
    " --log-slave-updates"
)


class Privilege(StrEnum):
    """The global rights that capture needs, by the names that GRANT takes."""

    SLAVE = "REPLICATION SLAVE"
    CLIENT = "REPLICATION CLIENT"
    RELOAD = "RELOAD"  # for a consistent snapshot that may lock


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Observations of a server.

    `variables`: those of VARIABLES that it has. `replica`: whether it replicates from another server. `log_filters`:
    the databases that --binlog-do-db or --binlog-ignore-db name. `user`: the account, from CURRENT_USER(). `denied`:
    each right or captured table that was refused, with the server's words. `tables`: the captured ones. `cascading`:
    the foreign keys of captured tables that change or delete their rows along with another table's. `doubtful`: the
    ENUM and SET columns of captured tables whose labels the server doesn't show completely
    (`pipeline.source.information_schema`).
    """

    version: str
    variables: Mapping[str, str]
    replica: bool
    log_filters: tuple[str, ...]
    user: str
    denied: Mapping[Privilege | TableId, str]
    tables: frozenset[TableId] = frozenset()
    cascading: tuple[ForeignKey, ...] = ()
    doubtful: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)

    @property
    def has_gtids(self) -> bool:
        """Whether each of its transactions gets a GTID."""
        return self.variables.get("gtid_mode") == "ON"


def unlogged_foreign_keys(facts: ServerFacts) -> tuple[ForeignKey, ...]:
    """The foreign keys whose work isn't in the log."""
    return () if logs_cascades(server_version(facts.version), facts.variables) else facts.cascading


def logs_cascades(version: tuple[int, ...], variables: Mapping[str, str]) -> bool:
    """Returns whether the log has the effects of foreign keys.

    Before 9.6 InnoDB cascades by itself, below the log. Since then the server does, unless it's configured not to.
    """
    return version >= (9, 6) and variables.get("innodb_native_foreign_keys", "OFF") == "OFF"


def findings(
    facts: ServerFacts, reread: bool = False, by_coordinates: bool = False, begun: bool = False
) -> tuple[Finding, ...]:
    """Returns all findings: errors before warnings, and these before notes; nothing if capture can run at its best.

    `reread`: tables that foreign keys change below the log are read again, so that they can be captured.
    `by_coordinates`: positions are files and offsets of the log, so no GTIDs are needed. `begun`: capture has begun
    before. Then a problem of a table is only a note, because that table stops alone. A first start is refused instead,
    so that the user sees the problem before it.
    """
    if other := tuple(_server(facts)):
        return other
    replica = _replica(facts) if facts.replica else ()
    gtids = () if by_coordinates else _gtids(facts)
    of_tables = [*_foreign_keys(facts, reread), *_unreadable(facts)]
    if begun:
        of_tables = [replace(finding, severity=Severity.NOTE) for finding in of_tables]
    found = [*_log(facts), *gtids, *replica, *_rights(facts), *of_tables, *_labels(facts)]
    return tuple(sorted(found, key=lambda finding: list(Severity).index(finding.severity)))


def watermark_findings(facts: ServerFacts, table: TableId, refused: str | None) -> Iterator[Finding]:
    """What hinders watermarks as rows of a table; `refused`: the server's words when one was tried."""
    if refused is not None:
        name = quoted_table(table).replace("%%", "%")
        yield _error(
            f"watermarks can't be written into {table}: {refused}",
            f"CREATE TABLE {name} (id VARCHAR(64) PRIMARY KEY, type VARCHAR(32) NOT NULL, data VARCHAR(2048)), and "
            f"GRANT SELECT, INSERT ON {name} TO {_account(facts)}",
        )


def position_findings(
    server: str, position_of: str | None, by_coordinates: bool, snapshot: SnapshotSettings
) -> Iterator[Finding]:
    """Yields what is wrong if positions are coordinates in a server's log; `position_of`: the server that the last is
    of."""
    if position_of is not None and not by_coordinates:
        yield _error(
            f"the journal's position is in the log of a server without GTIDs ({position_of})",
            f"set {_BY_COORDINATES}, or {NEW_JOURNAL}",
        )
    if position_of not in (None, server):
        yield _error(
            f"the source is the server {server}, and the journal's position is in the log of {position_of}: "
            "without GTIDs that position is unknown here",
            f"connect to that server, or {NEW_JOURNAL}",
        )
    if not by_coordinates:
        return
    if snapshot.mode is SnapshotMode.CONSISTENT:
        yield _error(
            "a consistent snapshot needs GTIDs: without them nothing shows which transactions have committed",
            f'turn them on, or set snapshot.mode = "{SnapshotMode.INITIAL}"',
        )
    yield _note(
        "positions are coordinates in this server's log, since it has no GTIDs; capture can't continue at another "
        "server, and a log that's reset (RESET MASTER) ends it",
        f"turn GTIDs on, and {NEW_JOURNAL}, where that matters",
    )


def server_version(text: str) -> tuple[int, ...]:
    """The numbers of a version, as (9, 7, 4) of "9.7.4-log"."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _server(facts: ServerFacts) -> Iterator[Finding]:
    """Checks for a server from which capture is impossible in any case."""
    if "MariaDB" in facts.version:
        yield _error(
            f"the server is MariaDB ({facts.version}), whose GTIDs and log are others", "capture from MySQL"
        )
    elif server_version(facts.version) < (5, 6, 5):
        yield _error(f"MySQL {facts.version} has no GTIDs", "upgrade to 5.6.5 or later, best to 8.0 or later")


def _log(facts: ServerFacts) -> Iterator[Finding]:
    yield from _must(facts, "log_bin", "ON", "start the server with --log-bin")
    remedy = _setting(facts, "binlog_format = ROW")
    yield from _must(facts, "binlog_format", "ROW", f"{remedy}, and reconnect all clients")
    # Without it the executed set may lack a transaction before one of its members, and capture begins at that set.
    yield from _must(facts, "binlog_order_commits", "ON", _setting(facts, "binlog_order_commits = ON"))
    image = facts.variables.get("binlog_row_image", "FULL")
    if image != "FULL":
        yield _note(
            f"binlog_row_image is {image}, so that changes lack the columns that they don't concern; Tidemark puts"
            " rows together column by column, and reads each one again that's inserted without all of its values",
            f"{_setting(facts, 'binlog_row_image = FULL')}, and reconnect all clients",
        )
    if facts.variables.get("server_id") == "0":
        yield _error("server_id is 0, so the server takes no replicas", _setting(facts, "server_id = 1"))
    if facts.log_filters:
        yield _error(
            f"the log is filtered by database ({'; '.join(facts.log_filters)}), so changes may be missing from it",
            "start the server without --binlog-do-db and --binlog-ignore-db",
        )
    if facts.variables.get("binlog_error_action") == "IGNORE_ERROR":
        yield _note(
            "binlog_error_action is IGNORE_ERROR, so a server that can't write its log continues without one, and "
            "changes are missing from it",
            _setting(facts, "binlog_error_action = ABORT_SERVER"),
        )
    if (kept := retention_s(facts.variables)) < _KEPT_AT_LEAST_S:
        yield Finding(
            Severity.WARNING,
            f"the server keeps its log for {kept / 3600:.1f} h: if capture lags by more, changes are lost",
            _setting(facts, "binlog_expire_logs_seconds = 604800"),
        )
    yield from _metadata(facts)


_UNDESCRIBED = (
    "each statement that may have altered a table has the server asked for it, while the log waits. Where another such "
    "statement follows before the answer, the changes in between can't be named. The changelog lacks them, and "
    "Tidemark reads the whole table again. A table without a mirror stops"
)


def _metadata(facts: ServerFacts) -> Iterator[Finding]:
    match facts.variables.get("binlog_row_metadata"):
        case "FULL":
            return
        case None:
            yield Finding(
                Severity.WARNING,
                f"MySQL {facts.version} doesn't describe tables in its log: {_UNDESCRIBED}",
                "let capture catch up between such statements, or upgrade to 8.0.1 or later",
            )
        case _:
            yield Finding(
                Severity.WARNING,
                f"binlog_row_metadata isn't FULL, so that the log doesn't name columns: {_UNDESCRIBED}",
                "SET PERSIST binlog_row_metadata = FULL",
            )


def _gtids(facts: ServerFacts) -> Iterator[Finding]:
    online = _gtids_online(facts)
    steps = "gtid_mode = OFF_PERMISSIVE, then ON_PERMISSIVE, then, when no anonymous transaction is under way"
    mode = _setting(facts, f"{steps} on any replica, ON") if online else _GTIDS_AT_START
    yield from _must(facts, "gtid_mode", "ON", f"{mode}; or set {_BY_COORDINATES}")
    consistency = _setting(facts, "enforce_gtid_consistency = ON") if online else _GTIDS_AT_START
    yield from _must(facts, "enforce_gtid_consistency", "ON", consistency)


def _gtids_online(facts: ServerFacts) -> bool:
    """Whether GTIDs can be turned on while the server runs (WL#7083)."""
    return server_version(facts.version) >= (5, 7, 6)


def _setting(facts: ServerFacts, assignment: str) -> str:
    """How a variable is set for now and for later starts."""
    if server_version(facts.version) >= (8,):
        return f"SET PERSIST {assignment}"
    return f"SET GLOBAL {assignment}, and the same in the server's option file"


def _replica(facts: ServerFacts) -> Iterator[Finding]:
    prefix = "replica" if "replica_parallel_workers" in facts.variables else "slave"
    updates = "log_replica_updates" if "log_replica_updates" in facts.variables else "log_slave_updates"
    yield from _must(facts, updates, "ON", f"start the replica with --{updates.replace('_', '-')}")
    workers, order = f"{prefix}_parallel_workers", f"{prefix}_preserve_commit_order"
    if int(facts.variables.get(workers, "0")) <= 1:
        return
    if order in facts.variables:
        remedy = f"stop the replica's applier, {_setting(facts, f'{order} = ON')}, and start it"
        yield from _must(facts, order, "ON", remedy)
    else:
        yield _error(
            f"{workers} is {facts.variables[workers]}, and MySQL {facts.version} can't keep the order of commits then",
            f"stop the replica's applier, {_setting(facts, f'{workers} = 0')}, and start it",
        )


def _foreign_keys(facts: ServerFacts, reread: bool) -> Iterator[Finding]:
    keys = unlogged_foreign_keys(facts)
    if not keys:
        return
    children, parents = (_names(getattr(key, of) for key in keys) for of in ("child", "parent"))
    wrong = (
        f"foreign keys change rows of {children} along with other tables' (ON DELETE or ON UPDATE, CASCADE or SET"
        " NULL), and this server doesn't log that"
    )
    mend = (
        "start the server with --innodb-native-foreign-keys=OFF (MySQL 9.6 or later), change these foreign keys, or"
        " leave the tables out"
    )
    if not reread:
        yield _error(wrong, f'{mend}, or set snapshot.foreign_keys = "reread"')
        return
    if unseen := [key.parent for key in keys if key.parent not in facts.tables]:
        yield _error(
            f"{wrong}; {_names(unseen)} isn't captured, so that capture can't see when",
            f"capture it, or {mend}",
        )
    yield _note(
        f"{wrong}: they're read again each time that a row of {parents} goes or gets another key", mend
    )


def _names(tables: Iterable[TableId]) -> str:
    return ", ".join(map(str, sorted(set(tables))))


def _labels(facts: ServerFacts) -> Iterator[Finding]:
    """The log has an ENUM's index and a SET's bits, so that a label that isn't known would be a wrong text."""
    if facts.variables.get("binlog_row_metadata") == "FULL":
        return
    for table, columns in facts.doubtful.items():
        yield _note(
            f"a label of {', '.join(columns)} of {table} has a question mark; the server also shows one for"
            " characters beyond U+FFFF, so that the label can't be known; the first change of a row with that label"
            " stops the table",
            "set binlog_row_metadata = FULL (MySQL 8.0.1 or later), change the label, or leave the table out",
        )


def _rights(facts: ServerFacts) -> Iterator[Finding]:
    account = _account(facts)
    for right, words in facts.denied.items():
        if isinstance(right, Privilege):
            yield _error(f"{facts.user} lacks {right}: {words}", f"GRANT {right} ON *.* TO {account}")


def _unreadable(facts: ServerFacts) -> Iterator[Finding]:
    for table, words in facts.denied.items():
        if isinstance(table, TableId):
            target = quoted_table(table).replace("%%", "%")
            yield _error(f"{table} can't be read: {words}", f"GRANT SELECT ON {target} TO {_account(facts)}")


def _account(facts: ServerFacts) -> str:
    name, _, host = facts.user.rpartition("@")
    return f"'{name}'@'{host}'"


def _must(facts: ServerFacts, variable: str, wanted: str, remedy: str) -> Iterator[Finding]:
    """An error unless the variable has this value; a server that doesn't have it at all knows no other way."""
    value = facts.variables.get(variable, wanted)
    if value.upper() != wanted:
        yield _error(f"{variable} is {value or 'empty'} and has to be {wanted or 'empty'}", remedy)


def _error(wrong: str, remedy: str) -> Finding:
    return Finding(Severity.ERROR, wrong, remedy)


def _note(wrong: str, remedy: str) -> Finding:
    return Finding(Severity.NOTE, wrong, remedy)
