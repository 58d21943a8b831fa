"""The journal's files.

    journal.json                        whose journal this is: an id made with it, and the pipeline's name
    lock                                held by the one process that writes
    segments/000000000007/*.parquet     a segment's files
    manifest/000000000007.json          its entry, which makes it exist

A segment is written under a name that nobody reads (`….tmp`), made durable, and renamed; last of all its
entry, in the same way. So a crash at any moment leaves either the entry with all that it names, or leftovers
that the next `recover` removes. An entry that's published and can't be read is no crash's doing, and is
refused by name.

Source for what must be synced and when: POSIX `fsync` and `rename`; a new name is durable once its directory
is.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline import manifest
from pipeline.errors import Definite
from pipeline.journal import Entry, File
from pipeline.manifest import DamagedEntry

_IDENTITY = "journal.json"
_LOCK = "lock"
_MANIFEST = "manifest"
_SEGMENTS = "segments"
_TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which journal it is: a random id, so that a consumer notices another one in its place, and whose it
    is."""

    id: str
    pipeline: str


class JournalReader:
    """What a consumer may do with a journal, in the writer's process or another one."""

    def __init__(self, directory: Path) -> None:
        """Open the journal in this directory. Raises Definite where there's none."""
        self.directory = directory
        self.identity = _read_identity(directory)

    def last_segment(self) -> int:
        """The number of the last segment that no crash can take back, 0 if there's none."""
        manifest_directory = self.directory / _MANIFEST
        # An entry can be seen before its name is durable; a consumer must not get ahead of what survives.
        _sync(manifest_directory)
        return max((int(path.stem) for path in manifest_directory.glob("*.json")), default=0)

    def entries(self, after: int, through: int) -> Iterator[Entry]:
        """The segments with `after` < number <= `through`, in order. Raises Definite where one is damaged or
        gone."""
        for segment in range(after + 1, through + 1):
            yield self.entry(segment)

    def entry(self, segment: int) -> Entry:
        """One segment. Raises Definite where it's damaged or gone."""
        path = self.directory / _MANIFEST / f"{_name(segment)}.json"
        try:
            entry = manifest.from_json(path.read_text())
        except FileNotFoundError as error:
            raise Definite(
                f"{path} is missing from the journal: restore it, or snapshot the tables anew"
            ) from error
        except (DamagedEntry, UnicodeDecodeError) as error:
            raise Definite(f"{path} can't be used: {error}") from error
        if entry.segment != segment:
            raise Definite(f"{path} is the entry of segment {entry.segment}: it was renamed or copied")
        return entry

    def path(self, entry: Entry, file: File) -> Path:
        """Where a segment's file is."""
        return self.directory / _SEGMENTS / _name(entry.segment) / file.path


def _name(segment: int) -> str:
    """Names sort as the numbers do."""
    return f"{segment:012d}"


def _read_identity(directory: Path) -> Identity:
    path = directory / _IDENTITY
    try:
        value = json.loads(path.read_text())
        return Identity(value["id"], value["pipeline"])
    except FileNotFoundError as error:
        raise Definite(f"{directory} holds no journal: {_IDENTITY} is missing") from error
    except (ValueError, KeyError, TypeError) as error:
        raise Definite(f"{path} is damaged: restore it from a copy of the journal") from error


def _sync(directory: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
