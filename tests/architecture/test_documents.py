"""What the documents refer to is there: the tests that they name, and the files that they link to."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_FILE = re.compile(r"`(tests/[\w/.-]+\.(?:txt|sql|py))`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def missing(document: str, folder: Path) -> Iterator[str]:
    """The tests and files that a document in this folder names or links to, where there are none."""
    for path, function in _TEST.findall(document):
        file = ROOT / path
        if not file.exists() or f"def {function}(" not in file.read_text(encoding="utf-8"):
            yield f"{path}::{function}"
    yield from (path for path in _FILE.findall(document) if not (ROOT / path).exists())
    for link in _LINK.findall(document):
        if not (folder / link).exists():
            yield link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_what_there_is(path: Path) -> None:
    assert list(missing(path.read_text(encoding="utf-8"), path.parent)) == []


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
    there = "`tests/architecture/test_documents.py::missing`, [so](README.md#far), [a site](https://example.org/a)"
    gone = "`tests/architecture/test_documents.py::nothing`, `tests/none.py::test_it`, `tests/1-no.txt`"
    gone += ", `tests/no.sql`, [so](GONE.md)"
    assert list(missing(there, ROOT)) == []
    assert list(missing(gone, ROOT)) == [
        "tests/architecture/test_documents.py::nothing",
        "tests/none.py::test_it",
        "tests/1-no.txt",
        "tests/no.sql",
        "GONE.md",
    ]
