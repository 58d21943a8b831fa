"""What commits have written, by their actions. Delta's own commits: tests/integration/lake/test_maintenance.py."""

import json
from typing import Any

from pipeline.lake.files.written_files import WrittenFiles, added_paths, written_files

Action = dict[str, Any]


def add(path: str, size: int, vector: str | None = None, *, inline: bool = False) -> Action:
    file: Action = {"path": path, "size": size}
    if vector is not None:
        kind = "i" if inline else "u"
        file["deletionVector"] = {"storageType": kind, "pathOrInlineDv": vector, "sizeInBytes": 40}
    return {"add": file}


def remove(path: str) -> Action:
    return {"remove": {"path": path}}


def txn(application: str) -> Action:
    return {"txn": {"appId": application, "version": 1}}


def test_a_commit_has_its_new_files_and_its_own_two() -> None:
    assert written_files([[add("a", 10), add("b", 20)], [add("c", 5), remove("a")]], ()) == WrittenFiles(
        7, 35
    )


def test_a_file_of_which_more_rows_are_hidden_is_not_written_again() -> None:
    """Vectors share a file, and one that is in the log itself has none."""
    merge = [
        remove("a%20a"),
        add("a%20a", 10, "file1"),
        remove("b"),
        add("b", 20, "file1"),
        add("new", 7),
        txn("j/merged"),
    ]
    assert written_files([merge], ("j/changes",)) == WrittenFiles(1 + 1 + 2, 7 + 2 * 40)
    assert written_files([[remove("a"), add("a", 10, "inline", inline=True)]], ()) == WrittenFiles()


def test_deliveries_and_what_writes_no_rows_are_left_out() -> None:
    delivery = [add("a", 10), txn("j/changes"), txn("j/after")]
    properties: list[Action] = [{"metaData": {}}, {"commitInfo": {}}]
    assert written_files([delivery, properties, [remove("a")]], ("j/changes", "j/rows")) == WrittenFiles()
    assert written_files([delivery], ("j/rows",)) == WrittenFiles(3, 10)


def test_a_commit_adds_files_and_the_vectors_that_are_not_in_it() -> None:
    vector, uuid = "ab^-aqEH.-t@S}K{vb[*k^", "d2c639aa-8816-431a-aaf6-d3fe2512ff61"  # Delta's own example
    added = [add("a%20a", 10, vector), add("b", 20, vector), add("c", 20, "inline", inline=True)]
    lines = [json.dumps(action) for action in (*added, remove("d"), txn("j/merged"))]
    assert added_paths(lines) == ["a%20a", f"ab/deletion_vector_{uuid}.bin", "b", "c"]
    assert added_paths([lines[0], lines[1][:-1]]) == [], "a power cut may leave a part of a commit"
