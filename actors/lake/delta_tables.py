"""How a Spark session reaches a lake table: through Delta's classes in a JVM of ours, or with SQL over Connect."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from actors.lake.delta_connect import ConnectTables
from actors.lake.delta_table import DeltaTable, LakeTable
from actors.lake.spark_connect import is_connect_session

# The table at a path.
TableOpener = Callable[[str], LakeTable]


def delta_tables(session: SparkSession) -> TableOpener:
    """The Delta tables of a session, by their paths."""
    return ConnectTables(session) if is_connect_session(session) else partial(DeltaTable, session)
