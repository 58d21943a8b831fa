"""How a Spark session reaches a lake table: through Delta's classes in a JVM of ours, or with SQL over Connect."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from pyspark.sql import SparkSession

from actors.lake.delta_connect import ConnectTables
from actors.lake.delta_table import DeltaTable, LakeTable
from actors.lake.spark_connect import is_connect_session

# How many tables are kept for the next time.
MOST_KEPT: Final = 4096

# The table at a path.
TableOpener = Callable[[str], LakeTable]


def delta_tables(session: SparkSession) -> TableOpener:
    """The Delta tables of a session, by their paths."""
    if is_connect_session(session):
        return ConnectTables(session)
    # To make one asks the JVM for some ten things, one after the other, and each commit needs several.
    return lru_cache(MOST_KEPT)(partial(DeltaTable, session))
