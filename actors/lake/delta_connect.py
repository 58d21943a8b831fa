"""A Delta table behind a Spark Connect server, which takes SQL and plans, and has no door to Delta's classes.

What the table says of itself is read in its log, by pyarrow: both the server and we have to reach the lake's path. What
is written goes the ways that Delta offers to everybody.

**Once.** Files of the journal are placed in a folder beside the table's own, `placed/<tier>`, which no table knows, and
Spark appends what's in them by one write with the options `txnAppId` and `txnVersion`. For such a write Delta makes one
commit that has the rows, and says that this application has got to this version. It does nothing where an application
has got there already, and of two such writes at the same time it gives one up
(`ConcurrentTransactionException`). So a write of which nobody learned how it ended, or that a predecessor's server is
still busy with, is in the table once or not at all, and the next one finds which by reading the log. MERGE, and the
statement that begins a mirror anew, are made once in the same way, by settings of their session.

**Marks.** A write sets one application's version, and a batch's commit has another one to tell: through which segment
all tables have everything (`<journal>/after`, see `pipeline.lake.delivery`). It's true whatever becomes of the batch,
so that it needn't be in the same commit; and one table that tells it is enough, since the greatest of all counts. So it
gets an append of no rows, with the first table of a batch, and before the batch has ended.

**Columns.** They're changed by a statement each; `pipeline.lake.alter_statements` has why nothing is half done in the
end. A predecessor's statement may still arrive: a new session ends that of its predecessor first
(`actors.lake.spark_connect`). One that's late all the same fails, since its column isn't there or is there already, or
sets properties to what they're set to again by whoever finishes.

**What there isn't.** A server writes anew what it's told of, which costs more than naming it, and as durably as its
filesystem does; Delta removes what has expired of a log by itself, when it makes a checkpoint.

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

from actors.lake.delta_log import NOTHING, read_version
from actors.lake.delta_table import PlaceFiles, TableVersion, columns_of, made_once
from actors.lake.filesystem import lake_filesystem
from actors.lake.spark_session import side_session
from pipeline.errors import Transient
from pipeline.lake.alter_statements import ColumnAlteration, beginning, remaining
from pipeline.lake.column_changes import Plan
from pipeline.lake.maintenance import TableSize
from pipeline.lake.merge import Merge
from pipeline.lake.parquet_files import Stored
from pipeline.lake.tables import (
    MAPPING,
    PIN_TYPE,
    LakeColumn,
    Property,
    ddl,
    quoted,
    set_properties_sql,
    table_at,
)


class ConnectTables:
    """The tables of a session, by their paths."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._told: dict[str, int] = {}
        self._telling = Lock()

    def __call__(self, path: str) -> "ConnectTable":
        """The table at a path."""
        return ConnectTable(self, path)

    def tell(self, table: "ConnectTable", marks: Mapping[str, int]) -> None:
        """Set other applications' versions, those that no table has been given yet."""
        with self._telling:
            for application, version in marks.items():
                if self._told.get(application, 0) < version:
                    table.tell(application, version)
                    self._told[application] = version


class ConnectTable:
    """The table at a path, which may not be there yet."""

    # There are some commits a second, and a checkpoint takes as long as one or two.
    checkpoints: ClassVar[Mapping[str, str]] = {"delta.checkpointInterval": "100"}

    def __init__(self, tables: ConnectTables, path: str) -> None:
        self.path = path
        self._tables = tables
        self._session = tables.session

    def snapshot(self) -> TableVersion | None:
        """The newest version; None where there's no table."""
        return self._at(None)

    def settled(self) -> TableVersion | None:
        """The newest version, once all that `alter` was interrupted in is done."""
        found = self.snapshot()
        if found is None or not found.altering:
            return found
        becoming = ColumnAlteration.read(found.properties[Property.ALTERING])
        for statement in remaining(self.path, becoming, found.columns):
            self._session.sql(statement)
        return self.snapshot()

    def snapshot_at(self, version: int) -> TableVersion:
        """An older version."""
        found = self._at(version)
        assert found is not None
        return found

    def size(self) -> TableSize | None:
        """How large the newest version is; None where there's no table."""
        with _reading(self.path):
            found = read_version(self.path)
        return None if found is None else TableSize(found.files or 0, found.hidden or 0)

    def checkpoint(self) -> None:
        """Delta does it by itself, each `checkpoints` commits."""

    def clean_log(self) -> None:
        """Delta does it by itself."""

    def append(
        self, place: PlaceFiles, application: str, version: int, marks: Mapping[str, int], metadata: str
    ) -> None:
        """Append the rows of files in one commit, unless `application` has got to this version already."""
        found = self.snapshot()
        assert found is not None
        if found.applications.get(application, -1) < version:
            with self._placed_rows(place, found.columns) as rows:
                self._write(rows, application, version, metadata)
        self._tables.tell(self, marks)

    def tell(self, application: str, version: int) -> None:
        """Set an application's version by an append of no rows."""
        nothing = self._session.read.format("delta").load(self.path).limit(0)
        self._write(nothing, application, version, NOTHING)

    def merge(self, merge: Merge, application: str, metadata: str) -> None:
        """Bring this mirror to the merge's segment by MERGE."""
        with side_session(self._session, made_once(application, merge.through, metadata)) as session:
            session.sql(merge.statement())

    def alter(self, plan: Plan, properties: Mapping[str, str], pin: str | None = None) -> None:
        """Change the columns, by and by, and set properties."""
        if pin is not None:
            self._pin(pin)
        found = self.snapshot()
        assert found is not None
        if not plan.changes:
            if properties:
                self._session.sql(set_properties_sql(self.path, properties))
            return
        self._session.sql(beginning(self.path, ColumnAlteration.by(plan, found.columns, properties)))
        self.settled()

    def _pin(self, pin: str) -> None:
        """Bind texts to another column. Between the two commits each text fails, be it old or new."""
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
        """The rows of files that are placed beside the table for as long."""
        database, _, tier = self.path.rpartition("/")
        folder = f"{database}/placed/{tier}"
        with _reading(folder):
            filesystem, inside = lake_filesystem(folder)
            _empty(filesystem, inside)
        names = {name: Stored(name, column.type) for name, column in columns.items()}
        added = [json.loads(line)["add"]["path"] for line in place(folder, names)]
        yield self._session.read.schema(_ddl(columns)).parquet(*(f"{folder}/{name}" for name in added))
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
