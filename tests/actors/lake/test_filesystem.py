"""Lake paths: which are valid, and which of pyarrow's filesystems reads them."""

from pathlib import Path

import pytest
from pyarrow import fs

from actors.lake.filesystem import absent_tables, lake_filesystem
from pipeline.errors import Definite
from pipeline.lake.tables.paths import location
from pipeline.lake.tables.tier import Tier
from pipeline.schema.table_schema import TableId


def test_a_local_path_is_taken_however_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "lake"), "lake", f"file:{tmp_path}/lake", f"file://{tmp_path}/lake"):
        filesystem, folder = lake_filesystem(path)
        assert isinstance(filesystem, fs.LocalFileSystem)
        assert folder == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("path", "kind", "folder"),
    [
        ("s3a://lake/of/shop", "s3", "lake/of/shop"),
        ("s3a://lake/", "s3", "lake"),
        ("gs://lake/of/shop", "gcs", "lake/of/shop"),
        ("abfss://lake@account.dfs.core.windows.net/of/shop", "abfs", "lake/of/shop"),
    ],
)
def test_stores_that_both_spark_and_pyarrow_know_are_taken(
    path: str, kind: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    filesystem, found = lake_filesystem(path)
    assert (filesystem.type_name, found) == (kind, folder)


@pytest.mark.parametrize("path", ["hdfs://names:8020/lake", "dbfs://lake", "abfss://nobody/lake"])
def test_any_other_is_refused_by_its_name(path: str) -> None:
    with pytest.raises(Definite, match=f"{path} can't be reached"):
        lake_filesystem(path)


def test_all_paths_in_a_bucket_share_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    one, another = (lake_filesystem(f"s3a://lake/{name}")[0] for name in ("a", "b"))
    assert one is another
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2")
    assert lake_filesystem("s3a://lake/a")[0] is not one


def test_only_tables_without_a_folder_are_absent(tmp_path: Path) -> None:
    there = {TableId("shop", "orders"), TableId("shop", "o/r d%rs"), TableId("Läden", "x" * 300)}
    elsewhere = {TableId("shop", "order"), TableId("Läden", "orders"), TableId("none", "orders")}
    assert absent_tables(str(tmp_path / "lake"), there) == there
    for table in there:
        Path(location(str(tmp_path / "lake"), table, Tier.MIRROR)).mkdir(parents=True)
    for root in (f"{tmp_path}/lake", f"{tmp_path}/lake/", f"file:{tmp_path}/lake"):
        assert absent_tables(root, there | elsewhere) == elsewhere


def test_no_table_is_absent_where_listings_may_leave_out_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = fs.FileSystem.from_uri("mock://")
    monkeypatch.setattr("actors.lake.filesystem.lake_filesystem", lambda _: (store, "lake/shop"))
    assert absent_tables("gs://lake", [TableId("shop", "orders")]) == frozenset()


def test_no_table_is_absent_from_a_folder_that_cannot_be_listed(tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("no folder")
    orders, other = TableId("shop", "orders"), TableId("other", "orders")
    assert absent_tables(str(tmp_path), [orders, other]) == {other}
