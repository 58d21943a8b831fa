"""Rooms: each says what it is, the document lists them all, none is too large, and imports go down."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TOPS = ("pipeline", "actors")
FOLDERS = sorted({file.parent for top in TOPS for file in (ROOT / top).rglob("*.py")})
MOST_ROOMS = 16


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def rooms_of(folder: Path) -> list[Path]:
    """The modules and the folders in it, without what only says what it is."""
    return [
        path
        for path in folder.iterdir()
        if (path.is_dir() and any(path.rglob("*.py"))) or (path.suffix == ".py" and path.stem[:2] != "__")
    ]


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_says_what_it_is_and_is_not_too_large(folder: Path) -> None:
    said = (folder / "__init__.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(said))
    assert len(rooms_of(folder)) <= MOST_ROOMS


@pytest.mark.parametrize("top", TOPS)
def test_the_document_lists_the_rooms(top: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.split(f"## The rooms of `{top}/`")[1].split("\n## ")[0]
    told = re.findall(
        r"`(\w+)/`", "".join(row.split("|")[1] for row in part.splitlines() if row.startswith("| "))
    )
    assert sorted(told) == sorted(room.name for room in rooms_of(ROOT / top) if room.is_dir())


def imported(file: Path) -> Iterator[Path]:
    """The modules of ours that a module imports."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            paths = (ROOT.joinpath(*each.split(".")).with_suffix(".py") for each in names)
            yield from (path for path in paths if path.exists())


def arrows(folder: Path) -> dict[str, set[str]]:
    """Which of the folder's rooms import which others."""
    found: dict[str, set[str]] = {room.name: set() for room in rooms_of(folder)}
    for room in rooms_of(folder):
        for file in [room] if room.is_file() else room.rglob("*.py"):
            inside = (path.relative_to(folder).parts[0] for path in imported(file) if folder in path.parents)
            found[room.name] |= {other for other in inside if other in found} - {room.name}
    return found


def circle(of: dict[str, set[str]]) -> set[str]:
    """The rooms that are on a circle of imports, or above one."""
    left = dict(of)
    while free := [room for room, others in left.items() if not others & left.keys()]:
        for room in free:
            del left[room]
    return set(left)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_imports_go_down(folder: Path) -> None:
    assert circle(arrows(folder)) == set()


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert circle({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}) == {"a", "b", "c"}
