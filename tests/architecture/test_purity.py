"""`pipeline` only computes: held by what its modules import and call, read from their source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PURE = sorted((ROOT / "pipeline").rglob("*.py"))

# What only computes. Anything else has to be argued for here.
MAY_IMPORT = {
    "base64",
    "bisect",
    "codecs",
    "collections",
    "dataclasses",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "hmac",
    "ipaddress",
    "itertools",
    "json",
    "llvmlite",
    "math",
    "numba",
    "numpy",
    "operator",
    "pipeline",
    "pyarrow",
    "pyroaring",
    "re",
    "struct",
    "tomli_w",
    "typing",
    "zlib",
}
# Of these, only the names that compute.
MAY_IMPORT_FROM = {
    ("pathlib", "PurePath"),
    ("datetime", "date"),
    ("datetime", "datetime"),
    ("datetime", "timedelta"),
}
# These modules have names that reach out; only the ones given are used.
MAY_USE = {"uuid": {"UUID"}}
# And so have these classes, which are also values.
MAY_NOT_ASK = {"date": {"today"}, "datetime": {"now", "today", "utcnow"}}

# What reaches out without an import, or by a permitted one.
MAY_NOT_CALL = {"open", "print", "input", "eval", "exec", "__import__", "breakpoint"}
MAY_NOT_REACH = {
    "parquet",
    "csv",
    "fs",
    "dataset",
    "flight",
    "random",
    "memory_map",
    "fromfile",
    "tofile",
    "save",
    "load",
}


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


def offences(tree: ast.Module) -> Iterator[str]:
    """What in a module isn't pure, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    if not _may_import(alias.name):
                        yield f"line {node.lineno}: import {alias.name}"
            case ast.ImportFrom(module=str(module), names=aliases, level=0):
                for alias in aliases:
                    if (module, alias.name) not in MAY_IMPORT_FROM and not _may_import(
                        f"{module}.{alias.name}"
                    ):
                        yield f"line {node.lineno}: from {module} import {alias.name}"
            case ast.ImportFrom():
                yield f"line {node.lineno}: a relative import"
            case ast.Call(func=ast.Name(id=called)) if called in MAY_NOT_CALL:
                yield f"line {node.lineno}: {called}()"
            case ast.Attribute(value=ast.Name(id=("np" | "numpy" | "pa" | "pyarrow")), attr=attribute):
                if attribute in MAY_NOT_REACH:
                    yield f"line {node.lineno}: .{attribute}"
            case ast.Attribute(value=ast.Name(id=known), attr=attribute) if known in MAY_NOT_ASK:
                if attribute in MAY_NOT_ASK[known]:
                    yield f"line {node.lineno}: {known}.{attribute}"
            case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in MAY_USE:
                if attribute not in MAY_USE[module]:
                    yield f"line {node.lineno}: {module}.{attribute}"
            case ast.AsyncFunctionDef() | ast.Await() | ast.Global():
                yield f"line {node.lineno}: {type(node).__name__}"


def _may_import(name: str) -> bool:
    top, *inner = name.split(".")
    return top in MAY_USE or (top in MAY_IMPORT and not MAY_NOT_REACH & set(inner))


@pytest.mark.parametrize("path", PURE, ids=names)
def test_a_module_of_pipeline_is_pure(path: Path) -> None:
    assert list(offences(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import asyncio",
        "import time",
        "import os.path",
        "from random import choice",
        "import logging",
        "import structlog",
        "from actors.runtime.mailbox import Mailbox",
        "import actors",
        "from . import gtid",
        "from pathlib import Path",
        "import datetime",
        "from datetime import datetime\ndatetime.now()",
        "from datetime import date\ndate.today()",
        "import uuid\nuuid.uuid4()",
        "import numpy as np\nnp.random.default_rng()",
        "import pyarrow.parquet as pq",
        "from pyarrow import parquet",
        "import numpy as np\nnp.save('x', 1)",
        "open('x')",
        "print()",
        "async def f(): ...",
        "def f():\n    global x",
        "def f():\n    import socket",
    ],
)
def test_what_is_impure_is_found(source: str) -> None:
    assert len(list(offences(ast.parse(source)))) == 1


def test_actors_do_not_import_tests_or_tools() -> None:
    for path in (ROOT / "actors").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                assert node.module.split(".")[0] not in ("tests", "deploy", "bench", "docs"), names(path)
