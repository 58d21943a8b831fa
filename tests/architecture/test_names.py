"""A public name of a class, a type, a function or a constant has one meaning in all of `pipeline/` and `actors/`."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for top in ("pipeline", "actors") for path in (ROOT / top).rglob("*.py"))

# Each machine has these, in its own folder, and is read with that folder's name.
MACHINE = frozenset({"State", "Fact", "Order", "start", "step"})
MACHINE_FILES = frozenset({"state.py", "step.py"})

# Each of these means one thing in every module, and is called with its module's name: `checkpoint.to_json`.
CODEC = frozenset({"to_json", "from_json"})


def public_names(source: str) -> Iterator[str]:
    """The classes, aliases of types, functions and constants that a module defines for others."""
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                pass
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp()) if name[
                0
            ].isupper():
                pass
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]) if (
                name.isupper()
            ):
                pass
            case _:
                continue
        if not name.startswith("_"):
            yield name


def doubles(sources: dict[str, str]) -> dict[str, list[str]]:
    """The names that several of these modules define, and which."""
    places = defaultdict(list)
    for path, source in sources.items():
        for name in public_names(source):
            places[name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


def allowed(name: str, paths: list[str]) -> bool:
    if name in MACHINE:
        folders = Counter(Path(path).parent for path in paths)
        return all(Path(path).name in MACHINE_FILES for path in paths) and max(folders.values()) == 1
    return name in CODEC


def test_a_public_name_has_one_meaning() -> None:
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in MODULES}
    assert {n: paths for n, paths in doubles(sources).items() if not allowed(n, paths)} == {}


def test_a_double_is_found() -> None:
    one, other = (
        "class Held: ...\ndef told(): ...\nMOST: Final = 1\n_LEAST = 0\n",
        "Held = int | str\ndef _told(): ...\nMOST = 2\n_LEAST = 1\n",
    )
    assert doubles({"a.py": one, "b.py": other}) == {"Held": ["a.py", "b.py"], "MOST": ["a.py", "b.py"]}
    assert not allowed("Held", ["a.py", "b.py"])
    assert not allowed("State", ["pipeline/lake/state.py", "pipeline/binlog/stream_state.py"])
    assert allowed("State", ["pipeline/lake/state.py", "pipeline/journal/state.py"])
