"""The log: lines for a reader on a terminal, JSON objects otherwise, on stderr.

Keys that stay the same: `timestamp` (UTC), `level`, `event`, `logger`, and where they apply `pipeline`,
`who`, `kind`, `error`, `table`, `id`. No value of a row and no password is ever logged; a Secret prints as
stars.
"""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

from actors.recent import Recent


def configure(pipeline: str, stream: TextIO = sys.stderr, recent: Recent | None = None) -> None:
    """Send everything that's logged, libraries' warnings included, to the stream; `recent` remembers ours."""
    common: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if stream.isatty():
        # Its other tracebacks show the values of variables, which hold rows, passwords and statements.
        rendered: list[Processor] = [
            structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        ]
    else:
        rendered = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=common,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("actors", "pipeline"):
        logging.getLogger(ours).setLevel(logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *common,
            *([recent] if recent is not None else []),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(pipeline=pipeline)
