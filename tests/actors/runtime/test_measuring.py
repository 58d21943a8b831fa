"""Code that measures or reports: its errors are counted, logged once, and go no further."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from actors.runtime import logs, measuring
from actors.runtime.recent_events import RecentEvents

pytestmark = pytest.mark.measuring_fails


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What's logged."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = root.handlers, root.level
    logs.configure("shop", stream)
    yield stream
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_an_error_is_counted_and_told_once_for_each_place_and_type(lines: io.StringIO) -> None:
    @measuring.contain_errors
    def breaks(error: Exception) -> None:
        raise error

    before = measuring.failure_count()
    for error in (ValueError("4711"), ValueError("4712"), KeyError("4713")):
        breaks(error)
    assert measuring.failure_count() == before + 3
    told = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(line["event"], line["level"]) for line in told] == [("measuring failed", "error")] * 2
    assert all(line["place"].endswith("breaks") for line in told)
    assert ["ValueError" in line["exception"] for line in told] == [True, False]
    assert "471" not in lines.getvalue()


def test_what_cannot_be_told_is_told_otherwise() -> None:
    before = measuring.failure_count()
    assert measuring.value_or("here", lambda: 1, 2) == 1
    assert measuring.value_or("here", lambda: 1 // 0, 2) == 2
    assert measuring.failure_count() == before + 1


def test_nobody_who_works_can_be_interrupted_less() -> None:
    @measuring.contain_errors
    def ended() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ended()


def test_a_log_that_fails_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Unwritable(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError("no space left")

    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    recent, before = RecentEvents(), measuring.failure_count()
    try:
        logs.configure("shop", Unwritable(), recent)
        structlog.get_logger("actors.runtime.supervisor").info("stopping")
        assert measuring.failure_count() > before  # its line, and that this couldn't be logged
        monkeypatch.setattr(RecentEvents, "__call__", lambda *_: 1 / 0)
        before = measuring.failure_count()
        structlog.get_logger("actors.runtime.supervisor").info("stopping")
        assert measuring.failure_count() > before
    finally:
        root.handlers = handlers
        root.setLevel(level)
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
