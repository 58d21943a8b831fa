"""What commits have written into a Delta table: files of rows and of deletion vectors.

A commit that hides more rows of a file removes the file and adds it again, with another deletion vector. Then only the
vector is written. One file may have several vectors.

Source: Delta transaction log protocol (PROTOCOL.md in delta-io/delta): Add File and Remove File, Deletion Vectors.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.lake.mirrors.deletion_vector import vector_path

# A commit is a file of actions and a file of their checksum.
FILES_OF_A_COMMIT: Final = 2

# How the log marks a deletion vector that is in a file of the table's own folder.
_IN_A_FILE: Final = "u"


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """How many files commits have written, with their own in the log, and the bytes of rows and deletion vectors."""

    files: int = 0
    bytes: int = 0


def written_files(
    commits: Iterable[Sequence[Mapping[str, Any]]], deliveries: Collection[str]
) -> WrittenFiles:
    """Returns what commits have written, each as its actions, except those that add nothing.

    `deliveries`: applications whose commits are left out.
    """
    files = size = 0
    for actions in commits:
        if any(action["txn"]["appId"] in deliveries for action in actions if "txn" in action):
            continue
        removed = {action["remove"]["path"] for action in actions if "remove" in action}
        added = [action["add"] for action in actions if "add" in action]
        new = [file for file in added if file["path"] not in removed]
        vectors = [vector for file in added if (vector := file.get("deletionVector")) is not None]
        stored = [vector for vector in vectors if vector["storageType"] == _IN_A_FILE]
        if new or stored:
            files += len(new) + len({vector["pathOrInlineDv"] for vector in stored}) + FILES_OF_A_COMMIT
            size += sum(file["size"] for file in new) + sum(vector["sizeInBytes"] for vector in stored)
    return WrittenFiles(files, size)


def added_paths(commit: Iterable[str | bytes]) -> list[str]:
    """Returns the files of rows and of deletion vectors that a commit adds, in the table's folder or from the root, as
    parts of URIs; `commit`: its lines.

    A power cut may leave a part of a commit. Then nobody reads what it adds.
    """
    try:
        added = [told["add"] for told in map(json.loads, commit) if "add" in told]
    except ValueError:
        return []
    vectors = [vector for file in added if (vector := file.get("deletionVector")) is not None]
    return sorted({file["path"] for file in added} | {*filter(None, map(vector_path, vectors))})
