"""What would make the house untidy, and can be seen from the source alone."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("pipeline", "actors", "tidemark", "tests", "deploy", "bench", "docs")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PRODUCT = [path for path in SOURCES if path.relative_to(ROOT).parts[0] in ("pipeline", "actors", "tidemark")]
TESTS = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == "tests"]

LONGEST_FUNCTION = 60


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_a_function_fits_on_a_screen() -> None:
    functions = {
        f"{name(path)}: {node.name}": (node.end_lineno or 0) - node.lineno
        for path in PRODUCT
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {which: number for which, number in functions.items() if number >= LONGEST_FUNCTION} == {}


def sleeps(source: str) -> Iterator[int]:
    """Lines that sleep instead of awaiting an event.

    `sleep(0)` only lets others have their turn; a loop may look again and again at what has no event; and where the
    line before argues for it in a comment, it's on purpose.
    """
    module, lines = ast.parse(source), source.splitlines()
    polls = {
        id(inner) for loop in ast.walk(module) if isinstance(loop, ast.While) for inner in ast.walk(loop)
    }
    for node in ast.walk(module):
        match node:
            case ast.Call(args=[ast.Constant(value=0)]):
                continue
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep")):
                if id(node) not in polls and not lines[node.lineno - 2].lstrip().startswith("#"):
                    yield node.lineno


def test_a_test_awaits_events_and_does_not_sleep() -> None:
    sources = {name(path): path.read_text(encoding="utf-8") for path in TESTS}
    found = {path: list(sleeps(source)) for path, source in sources.items() if "sleep" in source}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_sleep_is_found() -> None:
    assert list(sleeps("import time\nx = 1\ntime.sleep(1)\n")) == [3]
    assert list(sleeps("while not done():\n    sleep(0.1)\nawait asyncio.sleep(0)\n# why\nsleep(1)\n")) == []


def test_every_module_says_what_it_is() -> None:
    # To parse each takes seconds, and most begin with their docstring.
    others = [path for path in SOURCES if not path.read_text(encoding="utf-8").startswith('"""')]
    assert [name(path) for path in others if tree(path).body and not ast.get_docstring(tree(path))] == []


def test_there_are_no_leftovers() -> None:
    leftover = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
    found = [name(path) for path in SOURCES if leftover.search(path.read_text(encoding="utf-8"))]
    assert found == []
