"""What a Delta table says of itself, read from its log by whoever has no Spark at hand.

A table's log is a folder of numbered commits, each a file of JSON lines, and now and then a checkpoint: a Parquet file
that says what all commits up to there come to. Commits before the newest one may be gone.

Source: Delta transaction log protocol (PROTOCOL.md in delta-io/delta): Delta log entries, Checkpoints, Change Metadata,
Transaction Identifiers, Commit Provenance Information.
"""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs

from actors.lake.filesystem import lake_filesystem
from pipeline.lake.tables import TableReport

# The folder of a table that holds its log.
LOG = "_delta_log"

# What a commit says of itself that has nothing to say.
NOTHING = "{}"

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d+\.(\d+))?\.parquet")
_TOLD = ("metaData", "txn")


@dataclass(frozen=True, slots=True)
class LoggedVersion(TableReport):
    """A version of a table. `columns`: its schema, in JSON. `files`, `bytes`, and `hidden` rows: what it's made of,
    None where Delta wrote no checksum of it.
    """

    version: int
    columns: str
    files: int | None
    bytes: int | None
    hidden: int | None


def read_version(path: str, at: int | None = None) -> LoggedVersion | None:
    """What the table at a path says in its newest version, or `at` this one; None where there's none.

    `path`: a local one, or a URI as Spark has it. Raises OSError where the filesystem does, and Definite where the path
    leads to none.
    """
    filesystem, folder, names = _log_files(path)
    actions, last = _Actions(), sys.maxsize if at is None else at
    version, checkpoint = _newest_checkpoint(names, last)
    for name in checkpoint:
        actions.take(_read_checkpoint(filesystem, f"{folder}/{name}"))
    for name in names:
        if (match := _COMMIT.fullmatch(name)) and version < int(match[1]) <= last:
            actions.take(map(json.loads, _read(filesystem, f"{folder}/{name}").splitlines()))
            version = int(match[1])
    if version < 0:
        return None
    checksum = f"{version:020d}.crc"
    sums = json.loads(_read(filesystem, f"{folder}/{checksum}")) if checksum in names else {}
    return LoggedVersion(
        actions.properties,
        actions.applications,
        version,
        actions.columns,
        sums.get("numFiles"),
        sums.get("tableSizeBytes"),
        sums.get("numDeletedRecordsOpt"),
    )


def _newest_checkpoint(names: Iterable[str], last: int) -> tuple[int, list[str]]:
    """The newest version of which a whole checkpoint is listed, up to the `last` one, and its files; -1 for none.

    Delta names it in `_last_checkpoint` as well, but overwrites that in place: whoever reads it may find half of it, or
    a checkpoint that came after the listing.
    """
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) <= last:
            found.setdefault((int(match[1]), int(match[2] or 1)), []).append(name)
    whole = [(version, files) for (version, parts), files in found.items() if len(files) == parts]
    return max(whole, default=(-1, []))


def last_report(path: str) -> str | None:
    """What the last commit of a table says of itself (`userMetadata`), of those that say anything; raises as
    `read_version`.

    A checkpoint doesn't have it.
    """
    filesystem, folder, names = _log_files(path)
    for name in filter(_COMMIT.fullmatch, reversed(names)):
        for action in map(json.loads, _read(filesystem, f"{folder}/{name}").splitlines()):
            match action:
                case {"commitInfo": {"userMetadata": str(said)}} if said != NOTHING:
                    return said
    return None


def _log_files(path: str) -> tuple[fs.FileSystem, str, list[str]]:
    """Where a table's log is, and the names of its files in order; none where there's no table."""
    filesystem, root = lake_filesystem(path)
    folder = f"{root}/{LOG}"
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return filesystem, folder, sorted(info.base_name for info in found)


class _Actions:
    """What a log's actions come to, taken in their order."""

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
    """What a checkpoint says of the table itself, without its files."""
    with filesystem.open_input_file(path) as file:
        columns = pq.read_table(file, columns=list(_TOLD))
    for kind in _TOLD:
        for value in columns[kind].drop_null().to_pylist():
            yield {kind: value}


def _read(filesystem: fs.FileSystem, path: str) -> bytes:
    with filesystem.open_input_stream(path) as file:
        return bytes(file.read())
