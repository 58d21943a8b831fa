"""The tables of a session, by the way that leads to them."""

from functools import lru_cache, partial
from typing import Final

from pyspark.sql import SparkSession

from actors.lake.delta.delta_connect import ConnectTables
from actors.lake.delta.delta_table import DeltaTable, WithoutWork, never_known
from actors.lake.delta.lake_table import TableOpener
from actors.lake.spark.spark_connect import is_connect_session
from actors.lake.transaction_log.own_log import SyncEarlier, no_sync

# How many tables are kept for the next time.
MOST_KEPT: Final = 4096


def delta_tables(
    session: SparkSession, sync_earlier: SyncEarlier = no_sync, without_work: WithoutWork = never_known
) -> TableOpener:
    """Returns what opens a session's Delta tables: with SQL over Connect, or by Delta's classes in a JVM of ours."""
    if is_connect_session(session):
        return ConnectTables(session)
    # To make one asks the JVM for some ten things, one after the other, and each commit needs several.
    opener = partial(DeltaTable, session, sync_earlier=sync_earlier, without_work=without_work)
    return lru_cache(MOST_KEPT)(opener)
