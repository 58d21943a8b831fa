"""The tests mirror the sources: each module that does anything is tested under its own name or by name."""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for folder in ("pipeline", "actors") for path in (ROOT / folder).rglob("*.py"))


@cache
def imported_by_tests() -> frozenset[str]:
    """All modules that tests import, by their full names."""
    found = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ImportFrom(module=str(module), names=aliases):
                    found.add(module)
                    found.update(f"{module}.{alias.name}" for alias in aliases)
                case ast.Import(names=aliases):
                    found.update(alias.name for alias in aliases)
    return frozenset(found)


def does_anything(path: Path) -> bool:
    """Whether there's a function in it: a module of plain types says all there is to say."""
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_has_its_test(path: Path) -> None:
    place = path.relative_to(ROOT)
    own = ROOT / "tests" / place.parent / f"test_{place.name}"
    integration = [*(ROOT / "tests" / "integration").rglob(f"test_{place.name}")]
    module = ".".join(place.with_suffix("").parts)
    tested = own.exists() or integration or module in imported_by_tests()
    assert tested or not does_anything(path), f"write {own.relative_to(ROOT)}"


@pytest.mark.parametrize("folder", ["pipeline", "actors"])
def test_a_test_has_its_module(folder: str) -> None:
    for test in (ROOT / "tests" / folder).rglob("test_*.py"):
        place = test.relative_to(ROOT / "tests")
        module = ROOT / place.parent / place.name.removeprefix("test_")
        assert module.exists(), f"{place} tests nothing of its own name"
