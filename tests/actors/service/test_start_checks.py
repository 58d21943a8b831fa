"""What a start finds wrong on this machine; `tests/integration/service` has the servers."""

import os
import re
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.journal.store import JournalStore
from actors.runtime.secret_files import read_secret
from actors.service.start_checks import OLDEST_JAVA, lake_findings, local_findings, refuse_lake
from pipeline.config.s3_environment import LOG_STORE_JAR
from pipeline.config.settings import (
    HttpSettings,
    HttpTlsSettings,
    JournalSettings,
    LakeSettings,
    Settings,
    SignalSettings,
    SourceSettings,
    SparkSettings,
    TlsSettings,
)
from pipeline.errors import Definite
from pipeline.schema.table_filter import TableFilter
from pipeline.source.finding import Severity
from tests.servers.certificates import certificate


def test_what_is_wrong_here_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    settings = Settings(
        "shop",
        TableFilter(("a.b",)),
        SourceSettings("db", "u", server_id=1),
        JournalSettings(str(tmp_path / "file" / "journal")),
        LakeSettings(str(tmp_path / "lake")),
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


def test_folders_from_which_no_library_is_loaded_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java needs one of the two, unless another one is named."""
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    settings = replace(fit(tmp_path), lake=LakeSettings(str(tmp_path / "lake")))
    before, noexec, statvfs = list(local_findings(settings)), {tmp_path}, os.statvfs

    def mounted(path: Path) -> object:
        return SimpleNamespace(f_flag=os.ST_NOEXEC if path in noexec else statvfs(path).f_flag)

    monkeypatch.setattr(os, "statvfs", mounted)
    assert list(local_findings(settings)) == before, "Java has another one"
    noexec.add(Path("/tmp"))
    [found] = [each for each in local_findings(settings) if each not in before]
    assert found.severity is Severity.ERROR
    assert f"{tmp_path}/journal/spark/tmp and /tmp are mounted noexec" in found.wrong
    other = {"spark.driver.extraJavaOptions": "-Djava.io.tmpdir=/opt/java"}
    assert list(local_findings(replace(settings, spark=SparkSettings(conf=other)))) == before
    assert list(local_findings(replace(settings, spark=SparkSettings("sc://spark")))) == before
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djava.io.tmpdir=/opt/java")
    assert list(local_findings(settings)) == before


def fit(folder: Path) -> Settings:
    """Settings with which nothing is wrong here; they need no Java."""
    return Settings(
        "shop",
        TableFilter(("a.b",)),
        SourceSettings("db", "u", server_id=1),
        JournalSettings(str(folder / "journal")),
    )


def told(settings: Settings) -> list[str]:
    return [f"{finding.severity}: {finding.wrong}" for finding in local_findings(settings)]


def test_with_what_is_fit_nothing_is_wrong(tmp_path: Path) -> None:
    settings = fit(tmp_path)
    JournalStore.open_single_writer(settings.journal.path, "shop").close()
    assert told(settings) == []


def test_a_journal_in_use_names_who_has_it(tmp_path: Path) -> None:
    settings = fit(tmp_path)
    store = JournalStore.open_single_writer(settings.journal.path, "shop")
    (line,) = told(settings)
    store.close()
    assert line.startswith("error: journal.path: ") and f"in use by process {os.getpid()} on" in line


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (line,) = told(replace(fit(tmp_path), http=HttpSettings(port=port)))
    assert line == f"error: http: 127.0.0.1:{port} can't be listened on (Address already in use)"


def test_a_secret_that_others_may_read(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret")
    settings = fit(tmp_path)
    settings = replace(settings, source=replace(settings.source, password=read_secret(file)))
    file.chmod(0o644)
    assert told(settings) == [f"warning: source.password_file: every user of this machine may read {file}"]
    file.chmod(0o640)
    assert told(settings) == []


@pytest.mark.parametrize(
    ("text", "wrong"), [(None, "can't be read (No such file"), ("no PEM", "has no certificate")]
)
def test_certificates_that_are_none(tmp_path: Path, text: str | None, wrong: str) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    settings = fit(tmp_path)
    (line,) = told(replace(settings, source=replace(settings.source, tls=TlsSettings(ca=file))))
    assert line.startswith(f"error: source.tls.ca: {file} {wrong}")


def test_the_folder_of_signals_and_what_is_no_file_there(tmp_path: Path) -> None:
    settings = replace(fit(tmp_path), signals=SignalSettings(tmp_path / "file" / "signals.jsonl"))
    (tmp_path / "file").touch()
    assert told(settings) == [f"error: signals.file: {tmp_path / 'file'} is no folder"]
    (tmp_path / "file").unlink()
    assert told(settings) == []
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / "signals.jsonl.answers").symlink_to(tmp_path / "elsewhere")
    assert [line.partition("signals.jsonl")[2] for line in told(settings)] == [".answers is no regular file"]


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("hdfs://house/lake", "lake.path: hdfs:// isn't supported"),
        ("s3://lake/x", "lake.path: Spark knows no s3://"),
        ("s3a://lake/x?region=eu-central-1", "lake.path: s3a://lake/x has options after it"),
        ("s3a://lake/x", "lake.path: Spark needs hadoop-aws for s3a://"),
        ("gs://lake/x", "lake.path: Spark needs gcs-connector for gs://"),
    ],
)
def test_a_lake_that_spark_or_pyarrow_cannot_reach_ends_a_run_before_it_begins(path: str, wrong: str) -> None:
    (finding,) = lake_findings(LakeSettings(path), SparkSettings())
    assert finding.wrong.startswith(wrong)
    with pytest.raises(Definite, match=re.escape(wrong)):
        refuse_lake(LakeSettings(path), SparkSettings())


def test_what_keeps_two_writers_in_s3_apart_must_be_there(tmp_path: Path) -> None:
    lake, jars = LakeSettings("s3a://lake/x"), SparkSettings(jars=(tmp_path,))
    (tmp_path / "hadoop-aws-3.5.0.jar").touch()
    with pytest.raises(Definite, match="one writer in S3 may overwrite a commit"):
        refuse_lake(lake, jars)
    other = {"spark.delta.logStore.s3a.impl": "io.delta.storage.S3DynamoDBLogStore"}
    refuse_lake(lake, replace(jars, conf=other))
    (tmp_path / LOG_STORE_JAR).touch()
    refuse_lake(lake, jars)


def test_a_store_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("When listing objects: AWS Error ACCESS_DENIED")

    monkeypatch.setattr("actors.service.start_checks.list_folder", refuse)
    for jar in ("hadoop-aws-3.5.0.jar", LOG_STORE_JAR):
        (tmp_path / jar).touch()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    (finding,) = lake_findings(LakeSettings("s3a://lake/x"), SparkSettings(jars=(tmp_path,)))
    assert "can't list it: When listing objects: AWS Error ACCESS_DENIED" in finding.wrong


def test_a_service_beyond_loopback_is_reminded_of_tls(tmp_path: Path) -> None:
    settings = replace(fit(tmp_path), http=HttpSettings(host="0.0.0.0"))
    assert told(settings) == ["note: http.host: at 0.0.0.0 tokens and rows cross the network unencrypted"]
    certificate(tmp_path, "127.0.0.1")
    (tmp_path / "server.pem").chmod(0o600)
    tls = HttpTlsSettings(tmp_path / "server.pem")
    (line,) = told(replace(settings, http=HttpSettings("0.0.0.0", tls=tls)))
    assert line == f"warning: http.tls.certificate: {tmp_path / 'server.pem'} ends in 0 days"
