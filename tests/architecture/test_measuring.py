"""Code that computes measurements or reports keeps its errors to itself (`actors.runtime.measuring`).

A call of a metric's or of the log's may be anywhere as long as its arguments can't fail: names, attributes, texts, and
what arithmetic or the few functions below make of them. All else belongs into a `contain_errors` function.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.toolchain.cache import REPOSITORY

# Nothing of the work is done here: they only look at it, and `assembly` sees to their failures.
ONLY_LOOK = {"lag_watch.py", "status_board.py"}

HARMLESS = {
    "bool",
    "getattr",
    "isinstance",
    "len",
    "monotonic",
    "partial",
    "round",
    "str",
    "time",
    "safe_message",
    "type",
}
METRICS = {"count", "set", "watch", "replace", "observe", "handled", "progressed", "chunk_read"}
LEVELS = {"debug", "info", "warning", "error", "exception"}


def _tells(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id="log"), attr=level):
            return level in LEVELS
        case ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=method):
            return name.endswith("metrics") and method in METRICS
        case _:
            return False


def _harmless(node: ast.AST) -> bool:
    """Whether the value can be had without an error."""
    match node:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute(value=value) | ast.FormattedValue(value=value) | ast.UnaryOp(operand=value):
            return _harmless(value)
        case ast.JoinedStr(values=parts) | ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
            return all(map(_harmless, parts))
        case ast.BinOp(left=left, op=how, right=right):
            divides = isinstance(how, ast.Div | ast.FloorDiv | ast.Mod)
            return _harmless(left) and _harmless(right) and (not divides or isinstance(right, ast.Constant))
        case ast.Compare(left=left, comparators=parts):
            return all(map(_harmless, (left, *parts)))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return all(map(_harmless, (test, body, orelse)))
        case ast.Dict(keys=keys, values=values):
            return all(_harmless(part) for part in (*keys, *values) if part is not None)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args, keywords=keywords):
            return name in HARMLESS and all(map(_harmless, (*args, *(each.value for each in keywords))))
        case _:
            return False


def _is_measuring(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(each, ast.Name | ast.Attribute) and ast.unparse(each).endswith("contain_errors")
        for each in function.decorator_list
    )


def outside(node: ast.AST) -> Iterator[ast.Call]:
    """Returns the calls that may fail their caller."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and _is_measuring(child):
            continue
        if isinstance(child, ast.Call) and _tells(child):
            values = (*child.args, *(each.value for each in child.keywords if each.arg != "exc_info"))
            if not all(map(_harmless, values)):
                yield child
        yield from outside(child)


def _unguarded(source: str) -> list[str]:
    return [f"{call.lineno}: {ast.unparse(call)}" for call in outside(ast.parse(source))]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "actors").rglob("*.py")), ids=lambda path: path.name)
def test_what_may_fail_is_measured_apart_from_the_work(path: Path) -> None:
    if path.name not in ONLY_LOOK:
        assert _unguarded(path.read_text(encoding="utf-8")) == []


def _has_to_measure(function: ast.FunctionDef) -> bool:
    """Whether its name says so. What is called a log or a report and returns something may be a part of the work."""
    if re.match(r"_(measure|tell)(_|$)", function.name):
        return True
    returns_nothing = isinstance(function.returns, ast.Constant) and function.returns.value is None
    return returns_nothing and re.match(r"_(log|report)(_|$)", function.name) is not None


@pytest.mark.parametrize("path", sorted((REPOSITORY / "actors").rglob("*.py")), ids=lambda path: path.name)
def test_functions_that_are_called_so_are_measuring(path: Path) -> None:
    named = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and _has_to_measure(node)
    ]
    assert [node.name for node in named if not _is_measuring(node)] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("self.metrics.count(catalogue.ROWS, len(rows), table=str(table))", False),
        ("log.info('begun', table=str(table), at=now - began)", False),
        ("self.metrics.count(catalogue.ROWS, rows[table])", True),
        ("log.error('stopped', reason=stopped[table])", True),
        ("metrics.set(catalogue.OLDEST, min(ages))", True),
        ("@contain_errors\ndef _tell():\n    log.error('stopped', reason=stopped[table])", False),
    ],
)
def test_what_may_fail_is_found(source: str, found: bool) -> None:
    assert bool(_unguarded(source)) is found
