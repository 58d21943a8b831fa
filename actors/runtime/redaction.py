"""The safe part of an error: its words, without values, which may be a row's.

Errors of our own have none, and the operating system's name files and addresses. But Python, pyarrow, Spark and other
libraries quote a value in their errors: `Could not convert 'Smith' with type str`, `KeyError: 'Smith'`, `Integer value
4711 not in range`. So quotations and numbers are removed from others' texts. The rest says what happened, and the
traceback where.
"""

import re
import traceback
from typing import Final

from pipeline.errors import TidemarkError

REDACTED: Final = "…"


class ActorError(Exception):
    """An actor's own finding, whose words hold no value; it's of none of the core's kinds."""


# A text that holds a value holds quotation marks as well, maybe; so a quotation ends at the last mark there is.
# An apostrophe within a word begins none.
_QUOTATION: Final = re.compile(r"(?<!\w)['\"`].*['\"`]", re.DOTALL)
_NUMBER: Final = re.compile(r"(?<![\w.])[+-]?\d[\d.,:]*(?!\w)")

# Spark's errors have pages, with the JVM's stack.
_LONGEST: Final = 500
# The most errors of a story: a retry has its earlier failure as its context.
_MOST: Final = 50


def without_values(text: str) -> str:
    """Returns the first line or so of a text, without quotations and numbers."""
    text = _NUMBER.sub(REDACTED, _QUOTATION.sub(f"'{REDACTED}'", text)).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} {REDACTED}"


def safe_message(error: BaseException) -> str:
    """An error's text, by its type where there's none or where it isn't one of ours."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, TidemarkError | OSError | ActorError):
        return text or name
    return f"{name}: {without_values(text)}" if text else name


def redacted_traceback(error: BaseException) -> str:
    """Returns the traceback of an error and of its causes, the first cause first, without values.

    Each error appears once: an error that leaves a group of tasks has that group as its cause, which contains it in
    turn.
    """
    return "\n".join(_story(error, set()))


def _story(error: BaseException, heard: set[int]) -> list[str]:
    heard.add(id(error))
    parts = []
    earlier = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if earlier is not None and _is_news(earlier, heard):
        parts += [*_story(earlier, heard), "", "which led to:", ""]
    parts += [line.rstrip() for line in traceback.format_tb(error.__traceback__)]
    name = type(error).__name__
    parts.append(
        safe_message(error) if safe_message(error).startswith(name) else f"{name}: {safe_message(error)}"
    )
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            if _is_news(each, heard):
                parts += ["one of them:", *_story(each, heard)]
    return parts


def _is_news(error: BaseException, heard: set[int]) -> bool:
    return id(error) not in heard and len(heard) < _MOST
