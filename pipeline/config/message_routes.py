"""Where messages go instead of their tables' topics: the options of Debezium's ByLogicalTableRouter.

Regular expressions are Python's here. Replacements are Java's: `$1` and `${name}` stand for what a group matched.

Source: Debezium 3.6, "Topic Routing".
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from pipeline.config.unwrapping import MAY_BE_EMPTY

_JAVA_NAMED = re.compile(r"\(\?<(?=[A-Za-z])")
_REFERENCE = re.compile(r"\$(?:(\d+)|\{(\w+)\})|\\(.)", re.DOTALL | re.ASCII)


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Messages of the topics that `topic_regex` matches as a whole go to the topic `topic_replacement`.

    With `key_enforce_uniqueness` their keys have the field `key_field_name`. It has the topic that they would have gone
    to, or what `key_field_regex` and `key_field_replacement` make of its name.
    """

    topic_regex: str
    topic_replacement: str
    key_enforce_uniqueness: bool = True
    key_field_name: str = "__dbz__physicalTableIdentifier"
    key_field_regex: str | None = None
    key_field_replacement: str = field(default="", metadata=MAY_BE_EMPTY)


def rewritten(text: str, regex: str, replacement: str) -> str | None:
    """What the replacement makes of a text that the expression matches as a whole, None where it doesn't.

    As with Java's `replaceFirst`, it replaces the first match, which may be shorter: that of `a` in `a|ab`.
    """
    compiled = _compiled(regex)
    if compiled.fullmatch(text) is None:
        return None
    return compiled.sub(_template(replacement, compiled.groups), text, count=1)


def mistake_in_rewriting(regex: str, replacement: str) -> str | None:
    """What is wrong with the two, None if nothing is."""
    try:
        compiled = _compiled(regex)
    except re.error as error:
        return f"{regex!r} isn't a regular expression: {error}"
    for number, name, _ in _REFERENCE.findall(replacement):
        group = number[: _digits(number, compiled.groups)] or name
        known = int(group) <= compiled.groups if number else group in compiled.groupindex
        if group and not known:
            return f"{replacement!r} names the group {group}, which {regex!r} hasn't"
    return None


@lru_cache(maxsize=1024)
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(_JAVA_NAMED.sub("(?P<", regex))


def _digits(number: str, groups: int) -> int:
    """How many of the digits name a group: Java takes a further one only if there's such a group."""
    return next((end for end in range(1, len(number)) if int(number[: end + 1]) > groups), len(number))


def _template(replacement: str, groups: int) -> str:
    """The replacement in Python's words, for an expression with this many groups."""
    found, at = [], 0
    for reference in _REFERENCE.finditer(replacement):
        found.append(replacement[at : reference.start()].replace("\\", r"\\"))
        at = reference.end()
        if (number := reference[1]) is not None:
            length = _digits(number, groups)
            found.append(rf"\g<{int(number[:length])}>")
            at = reference.start() + 1 + length
        elif reference[2]:
            found.append(rf"\g<{reference[2]}>")
        else:
            found.append(reference[3].replace("\\", r"\\"))
    return "".join((*found, replacement[at:].replace("\\", r"\\")))
