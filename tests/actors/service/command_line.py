"""The command line as a program in this process, and a service that always gives one answer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from click.testing import CliRunner, Result

from actors.service.cli import main

GOOD = """
name = "shop"
tables = ["shop\\\\..*"]
source = { host = "127.0.0.1", port = 1, user = "tidemark", server_id = 7, connect_timeout_s = 1 }
journal = { path = "journal" }
lake = { path = "lake" }
"""


def tidemark(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@contextmanager
def answering(status: int, body: str, posted: list[Any] | None = None) -> Iterator[int]:
    """Runs a server that answers everything in this way, and keeps what's `posted`; yields its port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def do_POST(self) -> None:
            assert posted is not None
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
