"""docs/logs.md has each event that's logged, with its level and its keys, and each key's meaning."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from deploy.toolchain.cache import REPOSITORY

TEXT = (REPOSITORY / "docs" / "logs.md").read_text(encoding="utf-8")
LEVELS = {"info": "info", "warning": "warning", "error": "error", "exception": "error"}


@dataclass(frozen=True, slots=True)
class Event:
    """An event as the source has it, or the document."""

    name: str
    level: str
    keys: tuple[str, ...]


def events(source: str) -> Iterator[Event]:
    """Returns what a module logs. Raises ValueError if the text doesn't show it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="log"), attr=method)) if method in {
                *LEVELS,
                "debug",
            }:
                yield Event(_name(node), LEVELS[method], tuple(sorted(_keys(node))))


def _name(call: ast.Call) -> str:
    match call.args:
        case [ast.Constant(value=str(name))]:
            return name
        case _:
            raise ValueError(f"line {call.lineno}: the event isn't a literal")


def _keys(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="exc_info"):
                yield "exception"
            case ast.keyword(arg=str(name)):
                yield name
            case ast.keyword(value=ast.Dict(keys=keys)):
                yield from (str(ast.literal_eval(key)) for key in keys if key is not None)
            case _:
                raise ValueError(f"line {call.lineno}: its keys can't be told")
    if isinstance(call.func, ast.Attribute) and call.func.attr == "exception":
        yield "exception"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table under a heading, without its head."""
    part = TEXT.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def words(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


def test_the_document_has_what_is_logged() -> None:
    logged = {
        event
        for path in (REPOSITORY / "actors").rglob("*.py")
        for event in events(path.read_text(encoding="utf-8"))
    }
    told = {
        Event(words(event)[0], level, tuple(sorted(words(keys)))) for event, level, keys, _ in rows("Events")
    }
    assert told == logged


def test_each_key_has_its_meaning() -> None:
    used = {key for _, _, keys, _ in rows("Events") for key in words(keys)}
    told = {key for keys, _ in rows("Keys") for key in words(keys)}
    assert told == used | {"timestamp", "level", "event", "logger", "pipeline"}


def test_an_event_says_what_to_do() -> None:
    assert [row[0] for row in rows("Events") if not row[3].endswith(".")] == []


@pytest.mark.parametrize(
    "line", ["log.info(f'{x} began')", "log.info('began', **more)", "log.error(text, why=why)"]
)
def test_what_cannot_be_told_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 1"):
        list(events(line))


def test_an_exception_is_a_key() -> None:
    assert list(events("log.exception('failed', who=who)")) == [
        Event("failed", "error", ("exception", "who"))
    ]
