"""What may be told of an error: its words, and no value that it carries, which may be a row's.

Errors of our own are written so that they hold none, and the operating system's name files and addresses. What Python,
pyarrow, Spark and other libraries say of a value quotes it, though: `Could not convert 'Smith' with type str`,
`KeyError: 'Smith'`, `Integer value 4711 not in range`. So in others' texts quotations and numbers are left out. What
stays says what happened, and the traceback where.
"""

import re
import traceback
from typing import Final

from pipeline.errors import TidemarkError

LEFT_OUT: Final = "…"


class Plain(Exception):
    """An actor's own finding, whose words hold no value; it's of none of the core's kinds."""


# A text that holds a value holds quotation marks as well, maybe; so a quotation ends at the last mark there is.
# An apostrophe within a word begins none.
_QUOTATION: Final = re.compile(r"(?<!\w)['\"`].*['\"`]", re.DOTALL)
_NUMBER: Final = re.compile(r"(?<![\w.])[+-]?\d[\d.,:]*(?!\w)")

# Spark's errors go on for pages, with the JVM's stack.
_LONGEST: Final = 500
# So many errors a story is of at the most: what's tried again and again has what it failed of before for its context.
_MOST: Final = 50


def without_values(text: str) -> str:
    """The first line or so of a text, without what's quoted and without numbers."""
    text = _NUMBER.sub(LEFT_OUT, _QUOTATION.sub(f"'{LEFT_OUT}'", text)).strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} {LEFT_OUT}"


def safe_message(error: BaseException) -> str:
    """An error's text, by its type where there's none or where it isn't one of ours."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, TidemarkError | OSError | Plain):
        return text or name
    return f"{name}: {without_values(text)}" if text else name


def story(error: BaseException) -> str:
    """The traceback of an error and of what led to it, the first cause first, without values.

    Each error is told once: what a group of tasks is left by has that group for its cause, which has it in turn.
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
