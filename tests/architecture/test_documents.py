"""What the documents refer to is there: the tests that they name, and the files that they link to."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_TRACE = re.compile(r"`(tests/[\w/.-]+\.txt)`")
_LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def missing(document: str, folder: Path) -> Iterator[str]:
    """The tests and traces that a document in this folder names, and the files it links to, where there are none."""
    for path, function in _TEST.findall(document):
        file = ROOT / path
        if not file.exists() or f"def {function}(" not in file.read_text(encoding="utf-8"):
            yield f"{path}::{function}"
    yield from (path for path in _TRACE.findall(document) if not (ROOT / path).exists())
    for link in _LINK.findall(document):
        if not (folder / link).exists():
            yield link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_what_there_is(path: Path) -> None:
    assert list(missing(path.read_text(encoding="utf-8"), path.parent)) == []


def test_what_there_is_not_is_found() -> None:
    there = "`tests/architecture/test_documents.py::missing`, [so](README.md#far), [a site](https://example.org/a)"
    gone = "`tests/architecture/test_documents.py::nothing`, `tests/none.py::test_it`, `tests/1-no.txt`, [so](GONE.md)"
    assert list(missing(there, ROOT)) == []
    assert list(missing(gone, ROOT)) == [
        "tests/architecture/test_documents.py::nothing",
        "tests/none.py::test_it",
        "tests/1-no.txt",
        "GONE.md",
    ]
