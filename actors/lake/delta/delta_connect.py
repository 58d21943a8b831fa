"""A Delta table reached through a Spark Connect server, which takes SQL and plans and gives no access to Delta's
classes.

pyarrow reads the table's state from its log, so both the server and this process must reach the lake's path. All writes
use what Delta offers to everyone.

**Once.** The journal's files are placed in a folder beside the table's own, `placed/<tier>`, which belongs to no table.
Spark appends their rows in one write with the options `txnAppId` and `txnVersion`. For such a write Delta makes one
commit that has the rows and sets the application's version. It does nothing if the application has reached that version
already, and of two such writes at the same time it gives one up (`ConcurrentTransactionException`). So the table has a
write once or not at all. That holds even if no one learned how it ended, or a predecessor's server is still busy with
it. The next writer reads in the log which it is. MERGE, and the statement with which a mirror begins again, happen once
in the same way, by settings of their session.

A successor's batch may have more segments than the predecessor's, and Delta compares the versions only. So the
successor looks at the log right before its write, when the files are placed. It gives the write up if the table has a
part of the batch (`actors.lake.delta.lake_table.has_segments`). A commit between that look and Delta's own would escape
it. A new session first ends its predecessor's, wherever that was opened, so that none comes so late.

**Marks.** A write sets the version of one application. A batch has one more to set: the segment through which all
tables have everything (`<journal>/after`, see `pipeline.lake.delivery`). That is true whatever becomes of the batch, so
another commit may hold it. One table is enough, since the greatest of all counts. So an append of no rows sets it, with
the first table of a batch and before the batch has ended.

**Columns.** One statement changes one of them. `pipeline.lake.alter_statements` says why nothing stays half done. A
predecessor's statement may still arrive. So a new session first ends its predecessor's
(`actors.lake.spark.spark_connect`). A statement that comes even later fails, because its column is gone or exists
already. Or it sets properties to values that the successor sets again.

**What is missing.** A server rewrites the files that it is given, which costs more than naming them, and as durably as
its filesystem does. Delta itself removes the expired part of a log when it writes a checkpoint.

Source: Delta Lake documentation, "Idempotent table writes in foreachBatch"; delta-io/delta, `WriteIntoDelta.run`,
`DeltaCommand.hasBeenExecuted`.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import ClassVar

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession

from actors.lake.delta.lake_table import (
    CheckReached,
    PlaceFiles,
    TableVersion,
    columns_of,
    has_segments,
    present_version,
    unchecked,
)
from actors.lake.delta.statements import merge_by_statement
from actors.lake.filesystem import lake_filesystem
from actors.lake.spark.spark_session import read_parquet
from actors.lake.transaction_log.delta_log import NO_REPORT, IsBefore, read_version
from pipeline.errors import Transient
from pipeline.lake.alter_statements import ColumnAlteration, beginning, remaining
from pipeline.lake.files.parquet_files import Stored
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.tables.column_changes import ColumnPlan
from pipeline.lake.tables.columns import PIN_TYPE, LakeColumn, ddl
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.properties import MAPPING, Property
from pipeline.lake.tables.spark_sql import quoted, table_at
from pipeline.lake.tables.statements import set_properties_sql


class ConnectTables:
    """The tables of a session, by their paths."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._set: dict[str, int] = {}
        self._setting = Lock()

    def __call__(self, path: str) -> "ConnectTable":
        """Returns the table at a path."""
        return ConnectTable(self, path)

    def set_transactions(self, table: "ConnectTable", marks: Mapping[str, int]) -> None:
        """Sets other applications' versions, those that no table has been given yet."""
        with self._setting:
            for application, version in marks.items():
                if self._set.get(application, 0) < version:
                    table.set_transaction(application, version)
                    self._set[application] = version


class ConnectTable:
    """The table at a path, which may not be there yet."""

    # There are some commits a second, and a checkpoint takes as long as one or two of them.
    checkpoints: ClassVar[Mapping[str, str]] = {"delta.checkpointInterval": "100"}

    def __init__(self, tables: ConnectTables, path: str) -> None:
        self.path = path
        self._tables = tables
        self._session = tables.session

    def snapshot(self) -> TableVersion | None:
        """Returns the newest version; None if there is no table."""
        return self._at(None)

    def version(self) -> int | None:
        """Returns the newest version; None if there is no table."""
        with _reading(self.path):
            found = read_version(self.path)
        return None if found is None else found.version

    def finish_alter(self) -> TableVersion | None:
        """Returns the newest version, after it completes an interrupted `alter`."""
        found = self.snapshot()
        if found is None or not found.altering:
            return found
        becoming = ColumnAlteration.read(found.properties[Property.ALTERING])
        for statement in remaining(self.path, becoming, found.columns):
            self._session.sql(statement)
        return self.snapshot()

    def snapshot_at(self, version: int) -> TableVersion:
        """Returns an older version."""
        found = self._at(version)
        assert found is not None
        return found

    def files_at(self, _: int, is_before: IsBefore | None = None) -> None:
        """Returns nothing: the server reads the files."""

    def size(self) -> TableSize | None:
        """Returns the size of the newest version; None if there is no table."""
        with _reading(self.path):
            found = read_version(self.path)
        return None if found is None else TableSize(found.files or 0, found.hidden or 0)

    def checkpoint(self) -> None:
        """Does nothing: Delta writes one at each `checkpoints` commits."""

    def clean_log(self) -> None:
        """Does nothing: Delta cleans the log."""

    def append(
        self,
        place: PlaceFiles,
        application: str,
        segments: range,
        marks: Mapping[str, int],
        metadata: str,
        check: CheckReached = unchecked,
    ) -> None:
        """Appends the rows of files in one commit, unless `application` has reached the last of these segments.

        Raises Conflict if it has reached another one of them, and what `check` does.
        """
        found = present_version(self)
        if not self._has(found, application, segments, check):
            with self._placed_rows(place, found.columns) as rows:
                # A predecessor's server may have committed while the files were copied.
                found = present_version(self)
                if not self._has(found, application, segments, check):
                    self._write(rows, application, segments[-1], metadata)
        self._tables.set_transactions(self, marks)

    def _has(self, found: TableVersion, application: str, segments: range, check: CheckReached) -> bool:
        reached = found.applications.get(application, -1)
        check(found.version, reached)
        return has_segments(self.path, reached, segments)

    def is_durable(self, _: int) -> bool:
        """Returns False: `append` returns no version."""
        return False

    def create(self, *_: object) -> bool:
        """Does nothing: a statement makes each table."""
        return False

    def set_transaction(self, application: str, version: int) -> None:
        """Sets an application's version by an append of no rows."""
        nothing = self._session.read.format("delta").load(self.path).limit(0)
        self._write(nothing, application, version, NO_REPORT)

    def merge(self, merge: Merge, application: str, metadata: str) -> None:
        """Brings this mirror to the merge's segment by MERGE."""
        merge_by_statement(self._session, merge, application, metadata, {}, self.size())

    def alter(self, plan: ColumnPlan, properties: Mapping[str, str], pin: str | None = None) -> None:
        """Changes the columns one after the other, and sets properties."""
        if pin is not None:
            self._pin(pin)
        found = self.snapshot()
        assert found is not None
        if not plan.changes:
            if properties:
                self._session.sql(set_properties_sql(self.path, properties))
            return
        self._session.sql(beginning(self.path, ColumnAlteration.by(plan, found.columns, properties)))
        self.finish_alter()

    def _pin(self, pin: str) -> None:
        """Binds texts to another column. Between the two commits each text fails, old or new."""
        found = self.snapshot()
        assert found is not None
        old, table = found.pin, f"ALTER TABLE {table_at(self.path)}"
        if old is not None and old in found.columns and pin not in found.columns:
            if found.properties.get(MAPPING) != "name":
                self._session.sql(set_properties_sql(self.path, {MAPPING: "name"}))
            self._session.sql(f"{table} RENAME COLUMN {quoted(old)} TO {quoted(pin)}")
        elif pin not in found.columns:
            self._session.sql(f"{table} ADD COLUMNS ({quoted(pin)} {PIN_TYPE})")
        self._session.sql(set_properties_sql(self.path, {Property.PIN: pin}))

    def _at(self, version: int | None) -> TableVersion | None:
        with _reading(self.path):
            found = read_version(self.path, version)
        if found is None:
            return None
        return TableVersion(found.properties, found.applications, found.version, columns_of(found.columns))

    @contextmanager
    def _placed_rows(self, place: PlaceFiles, columns: Mapping[str, Stored]) -> Iterator[DataFrame]:
        """The rows of files that are placed beside the table until the block ends."""
        database, _, tier = self.path.rpartition("/")
        folder = f"{database}/placed/{tier}"
        with _reading(folder):
            filesystem, inside = lake_filesystem(folder)
            _empty(filesystem, inside)
        names = {name: Stored(name, column.type) for name, column in columns.items()}
        added = [json.loads(line)["add"]["path"] for line in place(folder, names)]
        yield read_parquet(self._session, _ddl(columns), *(f"{folder}/{name}" for name in added))
        with _reading(folder):
            _empty(filesystem, inside)

    def _write(self, rows: DataFrame, application: str, version: int, metadata: str) -> None:
        once = {"txnAppId": application, "txnVersion": str(version), "userMetadata": metadata}
        rows.write.format("delta").mode("append").options(**once).save(self.path)


def _ddl(columns: Mapping[str, Stored]) -> str:
    return ddl(LakeColumn(name, column.type) for name, column in columns.items())


def _empty(filesystem: fs.FileSystem, folder: str) -> None:
    filesystem.create_dir(folder, recursive=True)
    filesystem.delete_dir_contents(folder)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Transient(f"the lake can't be reached at {path} ({error})") from error
