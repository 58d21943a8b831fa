"""What a Delta table says of itself, read from its log by whoever has no Spark at hand.

A table's log is a folder of numbered commits, each a file of JSON lines, and now and then a checkpoint: a Parquet file
that says what all commits up to there come to. `_last_checkpoint` names the newest one; commits before it may be gone.

Source: Delta transaction log protocol (PROTOCOL.md in delta-io/delta): Delta log entries, Checkpoints, Change Metadata,
Transaction Identifiers, Commit Provenance Information.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs

from actors.lake_paths import located
from pipeline.lake_tables import Told

# The folder of a table that holds its log.
LOG = "_delta_log"

_NEWEST = "_last_checkpoint"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d+\.\d+)?\.parquet")
_TOLD = ("metaData", "txn")


@dataclass(frozen=True, slots=True)
class Logged(Told):
    """A table at its newest version, and what the last commit that has any says of itself (`userMetadata`). `files` and
    `bytes`: what it's made of, None where Delta wrote no checksum of that version.
    """

    said: str | None
    files: int | None
    bytes: int | None


def logged(path: str) -> Logged | None:
    """What the table at a path says, None where there's no table. `path`: a local one, or a URI that pyarrow reads.

    Raises OSError where the filesystem does, and Definite where the path leads to none.
    """
    filesystem, root = located(path)
    folder = f"{root}/{LOG}"
    found = filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    names = sorted(info.base_name for info in found)
    version, actions = -1, _Actions()
    if _NEWEST in names:
        version = json.loads(_read(filesystem, f"{folder}/{_NEWEST}"))["version"]
        for name in names:
            if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) == version:
                actions.take(_checkpointed(filesystem, f"{folder}/{name}"))
    for name in names:
        if (match := _COMMIT.fullmatch(name)) and int(match[1]) > version:
            actions.take(map(json.loads, _read(filesystem, f"{folder}/{name}").splitlines()))
            version = int(match[1])
    if version < 0:
        return None
    checksum = f"{version:020d}.crc"
    sums = json.loads(_read(filesystem, f"{folder}/{checksum}")) if checksum in names else {}
    return Logged(
        actions.properties,
        actions.applications,
        actions.said,
        sums.get("numFiles"),
        sums.get("tableSizeBytes"),
    )


class _Actions:
    """What a log's actions come to, taken in their order."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.applications: dict[str, int] = {}
        self.said: str | None = None

    def take(self, actions: Iterable[dict[str, Any]]) -> None:
        for action in actions:
            match action:
                case {"metaData": {"configuration": configuration}}:
                    self.properties = dict(configuration)
                case {"txn": {"appId": application, "version": version}}:
                    self.applications[application] = version
                case {"commitInfo": {"userMetadata": said}}:
                    self.said = said


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
