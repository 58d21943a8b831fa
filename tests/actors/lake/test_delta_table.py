"""What of a Delta table needs no Spark; the rest is in tests/integration/lake/test_lake.py."""

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from actors.lake import delta_table
from actors.lake.delta_table import DeltaTable
from actors.lake.files import file_placement
from actors.lake.files.file_placement import LakeFiles


def test_a_checkpoint_syncs_no_commit_again_while_batches_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, files, synced = str(tmp_path), LakeFiles(MagicMock()), list[str]()
    monkeypatch.setattr(delta_table, "_locks_commits", lambda _: True)
    monkeypatch.setattr(file_placement, "sync", lambda path: synced.append(Path(path).name))
    log = tmp_path / "_delta_log"
    log.mkdir()

    def commit(version: int) -> None:
        (log / f"{version:020}.json").touch()
        files.sync_commit(path, version)

    for version in range(3):
        commit(version)
    synced.clear()
    table = DeltaTable(MagicMock(), path, files.sync_earlier)
    deltas = table._log()
    deltas.update.return_value.version.return_value = 2
    deltas.writeCheckpointFiles.side_effect = lambda *_: commit(3)
    table.checkpoint()
    commit(4)
    assert synced == [
        f"{3:020}.json",
        "_delta_log",
        "_last_checkpoint",
        "_delta_log",
        f"{4:020}.json",
        "_delta_log",
    ]
