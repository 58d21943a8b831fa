"""`make bench-object_store`: how old a change is when it can be read in a lake in S3, beside the same lake on a disk.

A thousand transactions a second change one row each of a small table, and its mirror merges every twenty seconds. A
life of the service with its lake on the disk and one with its lake in S3 take turns. The store is moto's server, in a
process of its own on this machine: it answers within milliseconds, and shares the cores with all the rest. So the ratio
says what more requests and more work cost, and nothing of the way to a real store. That adds its latency to each of the
requests that a commit makes one after the other.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench import _lake
from bench._command import command_line
from bench._logs import DATABASE
from bench._report import Figure, Peer, say, told
from bench._service import quantile
from bench._snapshots import TABLE, filled_server, writers
from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import locate
from tests.servers.s3 import S3Lake

_ROWS: Final = 10_000
_TRANSACTIONS_PER_S: Final = 1_000
_WATCH_S: Final = 60.0
_MERGE_AFTER_S: Final = 20.0
_TURNS: Final = 2
_FRESH: Final = "fresh"

_STORE: Final = """
import logging
from moto.server import ThreadedMotoServer

logging.disable()
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
input()
"""


def main() -> None:
    """Measure it."""
    watch_s = max(5.0, min(1.0, command_line(__doc__, (_FRESH,)).scale) * _WATCH_S)
    disk, store = list[float](), list[float]()
    with (
        told("object_store") as figures,
        tempfile.TemporaryDirectory(prefix="tidemark-bench-") as folder,
        _served() as lake,
        filled_server(locate(), _ROWS) as mysql,
    ):
        for turn in range(_TURNS):
            disk += _freshness(mysql, Path(folder, f"disk{turn}"), "", watch_s)
            store += _freshness(mysql, Path(folder, f"store{turn}"), f"{lake.path}{turn}", watch_s)
            say(f"  turn {turn + 1} of {_TURNS}; load {os.getloadavg()[0]:.1f}")
        for share in (0.5, 0.99):
            peer = Peer("on a disk", quantile(disk, share))
            name = f"commit to live view in S3, p{100 * share:.0f}"
            figures.append(Figure(name, quantile(store, share), "s", peer))


@contextmanager
def _served() -> Iterator[S3Lake]:
    """A store, which the environment leads to."""
    with subprocess.Popen(
        [sys.executable, "-c", _STORE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            lake = S3Lake("bench", f"http://127.0.0.1:{int(server.stdout.readline())}")
            os.environ |= {
                "AWS_ENDPOINT_URL_S3": lake.endpoint,
                "AWS_ACCESS_KEY_ID": "tidemark",
                "AWS_SECRET_ACCESS_KEY": "tidemark",
                "AWS_EC2_METADATA_DISABLED": "true",
            }
            lake.make()
            yield lake
        finally:
            server.kill()


def _freshness(mysql: MysqlServer, folder: Path, store: str, watch_s: float) -> list[float]:
    """How old changes are in one life of the service."""
    folder.mkdir()
    table, begun = rf"{DATABASE}\.{TABLE}", folder / "begun"
    order = _lake.Order(
        mysql.port,
        str(folder),
        table,
        table,
        watch_s=watch_s,
        merge_after_s=_MERGE_AFTER_S,
        begun=str(begun),
        store=store,
    )
    with ThreadPoolExecutor(1) as running:
        service = running.submit(_lake.deliver, order)
        _lake.wait_for(begun, service)
        with writers(mysql, _ROWS, _TRANSACTIONS_PER_S):
            return service.result().freshness


if __name__ == "__main__":
    main()
