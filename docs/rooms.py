"""Reads the rooms of `pipeline/` and `actors/`, and what they import, from the code; `docs.draw` draws them.

A room is a module or a folder. An arrow goes from a room to a room that it imports.
"""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOPS = ("pipeline", "actors")


def rooms_of(folder: Path) -> list[Path]:
    """The modules and the folders in it, without what only says what it is."""
    return [
        path
        for path in folder.iterdir()
        if (path.is_dir() and any(path.rglob("*.py"))) or (path.suffix == ".py" and path.stem[:2] != "__")
    ]


def arrows(folder: Path) -> dict[str, set[str]]:
    """Which of the folder's rooms import which others."""
    found: dict[str, set[str]] = {room.name: set() for room in rooms_of(folder)}
    for room in rooms_of(folder):
        for file in [room] if room.is_file() else room.rglob("*.py"):
            inside = (path.relative_to(folder).parts[0] for path in _imported(file) if folder in path.parents)
            found[room.name] |= {other for other in inside if other in found} - {room.name}
    return found


def circle(of: Mapping[str, set[str]]) -> set[str]:
    """The rooms that are on a circle of imports, or above one."""
    left = dict(of)
    while free := [room for room, others in left.items() if not others & left.keys()]:
        for room in free:
            del left[room]
    return set(left)


def without_detours(of: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The arrows without those that lead where a longer way leads as well. There must be no circle."""
    return {
        room: {other for other in others if not any(other in _below(of, each) for each in others - {other})}
        for room, others in of.items()
    }


def mermaid(top: str) -> str:
    """The rooms of `pipeline` or `actors`, each above the rooms that it imports."""
    reduced = without_detours(arrows(ROOT / top))
    lines = ["```mermaid", "flowchart TD"]
    lines += [f'    {_node(room)}["{room.removesuffix(".py")}"]' for room in sorted(reduced)]
    lines += [
        f"    {_node(room)} --> {_node(other)}" for room in sorted(reduced) for other in sorted(reduced[room])
    ]
    return "\n".join([*lines, "```"])


def _node(room: str) -> str:
    return room.replace(".", "_")


def _below(of: Mapping[str, set[str]], room: str) -> set[str]:
    return of[room].union(*(_below(of, other) for other in of[room]))


@cache  # a file is asked for once for each folder that it is in
def _imported(file: Path) -> frozenset[Path]:
    """The modules of ours that a module imports."""
    names = {
        name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    }
    paths = (ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names)
    return frozenset(path for path in paths if path.exists())
