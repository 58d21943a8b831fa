"""Rooms: each says what it is, the document lists them all, none is too large, and imports go down."""

import ast
import re
from pathlib import Path

import pytest

from docs.draw import room_markers
from docs.rooms import ROOT, TOPS, arrows, circle, mermaid, rooms_of, without_detours

FOLDERS = sorted({file.parent for top in TOPS for file in (ROOT / top).rglob("*.py")})
MOST_ROOMS = 16
# In `actors/` each actor stands beside the room of its adapters.
MOST_ROOMS_WITH_ACTORS = 18


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_says_what_it_is_and_is_not_too_large(folder: Path) -> None:
    said = (folder / "__init__.py").read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(said))
    most = MOST_ROOMS_WITH_ACTORS if folder == ROOT / "actors" else MOST_ROOMS
    assert len(rooms_of(folder)) <= most


@pytest.mark.parametrize("top", TOPS)
def test_the_document_lists_the_rooms(top: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.split(f"## The rooms of `{top}/`")[1].split("\n## ")[0]
    told = re.findall(
        r"`(\w+)/`", "".join(row.split("|")[1] for row in part.splitlines() if row.startswith("| "))
    )
    assert sorted(told) == sorted(room.name for room in rooms_of(ROOT / top) if room.is_dir())


@pytest.mark.parametrize("top", TOPS)
def test_the_document_says_what_the_folders_of_a_room_hold(top: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    part = text.split(f"## The rooms of `{top}/`")[1].split("\n## ")[0]
    for row in (line.split("|") for line in part.splitlines() if line.startswith("| ")):
        rooms = [ROOT / top / room for room in re.findall(r"`(\w+)/`", row[1])]
        folders = {inner.name for room in rooms for inner in rooms_of(room) if inner.is_dir()}
        assert folders - set(re.findall(r"`(\w+)`", row[2])) == set()


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_imports_go_down(folder: Path) -> None:
    assert circle(arrows(folder)) == set()


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert circle({"a": {"b"}, "b": {"a"}, "c": {"a"}, "d": set()}) == {"a", "b", "c"}


@pytest.mark.parametrize("top", TOPS)
def test_the_document_draws_the_rooms_and_their_imports(top: str) -> None:
    """`test_pictures` compares the picture with the code."""
    begin, end = room_markers(top)
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = text.split(begin)[1].split(end)[0].strip()
    assert picture == mermaid(top), "python -m docs.draw docs/architecture.md"
    shown = set(re.findall(r'\["(\w+)"\]', picture))
    assert shown == {room.name.removesuffix(".py") for room in rooms_of(ROOT / top)}


def test_an_arrow_that_a_longer_way_makes_needless_is_not_drawn() -> None:
    drawn = without_detours({"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"b", "c"}})
    assert drawn == {"a": {"b"}, "b": {"c"}, "c": set(), "d": {"b"}}
