"""Programs that other processes run as texts use names that exist: neither mypy nor a rename sees into a text."""

import ast
import importlib
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

_ROOT = Path(__file__).parents[2]
_OURS = ("actors", "bench", "deploy", "pipeline", "tests")
# Its programs run in a tree of their own.
_ELSEWHERE = _ROOT / "tests" / "actors" / "service" / "test_jit_cache.py"


def programs(source: str) -> Iterator[ast.Module]:
    """The texts of a module that are programs and import something of ours."""
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value):
            continue
        try:
            program = ast.parse(textwrap.dedent(node.value))
        except SyntaxError:
            continue
        if any(imports(program)):
            yield program


def imports(program: ast.Module) -> Iterator[tuple[str, ast.alias]]:
    """What a program imports from our packages: the module, and the name."""
    for node in ast.walk(program):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _OURS:
            for alias in node.names:
                yield node.module or "", alias


def found(package: str, name: str) -> object:
    """What this is: a module, or what a module has; None if there is neither."""
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError:
        pass
    try:
        return getattr(importlib.import_module(package), name, None)
    except ModuleNotFoundError:
        return None


def missing(program: ast.Module) -> list[str]:
    """The names of ours that a program uses and that aren't there."""
    there = {alias.asname or alias.name: found(package, alias.name) for package, alias in imports(program)}
    gone = [
        f"{package}.{alias.name}" for package, alias in imports(program) if not found(package, alias.name)
    ]
    for node in ast.walk(program):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = there.get(node.value.id)
            if isinstance(module, ModuleType) and not hasattr(module, node.attr):
                gone.append(f"{module.__name__}.{node.attr}")
    return gone


def test_programs_in_texts_use_what_is_there() -> None:
    files = [file for part in _OURS for file in sorted((_ROOT / part).rglob("*.py"))]
    texts = [(file, each) for file in files if file != _ELSEWHERE for each in programs(file.read_text())]
    assert len(texts) > 10
    assert {
        str(file.relative_to(_ROOT)): missing(program) for file, program in texts if missing(program)
    } == {}


def test_a_name_that_has_gone_is_found() -> None:
    renamed = '"import x; from actors.service import warm_up as w; w.load()"\n"from pipeline import nothing"'
    assert [missing(program) for program in programs(renamed)] == [
        ["actors.service.warm_up.load"],
        ["pipeline.nothing"],
    ]
