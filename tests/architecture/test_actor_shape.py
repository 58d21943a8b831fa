"""The eight actors' files have one shape: the same sections in the same order, and what only helps comes after."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACTORS = sorted(path for path in (ROOT / "actors").glob("*.py") if path.stem[:2] != "__")

SECTIONS = (
    "__init__",
    "run",
    "begin",
    "takes",
    "next_at",
    "time_came",
    "mailbox_closed",
    "ended",
    "handle",
    "release",
    "hung",
    "waits",
    "status",
    "not_ready",
)
# Those whose order of work isn't a machine's decision, or doesn't fit the loop; CONTRIBUTING says why.
OWN_LOOP = {"binlog_reader", "chunk_selector", "signal_listener"}
# Those that measure what may last less than a millisecond, which is as fine as the loop's clock is.
FINE_MEASURES = {"chunk_selector", "watermark_coordinator"}
OTHER_CLOCK = re.compile(r"\bmonotonic\b|get_running_loop\(\)\.time\b")


def methods(source: str) -> list[str]:
    """The methods of the one class that is an actor."""
    [actor] = [
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        and any(ast.unparse(base).startswith("Actor[") for base in node.bases)
    ]
    return [node.name for node in actor.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def misplaced(names: list[str]) -> list[str]:
    """Returns what comes before a section that it should follow, or before one while it's no section itself."""
    order = [SECTIONS.index(name) for name in names if name in SECTIONS]
    late = [SECTIONS[at] for at, before in zip(order[1:], order, strict=False) if at < before]
    last = max(i for i, name in enumerate(names) if name in SECTIONS)
    return [*late, *(name for name in names[:last] if name[0] == "_" and name not in SECTIONS)]


@pytest.mark.parametrize("path", ACTORS, ids=lambda path: path.stem)
def test_an_actor_has_its_sections_in_order(path: Path) -> None:
    assert misplaced(methods(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", ACTORS, ids=lambda path: path.stem)
def test_only_the_named_ones_have_a_loop_of_their_own(path: Path) -> None:
    assert ("run" in methods(path.read_text(encoding="utf-8"))) == (path.stem in OWN_LOOP)


@pytest.mark.parametrize("path", ACTORS, ids=lambda path: path.stem)
def test_all_actors_have_one_clock(path: Path) -> None:
    """A moment of another clock than `Actor.now` can't be compared with `next_at`."""
    other = OTHER_CLOCK.search(path.read_text(encoding="utf-8"))
    assert (other is not None) == (path.stem in FINE_MEASURES)


def test_what_is_misplaced_is_found() -> None:
    assert misplaced(["__init__", "handle", "status", "_perform"]) == []
    assert misplaced(["__init__", "status", "_perform", "handle"]) == ["handle", "_perform"]
