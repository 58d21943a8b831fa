"""delta-rs, which reads Delta tables by DataFusion: it runs a query as its comments say, and no JVM or DuckDB helps."""

import re

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

_CALL = re.compile(r"^-- before each query: (register\(.*\))$", re.MULTILINE)


def execute(text: str) -> pa.Table:
    """Returns a query's rows, once the calls in its comments have registered its tables."""
    builder = QueryBuilder()
    for call in _CALL.findall(text):
        eval(f"builder.{call}", {"builder": builder, "DeltaTable": DeltaTable})  # as people paste it
    return pa.table(builder.execute(text))
