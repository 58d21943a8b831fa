"""What a table's log says to a reader without Spark. Delta's own logs:
tests/integration/lake/test_live_view_text.py."""

import json
from pathlib import Path

from actors.lake.delta_log import last_report, read_version


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
