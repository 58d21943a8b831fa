"""The ring of the last events."""

import io
import logging
from collections.abc import Iterator

import pytest
import structlog

from actors.runtime import logs
from actors.runtime.recent_events import LONGEST_EVENT, MOST_EVENTS, RecentEvents


@pytest.fixture
def recent() -> Iterator[RecentEvents]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    ring = RecentEvents()
    logs.configure("shop", io.StringIO(), ring)
    yield ring
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_what_is_logged_is_remembered_as_text(recent: RecentEvents) -> None:
    structlog.get_logger("actors.runtime.supervisor").warning(
        "restarting", group="capture", pause_s=0.5, nothing=None
    )
    (event,) = recent.last()
    assert (event["event"], event["level"], event["number"]) == ("restarting", "warning", 1)
    assert event["more"] == {"group": "capture", "pause_s": "0.5"}
    assert event["at"].endswith("+00:00")


def test_no_traceback_and_no_length_without_bound(recent: RecentEvents) -> None:
    try:
        raise ValueError("geheim")
    except ValueError as error:
        structlog.get_logger("actors.runtime.supervisor").error("failed", error="x" * 10_000, exc_info=error)
    (event,) = recent.last()
    assert "geheim" not in str(event)
    assert len(event["more"]["error"]) == LONGEST_EVENT


def test_the_oldest_go_first_and_what_is_new_can_be_asked_for(recent: RecentEvents) -> None:
    log = structlog.get_logger("actors.http.server")
    for number in range(MOST_EVENTS + 7):
        log.info("seen", at=number)
    events = recent.last()
    assert [event["number"] for event in events] == list(range(8, MOST_EVENTS + 8))
    assert [event["number"] for event in recent.last(MOST_EVENTS + 5)] == [MOST_EVENTS + 6, MOST_EVENTS + 7]


def test_what_is_not_logged_is_not_remembered_and_libraries_neither(recent: RecentEvents) -> None:
    structlog.get_logger("actors.http.server").debug("chatter")
    structlog.get_logger("aiohttp.server").warning("odd request")
    assert recent.last() == []
