"""Pandas stays out of a process that needs none, and comes to one that does; each is a process of its own."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from actors.service import cli, no_pandas

if sys.argv[1] != "not":
    no_pandas.block_pandas()
if sys.argv[1] == "stood in for":
    no_pandas.stand_in_for_pandas()
    import pyspark.sql.connect.session
import pyarrow as pa
from actors.service import assembly

assert pa.array([1, None]).to_pylist() == [1, None]
assert pa.table({"a": ["b"]}).to_pylist() == [{"a": "b"}]
print("pandas.core" in sys.modules)
"""


@pytest.mark.parametrize(
    ("kept_out", "loaded"), [("kept out", "False"), ("stood in for", "False"), ("not", "True")]
)
def test_pandas_is_not_loaded_when_it_is_kept_out(kept_out: str, loaded: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, kept_out], check=True, capture_output=True, text=True
    )
    assert ran.stdout.split() == [loaded]
