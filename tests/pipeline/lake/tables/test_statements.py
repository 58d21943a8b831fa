"""The statements that create and alter the lake's tables."""

from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.properties import Property
from pipeline.lake.tables.statements import begin_sql, create_sql
from pipeline.lake.tables.tier import Tier


def test_statements_that_make_and_change_tables() -> None:
    assert create_sql("a`b", Tier.CHANGELOG, (LakeColumn("x y", "INT"),), {}) == (
        "CREATE TABLE IF NOT EXISTS delta.`a``b` (`x y` INT) USING delta TBLPROPERTIES "
        "('delta.deletedFileRetentionDuration' = 'interval 24 hours', "
        "'delta.logRetentionDuration' = 'interval 24 hours', 'delta.columnMapping.mode' = 'name')"
    )
    of = (LakeColumn("x", "INT"), LakeColumn("y", "DATE"))
    assert begin_sql("p", Tier.MIRROR, of, {Property.SINCE: "7"}) == (
        "CREATE OR REPLACE TABLE delta.`p` USING delta TBLPROPERTIES ("
        "'delta.enableDeletionVectors' = 'true', 'tidemark.since' = '7') "
        "AS SELECT CAST(NULL AS INT) AS `x`, CAST(NULL AS DATE) AS `y` WHERE false"
    )
