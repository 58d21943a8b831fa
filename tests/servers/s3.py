"""An S3 server on loopback, and a place in it for each test."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

__all__ = ["S3Lake", "s3", "s3_lake", "s3_server"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """One server for the whole session, in a thread; where it listens."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "tidemark")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "tidemark")
        environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, request: pytest.FixtureRequest) -> str:
    """The URI of a place that's this test's own."""
    bucket = f"b{abs(hash(request.node.nodeid)):x}"
    return (
        f"s3://{bucket}/journal?endpoint_override={s3_server}&scheme=http&region=us-east-1&"
        "allow_bucket_creation=true"
    )


@dataclass(frozen=True, slots=True)
class S3Lake:
    """A place for a lake: a bucket at an endpoint (a URL)."""

    bucket: str
    endpoint: str

    @property
    def path(self) -> str:
        """The lake's path, as Spark has it."""
        return f"s3a://{self.bucket}/lake"

    def copy(self, folder: Path) -> str:
        """Copy the whole lake into a folder, which other engines read."""
        fs.copy_files(f"{self.bucket}/lake", str(folder), self._filesystem(), fs.LocalFileSystem())
        return str(folder)

    def make(self) -> None:
        """Make the bucket."""
        self._filesystem().create_dir(self.bucket)

    def _filesystem(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            endpoint_override=self.endpoint, region="us-east-1", allow_bucket_creation=True
        )


@pytest.fixture
def s3_lake(s3_server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> S3Lake:
    """A bucket of this test's own, which the environment leads to, for it and for the programs that it starts."""
    lake = S3Lake(f"b{abs(hash(request.node.nodeid)):x}", f"http://{s3_server}")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", lake.endpoint)
    lake.make()
    return lake
