"""What the documents refer to is there: the tests and commands that they name, and the places that they link to."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from actors.service.cli import main

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TARGETS = {
    *re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE),
    *(f"bench-{path.stem}" for path in (ROOT / "bench").glob("[a-z]*.py")),
    "bench-NAME",
}

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_FILE = re.compile(r"`(tests/[\w/.-]+\.(?:txt|sql|py))`")
_LINK = re.compile(r"\]\(([^)#:]*)(?:#([^)]*))?\)")
# Commands are in code: in a line of it, or in a block.
_MAKE = re.compile(r"(?:`|^ {4})make ([\w-]+)", re.MULTILINE)
_COMMAND = re.compile(r"(?:`|^ {4})tidemark ([a-z][\w-]*)(?= [\w.`])", re.MULTILINE)


def missing(document: str, folder: Path) -> Iterator[str]:
    """The tests and files that a document in this folder names or links to, where there are none."""
    for path, function in _TEST.findall(document):
        file = ROOT / path
        if not file.exists() or f"def {function}(" not in file.read_text(encoding="utf-8"):
            yield f"{path}::{function}"
    yield from (path for path in _FILE.findall(document) if not (ROOT / path).exists())
    yield from (f"make {target}" for target in _MAKE.findall(document) if target not in TARGETS)
    yield from (
        f"tidemark {command}" for command in _COMMAND.findall(document) if command not in main.commands
    )
    for link, anchor in _LINK.findall(document):
        if not (folder / link).exists():
            yield link
        elif anchor and anchor not in (anchors(folder / link) if link else anchors_in(document)):
            yield f"{link}#{anchor}"


def anchors_in(document: str) -> set[str]:
    """The names that GitHub gives to the headings of a document."""
    prose = re.sub(r"^```.*?^```", "", document, flags=re.MULTILINE | re.DOTALL)
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#{1,6} (.+)$", prose, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


@cache
def anchors(path: Path) -> set[str]:
    return anchors_in(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_what_there_is(path: Path) -> None:
    assert list(missing(path.read_text(encoding="utf-8"), path.parent)) == []


def loose_blocks(document: str) -> list[str]:
    """The beginnings of blocks in list items that the site takes for the end of their list: it needs four spaces."""
    return re.findall(r"\n\n {1,3}(\S[^\n]*)", document)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_block_in_a_list_stays_in_it(path: Path) -> None:
    assert loose_blocks(path.read_text(encoding="utf-8")) == []


def test_a_block_that_ends_its_list_is_found() -> None:
    assert loose_blocks("1. so\n\n    as\n   it\n\n   is\n\n2. no\n") == ["is"]


def test_each_promise_names_a_test_and_each_limit_what_one_sees() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    before = text.partition("### What ends the pipeline")[0]
    _, *promises = re.split(r"^\*\*\d\. ", before, flags=re.MULTILINE)
    assert len(promises) == 8
    assert [each[:40] for each in promises if not _TEST.search(each) and "names its tests" not in each] == []
    window = text.partition("## The window rule")[2].partition("## What statements do")[0]
    assert _TEST.search(window)
    limits = text.partition("## What isn't promised")[2].partition("### Another history")[0].split("\n")
    cells = [line.strip("|").split(" | ") for line in limits if line.startswith("| ")]
    assert len(cells) > 20
    assert [row for row in cells if len(row) != 2 or not row[1].strip()] == []


def test_what_there_is_not_is_found() -> None:
    there = (
        "`tests/architecture/test_documents.py::missing`, [so](README.md), [a site](https://example.org/a#b)"
    )
    there += (
        ", [so](README.md#how-it-works), `make test`, `tidemark run shop.toml`\n# So `it` is\n[so](#so-it-is)"
    )
    gone = "`tests/architecture/test_documents.py::nothing`, `tests/none.py::test_it`, `tests/1-no.txt`"
    gone += ", `tests/no.sql`, [so](GONE.md), [so](README.md#far), [so](#far), `make tea`, `tidemark dance shop.toml`"
    assert list(missing(there, ROOT)) == []
    assert list(missing(gone, ROOT)) == [
        "tests/architecture/test_documents.py::nothing",
        "tests/none.py::test_it",
        "tests/1-no.txt",
        "tests/no.sql",
        "make tea",
        "tidemark dance",
        "GONE.md",
        "README.md#far",
        "#far",
    ]


def test_make_alone_lists_each_target_that_says_what_it_does() -> None:
    described = re.findall(
        r"^([\w%-]+):.*?## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    listed = subprocess.check_output(["make", "--no-print-directory", "-C", ROOT], text=True)
    assert re.findall(r"^  make (\S+)", listed, re.MULTILINE) == described
