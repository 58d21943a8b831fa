"""What a start finds wrong on this machine; `tests/integration/service` has the servers."""

from pathlib import Path

import pytest

from actors.service.start_checks import OLDEST_JAVA, local_findings
from pipeline.config.settings import JournalSettings, LakeSettings, Settings, SourceSettings
from pipeline.schema.table_filter import TableFilter
from pipeline.source.prerequisites import Severity


def test_what_is_wrong_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    settings = Settings(
        "shop",
        TableFilter(("a.b",)),
        SourceSettings("db", "u", server_id=1),
        JournalSettings(str(tmp_path / "file" / "journal")),
        LakeSettings("s3a://lake"),
    )
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    folder, version = local_findings(settings)
    assert folder.severity is Severity.ERROR
    assert "journal.path" in folder.wrong
    assert "11.0.2" in version.wrong
    assert str(OLDEST_JAVA) in version.remedy
