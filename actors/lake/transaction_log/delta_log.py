"""The state of a Delta table, read from its log without Spark.

A table's log is a folder of numbered commits, each a file of JSON lines. Now and then there is a checkpoint: Parquet
files with the sum of all commits up to there. One of the newer kind (V2) has a name of its own, and may be JSON. Its
other files have only what is left out here. Commits before the newest checkpoint may be gone.

Source: Delta transaction log protocol (PROTOCOL.md in delta-io/delta): Delta log entries, Checkpoints (V2 Spec), Change
Metadata, Transaction Identifiers, Commit Provenance Information.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyarrow import fs

from actors.lake.filesystem import lake_filesystem
from actors.runtime.filesystem import list_folder
from pipeline.lake.tables.report import TableReport

# The folder of a table that holds its log.
LOG = "_delta_log"

# The report of a commit that has nothing to report.
NO_REPORT = "{}"

# The name of a commit's file, with its version.
COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(?:(?:\.\d+\.(?P<parts>\d+))?\.parquet|\.(?P<own>[0-9a-f-]{36})\.(?:parquet|json))"
)
_TOLD = ("metaData", "txn")
# The operations with which somebody sets a table back, to its own older state or to a copy's.
_SET_BACK = ("RESTORE", "CLONE")
# How the line of a commit begins that says how it came.
_INFO: Final = b'{"commitInfo"'
# How many commits of others may follow one that is looked for. Each that is read is a request to a store.
LOOKED_BACK: Final = 64

# So many commits are read at most to list files, and so many bytes of them. More take longer than Delta's own listing.
MOST_COMMITS_READ: Final = 2_000
MOST_COMMIT_BYTES: Final = 16 << 20

# Says of the actions of a commit whether it and all before it are of no interest.
IsBefore = Callable[[Sequence[Mapping[str, Any]]], bool]


@dataclass(frozen=True, slots=True)
class LoggedVersion(TableReport):
    """A version of a table. `columns`: its schema, in JSON. `files`, `bytes` and `hidden` rows are None if Delta wrote
    no checksum of the version."""

    version: int
    columns: str
    files: int | None
    bytes: int | None
    hidden: int | None


def read_version(path: str, at: int | None = None) -> LoggedVersion | None:
    """Returns the table at a path in its newest version, or `at` this one; None if there is none.

    `path`: a local one, or a URI as Spark has it. Raises OSError if the filesystem does, and Definite if the path leads
    to no filesystem.
    """
    filesystem, folder, names = _log_files(path)
    actions, last = _Actions(), sys.maxsize if at is None else at
    version, checkpoint = newest_checkpoint(names, last)
    for name in checkpoint:
        actions.take(_read_checkpoint(filesystem, f"{folder}/{name}"))
    for name in names:
        if (match := COMMIT.fullmatch(name)) and version < int(match[1]) <= last:
            actions.take(map(json.loads, _read(filesystem, f"{folder}/{name}").splitlines()))
            version = int(match[1])
    if version < 0:
        return None
    sums: dict[str, Any] = {}
    if (checksum := f"{version:020d}.crc") in names:
        with suppress(ValueError):  # a power cut may leave a part of it
            sums = json.loads(_read(filesystem, f"{folder}/{checksum}"))
    return LoggedVersion(
        actions.properties,
        actions.applications,
        version,
        actions.columns,
        sums.get("numFiles"),
        sums.get("tableSizeBytes"),
        sums.get("numDeletedRecordsOpt"),
    )


def newest_checkpoint(names: Iterable[str], last: int) -> tuple[int, list[str]]:
    """Returns the newest version, up to the `last` one, whose checkpoint is listed completely, and its files; -1 for
    none.

    Delta also names it in `_last_checkpoint`, but overwrites that file in place. A reader may find half of it, or a
    checkpoint that came after the listing.
    """
    found: dict[tuple[int, int, str], list[str]] = {}
    for name in names:
        if (match := _CHECKPOINT.fullmatch(name)) and int(match["version"]) <= last:
            kind = int(match["version"]), int(match["parts"] or 1), match["own"] or ""
            found.setdefault(kind, []).append(name)
    whole = [(version, files) for (version, parts, _), files in found.items() if len(files) == parts]
    return max(whole, default=(-1, []))


def last_report(path: str) -> str | None:
    """Returns the newest report in a table's commits (`userMetadata`); None if none has one. Raises as `read_version`.

    A checkpoint has no report.
    """
    filesystem, folder, names = _log_files(path)
    for name in filter(COMMIT.fullmatch, reversed(names)):
        for action in map(json.loads, _read(filesystem, f"{folder}/{name}").splitlines()):
            match action:
                case {"commitInfo": {"userMetadata": str(said)}} if said != NO_REPORT:
                    return said
    return None


def is_restored(path: str, version: int, applications: str) -> bool:
    """Returns whether the newest commits of a table, up to a version, have a RESTORE or a CLONE.

    It looks back to the newest commit that sets an application whose name begins with `applications`. Raises as
    `read_version`.
    """
    for actions in newest_commits(path, version):
        if _sets_back(actions):
            return True
        if any(action.get("txn", {}).get("appId", "").startswith(applications) for action in actions):
            return False
    return False


def was_restored_since(path: str, version: int, looked: int) -> bool:
    """Returns whether the commits of a table from the one after `looked` to `version` have a RESTORE or a CLONE.

    Of more than `LOOKED_BACK` commits it reads the newest. Of each it parses only what says how it came, since it may
    add very many files. Raises as `read_version`.
    """
    filesystem, root = lake_filesystem(path)
    for at in range(version, max(looked, version - LOOKED_BACK), -1):
        with suppress(FileNotFoundError):  # it has expired
            lines = _read(filesystem, f"{root}/{LOG}/{at:020d}.json").splitlines()
            if _sets_back(json.loads(line) for line in lines if line.startswith(_INFO)):
                return True
    return False


def _sets_back(actions: Iterable[Mapping[str, Any]]) -> bool:
    return any(action.get("commitInfo", {}).get("operation") in _SET_BACK for action in actions)


def report_at(path: str, version: int, application: str, reached: int) -> str | None:
    """Returns the report of the commit with which an application has reached a number.

    Returns None if that commit has none, or if it isn't among the newest ones up to a version. Raises OSError if the
    filesystem does.
    """
    for actions in newest_commits(path, version):
        marks = {each["txn"]["appId"]: each["txn"]["version"] for each in actions if "txn" in each}
        if marks.get(application) == reached:
            told = (each["commitInfo"].get("userMetadata") for each in actions if "commitInfo" in each)
            return next(told, None)
    return None


def newest_commits(path: str, version: int, most: int = LOOKED_BACK) -> Iterator[list[dict[str, Any]]]:
    """Returns the actions of the newest commits up to a version, the newest first, and none before one that has
    expired.

    They are at most `LOOKED_BACK`. Raises as `read_version`.
    """
    filesystem, root = lake_filesystem(path)
    for at in range(version, max(-1, version - min(most, LOOKED_BACK)), -1):
        try:
            lines = _read(filesystem, f"{root}/{LOG}/{at:020d}.json").splitlines()
        except FileNotFoundError:
            return
        yield list(map(json.loads, lines))


def logged_files(path: str, version: int, is_before: IsBefore | None = None) -> list[dict[str, Any]] | None:
    """Returns the files of a version of the table at a path, as the actions that have added them.

    It reads commits, the newest first, through the first one or that for which `is_before` holds. What that one and
    those before it have added isn't among the files. Returns None if the commits are too many or too large, or if one
    is gone. Raises OSError if the filesystem does.
    """
    if is_before is None and version >= MOST_COMMITS_READ:
        return None
    filesystem, root = lake_filesystem(path)
    found: list[dict[str, Any]] = []
    passed: set[str] = set()
    size = 0
    for at in range(version, -1, -1):
        if version - at >= MOST_COMMITS_READ or size > MOST_COMMIT_BYTES:
            return None
        try:
            text = _read(filesystem, f"{root}/{LOG}/{at:020d}.json")
        except FileNotFoundError:
            return None
        actions, size = list(map(json.loads, text.splitlines())), size + len(text)
        if is_before is not None and is_before(actions):
            break
        added = {unquote(action["add"]["path"]): action["add"] for action in actions if "add" in action}
        found += (file for name, file in added.items() if name not in passed)
        # A commit may remove a file and add it with a deletion vector.
        passed.update(added, (unquote(action["remove"]["path"]) for action in actions if "remove" in action))
    return found


def _log_files(path: str) -> tuple[fs.FileSystem, str, list[str]]:
    """Returns where a table's log is, and the names of its files in order; no names if there is no table."""
    filesystem, root = lake_filesystem(path)
    folder = f"{root}/{LOG}"
    return filesystem, folder, sorted(info.base_name for info in list_folder(filesystem, folder))


class _Actions:
    """The sum of a log's actions, taken in their order."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.applications: dict[str, int] = {}
        self.columns = ""

    def take(self, actions: Iterable[dict[str, Any]]) -> None:
        for action in actions:
            match action:
                case {"metaData": {"configuration": configuration, "schemaString": columns}}:
                    self.properties, self.columns = dict(configuration), columns
                case {"txn": {"appId": application, "version": version}}:
                    self.applications[application] = version


def _read_checkpoint(filesystem: fs.FileSystem, path: str) -> Iterator[dict[str, Any]]:
    """Returns what a file of a checkpoint has of the table itself, without its files."""
    if path.endswith(".json"):
        yield from map(json.loads, _read(filesystem, path).splitlines())
        return
    with filesystem.open_input_file(path) as file:
        columns = pq.read_table(file, columns=list(_TOLD))
    for kind in _TOLD:
        for value in columns[kind].drop_null().to_pylist():
            yield {kind: value}


def _read(filesystem: fs.FileSystem, path: str) -> bytes:
    with filesystem.open_input_stream(path) as file:
        return bytes(file.read())
