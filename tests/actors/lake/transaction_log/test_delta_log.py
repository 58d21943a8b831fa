"""What a table's log says to a reader without Spark. Delta's own logs:
tests/integration/lake/test_live_view_text.py."""

import json
from pathlib import Path

import pytest

from actors.lake.transaction_log import delta_log
from actors.lake.transaction_log.delta_log import (
    LOOKED_BACK,
    is_restored,
    last_report,
    logged_files,
    newest_commits,
    read_version,
    report_at,
    was_restored_since,
)


def test_what_the_last_commit_that_says_anything_says(tmp_path: Path) -> None:
    assert last_report(str(tmp_path)) is None
    log = tmp_path / "_delta_log"
    log.mkdir()
    told = [{"userMetadata": "first"}, {"userMetadata": "last"}, {"operation": "OPTIMIZE"}]
    for version, info in enumerate(told):
        lines = [json.dumps({"commitInfo": info}), json.dumps({"txn": {"appId": "a", "version": version}})]
        (log / f"{version:020}.json").write_text("\n".join(lines))
    assert last_report(str(tmp_path)) == "last"
    found = read_version(str(tmp_path))
    assert found is not None
    assert (found.version, found.applications) == (2, {"a": 2})
    # Delta overwrites this one in place: it may be half there, or name a checkpoint that came after the listing.
    for half in ("", '{"version": 9, "size": 1}'):
        (log / "_last_checkpoint").write_text(half)
        assert read_version(str(tmp_path)) == found


def test_a_checkpoint_of_the_newer_kind_has_what_the_commits_before_it_had(tmp_path: Path) -> None:
    """Of two of one version each is whole; of a classic one all parts have to be there."""
    log, metadata = tmp_path / "_delta_log", {"configuration": {"a": "b"}, "schemaString": "{}"}
    log.mkdir()
    actions = [{"checkpointMetadata": {"version": 7}}, {"metaData": metadata}]
    actions += [{"txn": {"appId": "j/changes", "version": 5}}, {"sidecar": {"path": "s.parquet"}}]
    (log / f"{8:020}.json").write_text(json.dumps({"txn": {"appId": "j/after", "version": 4}}))
    for uuid in ("3a0d65cd-4056-49b8-937b-95f9e3ee90e5", "80a083e8-7026-4e79-81be-64bd76c43a11"):
        path = log / f"{7:020}.checkpoint.{uuid}.json"
        path.write_text("\n".join(map(json.dumps, actions)))
        (log / f"{7:020}.checkpoint.0000000001.0000000002.parquet").touch()
        found = read_version(str(tmp_path))
        assert found is not None
        assert (found.version, found.properties) == (8, {"a": "b"})
        assert found.applications == {"j/changes": 5, "j/after": 4}


@pytest.mark.parametrize("operation", ["RESTORE", "CLONE"])
def test_a_restore_is_found_behind_what_others_have_committed_since(tmp_path: Path, operation: str) -> None:
    log, own, theirs = tmp_path / "_delta_log", {"txn": {"appId": "j/changes"}}, {"txn": {"appId": "jj"}}
    log.mkdir()
    commits = [
        [{"commitInfo": {"operation": "WRITE"}}, own],
        [{"commitInfo": {"operation": operation}}],
        [{"commitInfo": {"operation": "OPTIMIZE"}}],
        [{"commitInfo": {"operation": "WRITE"}}, theirs],
        [{"commitInfo": {"operation": "WRITE"}}, own],
        [{"commitInfo": {"operation": "SET TBLPROPERTIES"}}],
    ]
    for version, actions in enumerate(commits):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    found = [is_restored(str(tmp_path), version, "j/") for version in range(len(commits))]
    assert found == [False, True, True, True, False, False]
    since = [
        was_restored_since(str(tmp_path), len(commits) - 1, looked) for looked in range(-1, len(commits))
    ]
    assert since == [True, True, False, False, False, False, False], "also behind one of our own"
    (log / f"{1:020}.json").unlink()  # it has expired
    assert not is_restored(str(tmp_path), 3, "j/")


def test_the_report_of_the_commit_with_which_an_application_has_got_somewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit(told: dict[str, object], **marks: int) -> list[dict[str, object]]:
        txns: list[dict[str, object]] = [{"txn": {"appId": a, "version": v}} for a, v in marks.items()]
        return [{"commitInfo": told}, *txns]

    table = logged(
        tmp_path,
        commit({"userMetadata": "three"}, after=1, changes=3),
        commit({"userMetadata": "merged"}, merged=5),
        commit({"operation": "WRITE"}, changes=5),
        commit({"operation": "OPTIMIZE"}),
    )
    found = [report_at(table, version, "changes", 3) for version in range(4)]
    assert found == ["three"] * 4
    assert report_at(table, 3, "changes", 5) is None
    assert report_at(table, 3, "changes", 4) is None
    monkeypatch.setattr(delta_log, "LOOKED_BACK", 3)
    assert report_at(table, 3, "changes", 3) is None
    monkeypatch.undo()
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()  # it has expired
    assert report_at(table, 3, "changes", 3) is None


def logged(folder: Path, *commits: list[dict[str, object]]) -> str:
    """The path of a table with these commits."""
    log = folder / "_delta_log"
    log.mkdir()
    for version, actions in enumerate(commits):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def add(path: str, **more: object) -> dict[str, object]:
    return {"add": {"path": path, **more}}


def remove(path: str) -> dict[str, object]:
    return {"remove": {"path": path}}


def test_files_are_those_that_no_later_commit_has_removed(tmp_path: Path) -> None:
    vector = {"storageType": "u"}
    table = logged(
        tmp_path,
        [add("a"), add("b%20b")],
        [add("c")],
        [remove("b b"), add("b%20b", deletionVector=vector)],
        [remove("a")],
        [{"commitInfo": {"operation": "RESTORE"}}, remove("c"), add("a", dataChange=True)],
    )

    def paths(version: int) -> set[str] | None:
        files = logged_files(table, version)
        return (
            None if files is None else {f"{file['path']}{'-' * ('deletionVector' in file)}" for file in files}
        )

    assert [paths(version) for version in range(5)] == [
        {"a", "b%20b"},
        {"a", "b%20b", "c"},
        {"a", "b%20b-", "c"},
        {"b%20b-", "c"},
        {"b%20b-", "a"},
    ]
    found = logged_files(table, 3, lambda commit: add("c") in commit)
    assert found == [{"path": "b%20b", "deletionVector": vector}]


def test_files_are_not_listed_by_too_many_commits_or_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = logged(tmp_path, [add("a")], [add("b")])
    for bound, most in (("MOST_COMMITS_READ", 1), ("MOST_COMMIT_BYTES", 1)):
        with monkeypatch.context() as patched:
            patched.setattr(delta_log, bound, most)
            assert logged_files(table, 1) is None
            assert logged_files(table, 1, lambda _: False) is None
    monkeypatch.setattr(delta_log, "MOST_COMMITS_READ", 2)
    assert logged_files(table, 1) == [{"path": "b"}, {"path": "a"}]
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert logged_files(table, 1) is None
    assert logged_files(table, 1, lambda commit: add("b") in commit) == []


def test_the_newest_commits_are_those_that_are_asked_for_and_a_bounded_number(tmp_path: Path) -> None:
    commits = [[add("a")], [add("b"), remove("a")], [add("c")]]
    table = logged(tmp_path, *commits)
    found = [list(newest_commits(table, 2, most)) for most in range(-1, 5)]
    assert found == [[], [], commits[:1:-1], commits[:0:-1], commits[::-1], commits[::-1]]
    many = tmp_path / "many"
    many.mkdir()
    table = logged(many, *([add(str(number))] for number in range(3 * LOOKED_BACK)))
    read = list(newest_commits(table, 3 * LOOKED_BACK - 1, 2 * LOOKED_BACK))
    assert read == [[add(str(number))] for number in reversed(range(2 * LOOKED_BACK, 3 * LOOKED_BACK))]
