"""What a Delta table says of itself, read from its log by whoever has no Spark at hand.

A table's log is a folder of numbered commits, each a file of JSON lines, and now and then a checkpoint: a Parquet file
that says what all commits up to there come to. `_last_checkpoint` names the newest one; commits before it may be gone.

Source: Delta transaction log protocol (PROTOCOL.md in delta-io/delta): Delta log entries, Checkpoints, Change Metadata,
Transaction Identifiers, Commit Provenance Information.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs

_LOG = "_delta_log"
_NEWEST = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d+\.\d+)?\.parquet")
_TOLD = ("metaData", "txn")


@dataclass(slots=True)
class Logged:
    """A table at its newest version: its properties, the last version of each application that commits to it, and what
    the last commit that has any says of itself (`userMetadata`). `files` and `bytes`: what it's made of, None where
    Delta wrote no checksum of that version.
    """

    version: int = -1
    properties: dict[str, str] = field(default_factory=dict)
    applications: dict[str, int] = field(default_factory=dict)
    said: str | None = None
    files: int | None = None
    bytes: int | None = None


def logged(path: str) -> Logged | None:
    """What the table at a path says, None where there's no table. `path`: a local one, or a URI that pyarrow reads.

    Raises OSError where the filesystem does.
    """
    filesystem, root = filesystem_of(path)
    folder = f"{root}/{_LOG}"
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = sorted(info.base_name for info in found)
    table = Logged()
    if _NEWEST in names:
        last = json.loads(_read(filesystem, f"{folder}/{_NEWEST}"))["version"]
        for name in names:
            if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) == last:
                for action in _checkpointed(filesystem, f"{folder}/{name}"):
                    _take(table, action)
        table.version = last
    for name in names:
        if (match := _COMMIT.fullmatch(name)) and int(match[1]) > table.version:
            for line in _read(filesystem, f"{folder}/{name}").splitlines():
                _take(table, json.loads(line))
            table.version = int(match[1])
    if (checksum := f"{table.version:020d}.crc") in names:
        sums = json.loads(_read(filesystem, f"{folder}/{checksum}"))
        table.files, table.bytes = sums["numFiles"], sums["tableSizeBytes"]
    return table if table.version >= 0 else None


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Where a path leads to: a local one, or a URI that pyarrow reads, or Hadoop's for S3."""
    found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(
        path.replace("s3a://", "s3://", 1) if "://" in path else path
    )
    return found


def _take(table: Logged, action: dict[str, Any]) -> None:
    match action:
        case {"metaData": {"configuration": configuration}}:
            table.properties = dict(configuration)
        case {"txn": {"appId": application, "version": version}}:
            table.applications[application] = version
        case {"commitInfo": {"userMetadata": said}}:
            table.said = said


def _checkpointed(filesystem: fs.FileSystem, path: str) -> Iterator[dict[str, Any]]:
    """What a checkpoint says of the table itself, without its files."""
    with filesystem.open_input_file(path) as file:
        columns = pq.read_table(file, columns=list(_TOLD))
    for kind in _TOLD:
        for value in columns[kind].drop_null().to_pylist():
            yield {kind: value}


def _read(filesystem: fs.FileSystem, path: str) -> bytes:
    with filesystem.open_input_stream(path) as file:
        return bytes(file.read())
