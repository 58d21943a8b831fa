"""What is read of a changelog: the version that belongs with a mirror, and the changes in it that count."""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from actors.lake.delta.lake_table import LakeTable, TableVersion
from actors.lake.files.gathered_changes import gather_changes, gathered_columns, read_numbered
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.live_view import belong_together
from pipeline.lake.mirrors.counted_changes import CountedChanges
from pipeline.lake.tables.report import TableReport
from pipeline.schema.table_schema import TableSchema

# Gathered changes, as a file and as a name in a session.
GATHERED: Final = "tidemark_changes"


def last_together(mirrored: TableReport, changelogs: LakeTable, changelog: TableVersion) -> TableVersion:
    """Returns the last version up to this one of the changelog that may be read together with a mirror.

    It may lack changes that this one has. A segment in the middle of a batch may bring the new columns. If a kill
    leaves them in the changelog alone, and batches are cut elsewhere afterwards, one may end before that segment. Its
    changes come behind the new columns.
    """
    while not belong_together(mirrored, changelog):
        changelog = changelogs.snapshot_at(changelog.version - 1)
    return changelog


def whole_together(
    mirrored: TableReport, changelogs: LakeTable, changelog: TableVersion, through: int
) -> TableVersion:
    """Returns what `last_together` does. Raises Conflict if that lacks changes of the segments through this one.

    Then no version is right for the mirror, until the batch with the new columns brings them to it too.
    """
    found = last_together(mirrored, changelogs, changelog)
    if found.mark("changes") < min(through, changelog.mark("changes")):
        raise Conflict("its changelog has columns and changes that have to wait for the mirror's columns")
    return found


def gather(
    session: SparkSession,
    changelog: LakeTable,
    at: TableVersion,
    schema: TableSchema,
    counted: CountedChanges,
    folder: str,
    check: Callable[[], object],
) -> list[pa.Array]:
    """Returns the keys of the changes that count in a version of a changelog, as a column for each part.

    The changes are `GATHERED` in the session then, and in the folder. Raises ReadBySparkOnly if only Spark can read
    them, and as `gather_changes`.
    """
    application, scn = at.application("changes"), at.columns["__scn"].name
    files = changelog.files_at(at.version, lambda commit: counted.come_after(commit, application, scn))
    if files is None:
        raise ReadBySparkOnly("the changelog's files can't be listed, or a deletion vector isn't read here")
    out = f"{folder}/{GATHERED}"
    keys = gather_changes(changelog.path, files, at.columns, schema, counted, out, check)
    read_numbered(session, out, gathered_columns(schema, at.columns), GATHERED)
    return keys
