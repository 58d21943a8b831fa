"""An S3 server on loopback, and a place in it for each test."""

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

__all__ = ["s3", "s3_server"]


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
