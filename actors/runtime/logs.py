"""The log: lines for a reader on a terminal, JSON objects otherwise, on stderr.

docs/logs.md lists the events, with the keys of each. Each line has `timestamp` (UTC), `level`, `event`, `logger` and
`pipeline`. No value of a row and no password is ever logged. A Secret prints as stars. Our own errors are written
without values. Text of libraries, in an exception or in a log line, loses everything that could be a value
(`actors.runtime.redaction`). One event is one line. JSON escapes control characters by itself. For a terminal they're
escaped here, so that no table name moves its cursor or looks like another line.
"""

import logging
import sys
import unicodedata
from typing import Any, Final, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, Processor

from actors.runtime import measuring
from actors.runtime.recent_events import RecentEvents
from actors.runtime.redaction import redacted_traceback, without_values

OURS: Final = ("actors", "pipeline")


def configure(pipeline: str, stream: TextIO = sys.stderr, recent: RecentEvents | None = None) -> None:
    """Send everything that's logged, libraries' warnings included, to the stream; `recent` remembers ours."""
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if stream.isatty():
        rendered: list[Processor] = [
            _without_control_characters,
            structlog.dev.ConsoleRenderer(exception_formatter=_traceback_on_terminal),
        ]
    else:
        rendered = [
            structlog.processors.ExceptionRenderer(_traceback),
            structlog.processors.JSONRenderer(),
        ]
    handler = _Handler(stream)
    handler.addFilter(_is_no_failed_call)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, _library_line],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for ours in OURS:
        logging.getLogger(ours).setLevel(logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *common,
            *([recent] if recent is not None else []),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=Unfailing,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(pipeline=pipeline)


class Unfailing(structlog.stdlib.BoundLogger):
    """A logger whose own errors don't reach its caller."""

    def _proxy_to_logger(self, method_name: str, event: str | None = None, *args: Any, **more: Any) -> Any:
        try:
            return super()._proxy_to_logger(method_name, event, *args, **more)
        except Exception as error:  # noqa: BLE001 - the work continues after any error
            measuring.count_failure("the log", error)


class _Handler(logging.StreamHandler[TextIO]):
    """Writes lines; one that it fails to write is counted."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - logging's own names
        """Count the error; `logging` would print it with values."""
        error = sys.exc_info()[1]
        if isinstance(error, Exception):
            measuring.count_failure("the log's lines", error)


def _is_no_failed_call(record: logging.LogRecord) -> bool:
    """Whether it isn't Py4J's line of a failed call. The caller has the error, and knows whether Spark was to end."""
    return (record.name, record.module, record.msg) != (
        "root",
        "java_gateway",
        "Exception while sending command.",
    )


def _library_line(_logger: object, _level: str, event: EventDict) -> EventDict:
    """Formats a line of a library, which may quote any value."""
    event["event"] = without_values(str(event["event"]))
    return event


def _traceback(exc_info: ExcInfo) -> str:
    return redacted_traceback(exc_info[1])


def _traceback_on_terminal(stream: TextIO, exc_info: ExcInfo) -> None:
    stream.writelines(
        f"\n    {escape_controls(line)}" for line in redacted_traceback(exc_info[1]).splitlines()
    )


def _without_control_characters(_logger: object, _level: str, event: EventDict) -> EventDict:
    return {
        key: value if key.startswith("_") or key == "exc_info" else escape_controls(str(value))
        for key, value in event.items()
    }


def escape_in_lines(text: str) -> str:
    """Returns a text for a terminal: of its control characters only the ends of lines stay."""
    return "\n".join(map(escape_controls, text.split("\n")))


def escape_controls(text: str) -> str:
    """Returns a text for a terminal: control characters (Unicode's Cc, so that C1's are among them) and line separators
    as Python writes them."""
    return "".join(
        repr(each)[1:-1] if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp") else each for each in text
    )
