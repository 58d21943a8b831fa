"""The log: one JSON object a line without a terminal, text on a terminal, libraries included, secrets not."""

import contextlib
import io
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator

import pytest
import structlog
from py4j import protocol as proto
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

from actors.runtime import logs
from pipeline.binlog.events.query_event import Query
from pipeline.config.settings import Secret
from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import Gtid
from pipeline.messages.binlog import CreateTableSelectRead, DdlRead
from pipeline.messages.changes import SchemaChanged


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_each_event_is_one_object_with_the_same_keys() -> None:
    stream = io.StringIO()
    logs.configure("shop", stream)
    structlog.get_logger("actors.runtime.supervisor").info("restarting", group="capture")
    (line,) = lines(stream)
    assert str(line.pop("timestamp")).endswith("Z")
    assert line == {
        "event": "restarting",
        "group": "capture",
        "level": "info",
        "logger": "actors.runtime.supervisor",
        "pipeline": "shop",
    }


def test_a_traceback_stays_in_its_line() -> None:
    stream = io.StringIO()
    logs.configure("shop", stream)
    try:
        raise ValueError("odd")
    except ValueError as error:
        structlog.get_logger("actors.runtime.supervisor").error("failed", exc_info=error)
    (line,) = lines(stream)
    assert "ValueError: odd" in str(line["exception"])


def test_libraries_warnings_are_logged_alike_and_their_chatter_is_not() -> None:
    stream = io.StringIO()
    logs.configure("shop", stream)
    logging.getLogger("aiohttp.server").info("chatter")
    logging.getLogger("aiohttp.server").warning("odd request")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["logger"]) == ("odd request", "warning", "aiohttp.server")


def _hang_up(listening: socket.socket) -> None:
    """End each connection without an answer."""
    with contextlib.suppress(OSError):  # it listens no more
        while True:
            listening.accept()[0].close()


def test_a_call_of_sparks_that_failed_is_no_line_since_its_caller_has_the_error() -> None:
    """A clean stop ends Spark's JVM amid its calls; Py4J would log each of them as an error with a traceback."""
    stream = io.StringIO()
    logs.configure("shop", stream)
    with socket.create_server(("127.0.0.1", 0)) as jvm:
        java = JavaParameters(port=jvm.getsockname()[1])
        spark = ClientServer(java, PythonParameters(port=0, eager_load=False))
        threading.Thread(target=_hang_up, args=(jvm,), daemon=True).start()
        assert spark._gateway_client.send_command("call") == proto.ERROR  # its caller raises Py4JError
        jvm.shutdown(socket.SHUT_RDWR)
    assert lines(stream) == []


def test_a_terminal_gets_text() -> None:
    stream = Terminal()
    logs.configure("shop", stream)
    structlog.get_logger("actors.http.server").info("listening", url="here")
    assert "listening" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_traceback_shows_no_values_and_a_message_no_statement(stream: io.StringIO) -> None:
    """CREATE USER comes through the log with its password."""
    logs.configure("shop", stream)
    gtid, end = Gtid.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:7"), Coordinates("binlog.000001", 400)
    text = "CREATE USER u IDENTIFIED BY 'geheim'"
    messages = (
        DdlRead(gtid, 0, "shop", text, end),
        CreateTableSelectRead("shop", text),
        SchemaChanged(gtid, frozenset(), text, end),
        Query("shop", text, None, strict=True),
    )
    try:
        raise ValueError(f"odd: {messages}")
    except ValueError as error:
        structlog.get_logger("actors.runtime.supervisor").error("failed", error=str(error), exc_info=error)
    assert "ValueError: odd" in stream.getvalue()
    assert "geheim" not in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_what_libraries_say_of_a_value_is_left_out(stream: io.StringIO) -> None:
    logs.configure("shop", stream)
    structlog.get_logger("actors.runtime.supervisor").error("failed", exc_info=KeyError("CANARY"))
    logging.getLogger("asyncio").error(
        "never retrieved\nfuture: %r", ValueError("CANARY"), exc_info=OSError(5, "x")
    )
    assert "KeyError" in stream.getvalue()
    assert "never retrieved" in stream.getvalue()
    assert "CANARY" not in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_line_is_a_line_whatever_is_in_it(stream: io.StringIO) -> None:
    """A table's name may hold any character, and an error may name a table."""
    logs.configure("shop", stream)
    forged = "a\n2026-01-01 [info] forged\r\x1b[2J\x9b1A\x85\u2028\u202eb\x00"
    log = structlog.get_logger("actors.runtime.supervisor")
    log.error("failed", error=forged)
    log.error(forged)
    log.error("failed", exc_info=Definite(forged))
    written = stream.getvalue()
    if isinstance(stream, Terminal):
        written = re.sub(r"\x1b\[[\d;]*m", "", written)  # its own colours
        assert [
            line for line in written.split("\n") if "forged" in line and line.startswith("2026-01-01")
        ] == []
    else:
        assert all(json.loads(line)["level"] == "error" for line in written.splitlines())
    assert not set(written) & set(forged) - set("\n") - set(map(chr, range(32, 127)))


def test_secrets_are_stars() -> None:
    stream = io.StringIO()
    logs.configure("shop", stream)
    structlog.get_logger("actors.http.server").info("connecting", password=Secret("geheim"))
    assert "geheim" not in stream.getvalue()
