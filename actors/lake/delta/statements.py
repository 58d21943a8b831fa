"""What a lake table gets by a statement of Spark's, and at most once."""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession

from actors.lake.spark.spark_session import side_session
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.tables.maintenance import TableSize

# For a mirror of fewer files, finding the extent of the changed keys costs more than it saves.
FILES_TO_LEAVE_OUT: Final = 16


def made_once(application: str, version: int, metadata: str) -> dict[str, str]:
    """Settings of a session: Delta makes its statement only if the application hasn't reached this version."""
    return {
        "spark.databricks.delta.write.txnAppId": application,
        "spark.databricks.delta.write.txnVersion": str(version),
        "spark.databricks.delta.commitInfo.userMetadata": metadata,
    }


def merge_by_statement(
    spark: SparkSession,
    merge: Merge,
    application: str,
    metadata: str,
    settings: Mapping[str, str],
    size: TableSize | None,
) -> None:
    """Merges by MERGE, in a session with these settings. Without deletion vectors it writes each file again in which a
    row changes. `size`: of the mirror."""
    once = made_once(application, merge.through, metadata)
    with side_session(spark, {**settings, **once}) as session:
        session.sql(within(session, merge, size).statement())


def within(session: SparkSession, merge: Merge, size: TableSize | None) -> Merge:
    """Returns the merge restricted to the keys that have changed, if that is less work than to read all keys of the
    mirror.
    """
    extent = merge.extent()
    if size is None or size.files < FILES_TO_LEAVE_OUT or extent is None:
        return merge
    row = session.sql(extent).first()
    assert row is not None
    return merge.within(row)
