"""The names for other programs are there, cost only what they need, and are all that the documents use."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tidemark

_ROOT = Path(__file__).parents[2]
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_each_name_is_what_its_module_has() -> None:
    assert {getattr(tidemark, name).__name__ for name in tidemark.__all__ if name != "SESSION_TRACK"} == {
        name for name in tidemark.__all__ if name != "SESSION_TRACK"
    }
    assert tidemark.SESSION_TRACK


def test_another_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        AttributeError, match=r"tidemark has no lake; it has ChangeBatch, .*, wait_until_applied"
    ):
        _ = tidemark.lake  # type: ignore[attr-defined]


def test_who_reads_changes_loads_neither_spark_nor_the_decoder() -> None:
    program = (
        "import sys; from tidemark import changes; print(sorted({'pyspark', 'numba'} & set(sys.modules)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    assert told.stdout == "[]\n"


def test_the_documents_import_nothing_else_of_ours() -> None:
    for document in (_ROOT / "README.md", *(_ROOT / "docs").glob("*.md")):
        for block in _PYTHON.findall(document.read_text(encoding="utf-8")):
            assert not re.findall(r"^(?:from|import) (?:actors|pipeline)\b.*", block, re.MULTILINE), document
