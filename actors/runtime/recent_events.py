"""The last events for the page: lines of the log, kept in a ring.

It has lines of the log and nothing else. So one rule holds for both: no value of a row and no password is ever logged.
Keys and values of a line are shown as text. Tracebacks are left out.
"""

from collections import deque
from collections.abc import MutableMapping
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

MOST_EVENTS: Final = 200
LONGEST_EVENT: Final = 500

_ELSEWHERE: Final = frozenset(
    {"event", "level", "timestamp", "logger", "pipeline", "exc_info", "exception", "stack_info"}
)


class RecentEvents:
    """A processor of structlog's that remembers what passes it. May be called from any thread."""

    def __init__(self) -> None:
        self._events: deque[dict[str, Any]] = deque(maxlen=MOST_EVENTS)
        self._numbers = count(1)

    def __call__(self, _logger: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Remember a line of the log, and let it pass."""
        if not str(event.get("logger", "")).startswith("actors."):
            return event  # libraries' lines are for the log alone
        self._events.append(
            {
                "number": next(self._numbers),
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "level": str(event.get("level", level)),
                "event": _short(event.get("event", "")),
                "more": {key: _short(value) for key, value in event.items() if _is_shown(key, value)},
            }
        )
        return event

    def last(self, after: int = 0) -> list[dict[str, Any]]:
        """Returns the events with a greater number than this one, the oldest first."""
        return [event for event in list(self._events) if event["number"] > after]


def _is_shown(key: str, value: Any) -> bool:
    return key not in _ELSEWHERE and not key.startswith("_") and value is not None


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= LONGEST_EVENT else f"{text[: LONGEST_EVENT - 1]}…"
