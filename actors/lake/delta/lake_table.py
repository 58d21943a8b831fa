"""What the service reads of a lake table and commits to it, whichever way leads to it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

from pyspark.sql.types import StructField, StructType

from actors.lake.files.mirror_files import ListedFile
from actors.lake.transaction_log.delta_log import IsBefore
from pipeline.errors import Transient
from pipeline.lake.files.delta_commit import Conflict
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.tables.column_changes import ColumnPlan, unchanged_plan
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.report import TableReport

_GONE = (
    "{path} was removed while the service runs; the table's next batch makes it again, and its mirror, if it has one, "
    "is filled again; stop the service before you remove a lake table"
)

# How the names of these exceptions begin.
_CONFLICTS = ("Concurrent", "MetadataChanged", "ProtocolChanged")


@dataclass(frozen=True, slots=True)
class TableVersion(TableReport):
    """A version of a table, with its columns by name."""

    version: int
    columns: Mapping[str, Stored]

    @property
    def source_columns(self) -> tuple[LakeColumn, ...]:
        """The columns that come from the source."""
        return tuple(
            LakeColumn(name, column.type) for name, column in self.columns.items() if name != self.pin
        )

    @property
    def unchanged(self) -> ColumnPlan:
        """The plan that changes nothing in the table."""
        return unchanged_plan(self.source_columns, self.schema)


# Makes the files exist in a folder, for a table with these columns. Returns the actions that add them, as lines of
# Delta's log, with paths relative to the folder.
PlaceFiles = Callable[[str, Mapping[str, Stored]], Sequence[str]]

# Raises if a table mustn't have what it has: a version of the table, and the segment that its application has reached
# there.
CheckReached = Callable[[int, int], object]


def unchecked(_version: int, _reached: int) -> None:
    """Takes a table as it is."""


class LakeTable(Protocol):
    """The Delta table at a path, which may not be there yet."""

    path: str
    # Properties of a new table: who writes its log's checkpoints, Delta or `checkpoint`.
    checkpoints: ClassVar[Mapping[str, str]]

    def snapshot(self) -> TableVersion | None:
        """Returns the newest version; None if there is no table."""

    def version(self) -> int | None:
        """Returns the newest version that this process has made or seen; None if there is no table."""

    def finish_alter(self) -> TableVersion | None:
        """Returns the newest version, after it completes an interrupted `alter`."""

    def snapshot_at(self, version: int) -> TableVersion:
        """Returns an older version."""

    def size(self) -> TableSize | None:
        """Returns the size of the newest version; None if there is no table."""

    def checkpoint(self) -> None:
        """Writes a checkpoint of the log, if Delta doesn't write it."""

    def clean_log(self) -> None:
        """Removes the expired part of the log, by the table's own properties."""

    def append(
        self,
        place: PlaceFiles,
        application: str,
        segments: range,
        marks: Mapping[str, int],
        metadata: str,
        check: CheckReached = unchecked,
    ) -> int | None:
        """Appends the rows of these segments, in files, in one commit, unless `application` has reached the last one.

        Raises Conflict if it has reached another one of them: then the commit would bring some rows twice. Raises what
        `check` does.

        `marks`: versions of other applications that the same commit sets. `metadata`: the commit's own report. Returns
        the table's version if the caller must make it durable, else None. It must also if the rows are there: another
        writer's commit needn't be durable yet.
        """

    def is_durable(self, version: int) -> bool:
        """Returns whether the version that `append` has returned is durable already, by itself."""

    def create(
        self,
        columns: Sequence[LakeColumn],
        properties: Mapping[str, str],
        marks: Mapping[str, int],
        metadata: str | None,
    ) -> bool:
        """Makes the table without a statement of Spark's. Returns False if that can't be, or if there is one.

        `marks`, `metadata`: as of `append`.
        """

    def set_transaction(self, application: str, version: int) -> None:
        """Sets an application's version, in a commit of nothing else."""

    def files_at(self, version: int, is_before: IsBefore | None = None) -> Sequence[ListedFile] | None:
        """Returns the files of a version, and the places that are hidden in them; None if that can't be told.

        `is_before`: whether a commit and all before it are of no interest. What these have added may be left out.
        """

    def merge(self, merge: Merge, application: str, metadata: str) -> None:
        """Brings this mirror to the merge's segment in one commit, unless `application` has reached it."""

    def alter(self, plan: ColumnPlan, properties: Mapping[str, str], pin: str | None = None) -> None:
        """Changes the columns and sets properties, so that no reader sees one without the other.

        The table has column mapping before columns are renamed, and type widening before they are widened. `pin`: the
        column that texts are bound to from here on; None leaves it as it is.
        """


# The table at a path.
TableOpener = Callable[[str], LakeTable]


def removed_table(path: str) -> Transient:
    """Returns the error for a table that was there, and is no more."""
    return Transient(_GONE.format(path=path))


def present_version(table: LakeTable) -> TableVersion:
    """Returns the newest version of a table that was there. Raises Transient if somebody has removed it."""
    if (found := table.snapshot()) is None:
        raise removed_table(table.path)
    return found


def has_segments(path: str, reached: int, segments: range) -> bool:
    """Returns whether a table that has everything through the segment `reached` has these segments.

    Raises Conflict if it has only some: another writer brought them since this one looked.
    """
    if segments[0] <= reached < segments[-1]:
        raise Conflict(f"another writer has delivered to {path}, through segment {reached}")
    return reached >= segments[-1]


def is_conflict(error: Exception) -> bool:
    """Returns whether a commit was given up because another writer (an OPTIMIZE, say) committed meanwhile."""
    if isinstance(error, Conflict):
        return True
    said = str(error)  # which asks the JVM
    return any(f"io.delta.exceptions.{name}" in said for name in _CONFLICTS)


@lru_cache(maxsize=1024)
def columns_of(schema: str) -> Mapping[str, Stored]:
    """Returns the columns of a table by name; `schema` as in Delta's metadata."""
    return {field.name: _stored_name(field) for field in StructType.fromJson(json.loads(schema)).fields}


def _stored_name(field: StructField) -> Stored:
    mapped = field.metadata or {}
    name = mapped.get("delta.columnMapping.physicalName", field.name)
    parts = tuple(map(_stored_name, field.dataType.fields)) if isinstance(field.dataType, StructType) else ()
    return Stored(name, field.dataType.simpleString(), mapped.get("delta.columnMapping.id"), parts)
