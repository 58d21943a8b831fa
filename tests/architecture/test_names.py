"""A public name of a class, a type, a function or a constant has one meaning in all of `pipeline/` and `actors/`."""

import ast
import builtins
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for top in ("pipeline", "actors") for path in (ROOT / top).rglob("*.py"))

# Each machine has these, in its own folder, and is read with that folder's name.
MACHINE = frozenset({"State", "Fact", "Order", "start", "step", "timer_at"})
MACHINE_FILES = frozenset({"state.py", "facts.py", "orders.py", "step.py"})

# Each of these means one thing in every module, and is called with its module's name: `checkpoint.to_json`.
CODEC = frozenset({"to_json", "from_json"})


# What a module logs to. Each module has its own, and no module imports another's.
LOGGER = "log"


@dataclass(frozen=True, order=True)
class Defined:
    """A name that a module defines for others. A type variable may have another one's name, and no class's."""

    name: str
    is_type_variable: bool = False


def public_names(source: str) -> Iterator[Defined]:
    """The classes, aliases of types, functions, constants and type variables that a module defines for others."""
    found = {each for each in defined(ast.parse(source).body) if not each.name.startswith("_")}
    yield from sorted(each for each in found if each.name != LOGGER)


def defined(body: list[ast.stmt]) -> Iterator[Defined]:
    """What these statements define: also several names at once, and in one of several cases."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Defined(name)
            case ast.Assign(targets=targets, value=value):
                names = (each for target in targets for each in ast.walk(target))
                yield from (
                    Defined(each.id, is_type_variable(value))
                    for each in names
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                )
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield Defined(name)
            case ast.If(body=then, orelse=otherwise):
                yield from defined([*then, *otherwise])
            case ast.Try(body=tried, handlers=handlers, orelse=otherwise, finalbody=last):
                yield from defined(
                    [*tried, *(each for one in handlers for each in one.body), *otherwise, *last]
                )
            case ast.With(body=inner):
                yield from defined(inner)


def is_type_variable(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Name(id="TypeVar" | "ParamSpec")):
            return True
        case _:
            return False


def doubles(sources: dict[str, str]) -> dict[str, list[str]]:
    """The names that several of these modules define, and which."""
    kinds, places = defaultdict(set), defaultdict(list)
    for path, source in sources.items():
        for each in public_names(source):
            kinds[each.name].add(each.is_type_variable)
            places[each.name].append(path)
    several = (name for name, paths in places.items() if len(paths) > 1)
    return {name: places[name] for name in several if kinds[name] != {True}}


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


@pytest.mark.parametrize(
    "source",
    [
        "Held = Kept",
        'Held: TypeAlias = "Kept | None"',
        "Held, Lost = range(2)",
        "if TYPE_CHECKING:\n    Held = int\nelse:\n    Held = str",
        "try:\n    import held\nexcept ImportError:\n    Held = None",
        'Held = TypeVar("Held")',
    ],
)
def test_a_double_is_found_however_it_is_defined(source: str) -> None:
    assert doubles({"a.py": "class Held: ...", "b.py": source}) == {"Held": ["a.py", "b.py"]}


def test_two_type_variables_may_have_one_name() -> None:
    made = 'Made = TypeVar("Made")\n_T = TypeVar("_T")\nlog = logging.getLogger()'
    assert doubles({"a.py": made, "b.py": made}) == {}


# A docstring's words for what is raised: `Raises Transient or Definite`.
RAISES = re.compile(r"\bRaises ((?:[A-Z]\w*(?:, or |, | and | or )?)+)")


def raised(nodes: Sequence[ast.AST]) -> set[str]:
    """The classes that the docstrings of a module say are raised."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = (ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))
    lists = (found[1] for text in texts for found in RAISES.finditer(" ".join(text.split())))
    return {name for each in lists for name in re.findall(r"[A-Z]\w*", each)}


def named(nodes: Sequence[ast.AST]) -> set[str]:
    """The classes that a module defines, and all that its code names."""
    names = set[str]()
    for node in nodes:
        match node:
            case ast.ClassDef(name=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                names.add(name)
    return names


def imported(nodes: Sequence[ast.AST]) -> set[str]:
    """The modules that a module imports, with what it imports of them as if that were modules as well."""
    modules = set[str]()
    for node in nodes:
        match node:
            case ast.Import(names=names):
                modules |= {each.name for each in names}
            case ast.ImportFrom(module=str(module), names=names):
                modules |= {module, *(f"{module}.{each.name}" for each in names)}
    return modules


def foreign(nodes: Sequence[ast.AST], own: Collection[str]) -> set[str]:
    """What a module imports by name from others than these."""
    froms = (node for node in nodes if isinstance(node, ast.ImportFrom) and node.module not in own)
    return {each.name for node in froms for each in node.names}


def unknown_errors(sources: dict[str, str]) -> dict[str, set[str]]:
    """By module, the classes that its docstrings say are raised, and that no one has of whom it may get them.

    That is the module itself, what it imports, Python, and a package that any of the modules imports from.
    """
    # A walk through each module takes seconds, and there are four questions.
    modules = {module: list(ast.walk(ast.parse(source))) for module, source in sources.items()}
    imports = {module: imported(nodes) & modules.keys() for module, nodes in modules.items()}
    names = {module: named(nodes) for module, nodes in modules.items()}
    others = set(dir(builtins)).union(*(foreign(nodes, modules.keys()) for nodes in modules.values()))

    def known(module: str) -> set[str]:
        reached, left = set[str](), {module}
        while left:
            reached |= left
            left = {each for one in left for each in imports[one]} - reached
        return {name for each in reached for name in names[each]} | others

    found = {module: raised(nodes) for module, nodes in modules.items()}
    return {module: wrong for module, errors in found.items() if (wrong := errors and errors - known(module))}


def test_what_a_docstring_raises_is_a_class_in_reach() -> None:
    sources = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in MODULES
    }
    assert unknown_errors(sources) == {}


def test_an_unknown_error_is_found() -> None:
    sources = {
        "a": '"""Raises Gone or OSError."""\nfrom b import take',
        "b": "from c import take",
        "c": "class Gone(Exception): ...",
        "d": 'import json\ndef parse():\n    """A value. Raises Gone, JSONDecodeError or\n    ValueError; Also."""\n',
    }
    assert unknown_errors(sources) == {"d": {"Gone", "JSONDecodeError"}}
