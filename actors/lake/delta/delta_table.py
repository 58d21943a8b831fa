"""A Delta table, by Delta's own Scala classes.

An append must be refused if it was made already, even by the JVM of a predecessor that doesn't know yet that it was
replaced. Delta can refuse it. A commit carries an application's id and version (`SetTransaction`), and the transaction
reads the last version before. Two concurrent transactions that read the version of the same application conflict. If
the predecessor committed earlier, the version shows that a batch is there, or a part of it (`has_segments`).

The writer's options `txnAppId` and `txnVersion` do this. But Delta 4.4 finds the version by rebuilding the whole state
of the table in Spark jobs. It does so for each version of the table (`Snapshot.transactions`, `computedState`). That
takes longer than the append itself. The checksum also has the version. Delta holds the checksum in memory after its own
commits, and verifies it. Later versions of Delta look there first.

So `append` does what `WriteIntoDelta` does, step by step and on the same transaction, with two differences. It reads
the version from the checksum, and it writes nothing: files that exist need no Spark job. It starts from the version
that Delta saw last and doesn't list the log's folder, which takes longer the more files the folder has. The commit
finds what others have committed since, when it takes its own version. Delta doesn't promise to keep these classes, so
only the versions of `pipeline.lake.files.known_versions` write a lake.

Even so the transaction takes most of the time of an append. Where it can, this process writes the commit itself
(`actors.lake.transaction_log.own_log`). Delta sees such a commit as one of another writer: whatever reads the table
looks for newer versions first.

Source: delta-io/delta, `OptimisticTransaction.txnVersion`, `WriteIntoDelta.run`, `ConflictChecker`
(`checkForUpdatedApplicationTransactionIdsThatCurrentTxnDependsOn`).
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, Final
from uuid import uuid4

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession

from actors.lake.delta.changelog import GATHERED, gather
from actors.lake.delta.lake_table import (
    CheckReached,
    PlaceFiles,
    TableVersion,
    columns_of,
    has_segments,
    removed_table,
    unchecked,
)
from actors.lake.delta.statements import merge_by_statement, within
from actors.lake.files.file_placement import naming_table, sync_checkpoint
from actors.lake.files.mirror_files import ListedFile, MirrorFiles
from actors.lake.filesystem import passing_folder
from actors.lake.spark.spark_session import MANY_PARTS, side_session
from actors.lake.transaction_log.delta_log import NO_REPORT, IsBefore, logged_files
from actors.lake.transaction_log.own_log import OwnLog, SyncEarlier, no_sync
from pipeline.lake.files.delta_commit import BlindAppend, CommitStamp, NewTable
from pipeline.lake.files.parquet_files import Stored, wide_stats
from pipeline.lake.files.read_values import ReadBySparkOnly
from pipeline.lake.mirrors.changed_keys import ChangedKeys
from pipeline.lake.mirrors.counted_changes import CountedChanges
from pipeline.lake.mirrors.deletion_vector import vector_bytes, vector_path
from pipeline.lake.mirrors.merge import Merge
from pipeline.lake.tables.column_changes import ColumnPlan, schema_text
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.maintenance import TableSize
from pipeline.lake.tables.paths import location, merging_path
from pipeline.lake.tables.properties import VECTORS, Property
from pipeline.lake.tables.spark_sql import quoted
from pipeline.lake.tables.tier import Tier
from pipeline.schema.spelling import fold_name

# So many files of a mirror are read at once, each in pieces of half a million keys, or of fewer with long texts.
_READERS: Final = 2

# A version made from the one before has one more commit since its checkpoint. It knows of no newer checkpoint until
# someone lists the log's folder. So the folder is listed after each of so many versions.
_LOOK_EVERY = 50

# The log store under which Delta locks a table while it commits, and what would turn that off.
_LOCKING_STORE: Final = ("spark.delta.logStore.file.impl", "io.delta.storage.LocalLogStore")
_LOCKING: Final = "spark.databricks.delta.commitLock.enabled"

# How long (s) a table's lock is kept without asking Delta again. Delta keeps a table's log, which has the lock, for an
# hour after someone has asked for it.
_LOCK_KEPT_S: Final = 60.0

# Yields whether Delta commits nothing to the table at a path until the block ends.
WithoutWork = Callable[[str], AbstractContextManager[bool]]

# How settings begin that give each new table a property.
_DEFAULTS: Final = "spark.databricks.delta.properties.defaults."


def never_known(_path: str) -> AbstractContextManager[bool]:
    """Yields False: Delta may commit to any table."""
    return nullcontext(False)


@dataclass(frozen=True, slots=True)
class _Classes:
    """What an append needs of Scala's and Delta's classes, and Delta's package. Each part of each name is a question to
    the JVM.
    """

    delta: Any
    none: Any
    some: Any
    no_actions: Any
    action: Any
    set_transaction: Any
    vector: Any
    write: Any
    append: Any
    log: Any
    set_active_session: Any


@lru_cache(maxsize=1)
def _classes(jvm: Any) -> _Classes:
    delta: Any = jvm.org.apache.spark.sql.delta
    return _Classes(
        delta=delta,
        none=_module(jvm.scala, "None$"),
        some=jvm.scala.Some,
        no_actions=_module(jvm.scala.collection.immutable, "Vector$").empty(),
        action=_module(delta.actions, "Action$").fromJson,
        set_transaction=delta.actions.SetTransaction,
        vector=delta.commands.DeletionVectorData,
        write=getattr(delta, "DeltaOperations$Write"),
        append=jvm.org.apache.spark.sql.SaveMode.Append,
        log=delta.DeltaLog.forTable,
        set_active_session=jvm.SparkSession.setActiveSession,
    )


class DeltaTable:
    """The Delta table in the driver's JVM, which is this process's own."""

    # Never: the writer of the commit at which a checkpoint is due would wait for seconds.
    checkpoints: ClassVar[Mapping[str, str]] = {"delta.checkpointInterval": str(2**31 - 1)}

    def __init__(
        self,
        session: SparkSession,
        path: str,
        sync_earlier: SyncEarlier = no_sync,
        without_work: WithoutWork = never_known,
    ) -> None:
        """`without_work`: until the block ends, Delta commits nothing to the table at the path if it yields True."""
        self.path = path
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other door to Delta's classes
        self._jvm = jvm
        self._spark = session
        self._session = session._jsparkSession  # noqa: SLF001
        self._classes = _classes(jvm)
        self._delta = self._classes.delta
        self._none = self._classes.none
        self._sync_earlier = sync_earlier
        self._without_work = without_work
        self._own = OwnLog(path, sync_earlier) if _locks_commits(session) else None
        self._durable: int | None = None
        self._lock: tuple[Any, float] | None = None

    def snapshot(self) -> TableVersion | None:
        """Returns the newest version; None if there is no table."""
        if self._own is not None:
            if (end := self._own.newest()) is not None:
                return TableVersion(end.properties, end.applications, end.version, columns_of(end.schema))
            if self._own.version() == -1:
                return None
        log = self._log()
        snapshot = self._update(log)
        return self._version(snapshot) if log.tableExists() else None

    def version(self) -> int | None:
        """Returns the newest version, or the newest that Delta has made or seen here."""
        version = None if self._own is None else self._own.version()
        if version is None:
            version = int(self._log().unsafeVolatileSnapshot().version())
        return None if version < 0 else version

    def finish_alter(self) -> TableVersion | None:
        """Returns the newest version. An `alter` here is one commit, so none is ever interrupted."""
        return self.snapshot()

    def snapshot_at(self, version: int) -> TableVersion:
        """Returns an older version."""
        return self._version(self._snapshot_at(version))

    def files_at(self, version: int, is_before: IsBefore | None = None) -> list[ListedFile] | None:
        """Returns the files of a version, and the places that are hidden in them; None if that isn't read here."""
        mirror = MirrorFiles(self.path)
        files = self._files(version, lambda: self._snapshot_at(version), is_before)
        found: list[ListedFile] = []
        for file in files:
            if (hidden := self._hidden(mirror, file)) is None:
                return None
            found.append((file, hidden))
        return found

    def size(self) -> TableSize | None:
        """Returns the size of the newest version; None if there is no table."""
        if self._own is not None and (size := self._own.size()) is not None:
            return size
        log = self._log()
        snapshot = self._update(log)
        if not log.tableExists():
            return None
        commits, checksum = snapshot.logSegment().deltas().size(), snapshot.checksumOpt()
        if not checksum.isDefined():  # then counting them takes Spark jobs
            return TableSize(snapshot.numOfFiles(), 0, commits)
        counted = checksum.get()
        hidden = counted.numDeletedRecordsOpt()
        return TableSize(counted.numFiles(), hidden.get() if hidden.isDefined() else 0, commits)

    def checkpoint(self) -> None:
        """Writes a checkpoint of the log, and then removes the log's expired part.

        These are the steps of Delta's own. But the checkpoint is durable before any commit goes that it stands for.
        """
        log = self._log()
        snapshot = self._update(log)
        written = log.writeCheckpointFiles(snapshot, self._none)
        has_checksum = _module(self._delta, "LastCheckpointInfo$").checksumEnabled(log.spark())
        log.writeLastCheckpointFile(log, written, has_checksum)
        version: int = snapshot.version()
        # Batches may have made later commits meanwhile, and may have synced them.
        self._sync_earlier(self.path, (self.version() or version) + 1)
        sync_checkpoint(self.path, version)
        log.doLogCleanup(snapshot, self._none)
        self._update(log)

    def clean_log(self) -> None:
        """Removes the expired part of the log, by the table's own properties, as Delta does, but to the hour."""
        log, hour = self._log(), _module(self._delta, "TruncationGranularity$").HOUR()
        log.cleanUpExpiredLogs(self._update(log), self._none, self._none, hour)

    def _update(self, log: Any) -> Any:
        """Has Delta look at the log's folder. Returns its newest snapshot."""
        return log.update(False, self._none, self._none)

    def _snapshot_at(self, version: int) -> Any:
        return self._log().getSnapshotAt(version, self._none, self._none, False)

    def _version(self, snapshot: Any) -> TableVersion:
        metadata = snapshot.metadata()
        return TableVersion(
            {entry._1(): entry._2() for entry in _each(metadata.configuration())},  # noqa: SLF001 - a Scala pair
            self._applications(snapshot),
            snapshot.version(),
            columns_of(metadata.schemaString()),
        )

    def append(
        self,
        place: PlaceFiles,
        application: str,
        segments: range,
        marks: Mapping[str, int],
        metadata: str,
        check: CheckReached = unchecked,
    ) -> int:
        """Appends the rows of these segments, in files, in one commit. Returns its version; the newest if they are
        there.

        Raises Conflict if some are there, or if another writer brings some meanwhile. Raises Py4JJavaError with Delta's
        ConcurrentTransactionException for the same, and with MetadataChangedException if another writer changes the
        columns. Raises what `check` does.
        """
        marks = {application: segments[-1], **marks}
        self._durable = None
        if self._own is not None and (end := self._own.end()) is not None:
            reached = end.applications.get(application, -1)
            check(end.version, reached)
            if has_segments(self.path, reached, segments):
                return end.version
            append = BlindAppend(place(self.path, columns_of(end.schema)), marks, metadata, _stamp())
            with naming_table(self.path):
                committed = self._own.append(end, append, application, self._locked)
            if committed is not None:
                self._durable = committed
                return committed
        return self._append_by_delta(self._log(), place, application, segments, marks, metadata, check)

    def is_durable(self, version: int) -> bool:
        """Returns whether this process wrote the commit, and not Delta, which doesn't sync it."""
        return version == self._durable

    def _append_by_delta(
        self,
        log: Any,
        place: PlaceFiles,
        application: str,
        segments: range,
        marks: Mapping[str, int],
        metadata: str,
        check: CheckReached = unchecked,
    ) -> int:
        made = None if self._own is None else self._own.version()
        if made == -1:
            raise removed_table(self.path)
        if made is not None and made > log.unsafeVolatileSnapshot().version():
            self._update(log)  # else an append of our own would be a rival's
        transaction = log.startTransaction(self._none, self._classes.some(log.unsafeVolatileSnapshot()))
        version, reached = int(transaction.snapshot().version()), self._progress(transaction, application)
        check(version, reached)
        if has_segments(self.path, reached, segments):
            return version
        actions = self._classes.no_actions
        for line in place(self.path, columns_of(transaction.metadata().schemaString())):
            actions = actions.appended(self._classes.action(line))
        for name, reached in marks.items():
            actions = actions.appended(self._progress_action(name, reached))
        committed: int = transaction.commit(actions, self._operation(metadata))
        if committed % _LOOK_EVERY == 0:
            self._update(log)
        return committed

    def create(
        self,
        columns: Sequence[LakeColumn],
        properties: Mapping[str, str],
        marks: Mapping[str, int],
        metadata: str | None,
    ) -> bool:
        """Makes the table in a commit of this process's own. Returns False if that can't be, or if there is one."""
        if self._own is None or _has_defaults(self._spark):
            return False
        with naming_table(self.path):
            return self._own.create(NewTable(columns, properties, marks, metadata, str(uuid4())), _stamp())

    def set_transaction(self, application: str, version: int) -> None:
        """Sets an application's version, in a commit of nothing else."""
        alone = range(version, version + 1)
        self._append_by_delta(
            self._log(), lambda *_: (), application, alone, {application: version}, NO_REPORT
        )

    def merge(self, merge: Merge, application: str, metadata: str) -> None:
        """Marks rows of the mirror as deleted and appends others in their place, in one commit.

        Raises Py4JJavaError with Delta's exceptions if another writer removes files or rows meanwhile.
        """
        transaction = self._log().startTransaction(self._none, self._none)
        if self._progress(transaction, application) >= merge.through:
            return
        vectors = transaction.metadata().configuration().get(VECTORS)
        if not vectors.isDefined() or vectors.get() != "true":
            merge_by_statement(self._spark, merge, application, metadata, MANY_PARTS, self.size())
            return
        version = transaction.snapshot().version()
        columns = columns_of(transaction.metadata().schemaString())
        folder = passing_folder(merging_path(merge.lake, merge.schema.table)) if merge.few else nullcontext()
        with side_session(self._spark, MANY_PARTS) as session, folder as gathered:
            keys = None if gathered is None else self._gather(session, merge, gathered)
            merge = within(session, merge, self.size()) if keys is None else replace(merge, gathered=GATHERED)
            rows = _cast_rows(session.sql(merge.rows(version)), columns)
            if keys is None:
                marked = self._deletions_at(transaction, session, session.sql(merge.places(version)))
                added = transaction.writeFiles(rows._jdf)  # noqa: SLF001
            else:
                marked, added = self._replace_few(transaction, _changed_keys(merge, keys, columns), rows)
        actions = marked.appendedAll(added).appended(self._progress_action(application, merge.through))
        transaction.commit(actions, self._operation(metadata))

    def _gather(self, session: SparkSession, merge: Merge, folder: str) -> list[pa.Array] | None:
        """Returns the keys that have changed, as `gather` does; None if only Spark can read the changelog."""
        changelog = DeltaTable(self._spark, location(merge.lake, merge.schema.table, Tier.CHANGELOG))
        at = changelog.snapshot() if merge.changelog is None else changelog.snapshot_at(merge.changelog)
        counted = CountedChanges(merge.reached, merge.through)
        with suppress(ReadBySparkOnly):
            if at is not None:
                return gather(session, changelog, at, merge.schema, counted, folder, self._check_running)
        return None

    def _check_running(self) -> None:
        """Raises once the JVM has ended."""
        self._classes.set_active_session(self._session)

    def _replace_few(self, transaction: Any, keys: ChangedKeys, rows: DataFrame) -> tuple[Any, Any]:
        """Returns the actions that delete the rows with these keys, and those that add others.

        This process looks for the keys in the files while Spark writes.
        """
        transaction.readWholeTable()
        mirror, marked = MirrorFiles(self.path), self._classes.no_actions
        beside = ThreadPoolExecutor(_READERS, "changed-keys")
        try:
            looked_up = [
                (file, beside.submit(mirror.changed_rows, file, keys))
                for file in self._files(transaction.snapshot().version(), transaction.snapshot)
            ]
            added = transaction.writeFiles(rows._jdf)  # noqa: SLF001
            found = []
            for file, places in looked_up:
                self._check_running()
                if changed := self._shown(mirror, file, places.result()):
                    found.append((file, changed))
        finally:
            beside.shutdown(cancel_futures=True)
        for (file, _), vector in zip(found, self._store_vectors(transaction, found), strict=True):
            for action in self._marked(mirror, file, vector):
                marked = marked.appended(action)
        return marked, added

    def _shown(self, mirror: MirrorFiles, file: Mapping[str, Any], places: BitMap64) -> BitMap64:
        """Returns those of the places in a file that no deletion vector hides.

        If a vector isn't read here, its places are among them, and Delta adds nothing for them, or fails.
        """
        hidden = self._hidden(mirror, file) if places else None
        return places if hidden is None else places - hidden

    def _hidden(self, mirror: MirrorFiles, file: Mapping[str, Any]) -> BitMap64 | None:
        """Returns the places that a file's deletion vector hides; None if it isn't read here."""
        vector = file.get("deletionVector")
        if vector is None:
            return BitMap64()
        path = vector_path(vector) if "offset" in vector else None
        return None if path is None else mirror.hidden_rows(path, vector["offset"], vector["sizeInBytes"])

    def _files(
        self, version: int, snapshot: Callable[[], Any], is_before: IsBefore | None = None
    ) -> list[dict[str, Any]]:
        """Returns the actions that have added the files of a version; `snapshot` returns it as Delta has it."""
        if self._own is not None and self._own.on_disk:  # a store takes longer for each commit
            end = self._own.newest()
            if end is not None and end.version == version and end.files is not None:
                return end.files
            if (files := logged_files(self.path, version, is_before)) is not None:
                return files
        lines = snapshot().allFiles().toJSON().collectAsList()
        text: str = self._jvm.java.lang.String.join("\n", lines)
        return list(map(json.loads, filter(None, text.split("\n"))))

    def _store_vectors(
        self, transaction: Any, found: Sequence[tuple[Mapping[str, Any], BitMap64]]
    ) -> list[Any]:
        """Stores deletion vectors that hide these rows of the files, and those that the present ones hide. Returns
        what the log says of them."""
        datas = self._classes.no_actions
        for file, places in found:
            vector = self._add_file(file).deletionVector()
            known = self._none if vector is None else self._classes.some(vector.serializeToBase64())
            bitmap = vector_bytes(places)
            datas = datas.appended(self._classes.vector(file["path"], known, bitmap, len(places)))
        store = _module(self._delta.commands, "DeletionVectorWriter$").createMapperToStoreDeletionVectors(
            self._session,
            transaction.deltaLog().newDeltaHadoopConf(),
            transaction.deltaLog().dataPath(),
            0,
        )
        return [result.deletionVector() for result in _each(store.apply(datas.iterator()).toSeq())]

    def _marked(self, mirror: MirrorFiles, file: Mapping[str, Any], vector: Any) -> list[Any]:
        """Returns the actions that give a file this deletion vector. A file without a row left goes."""
        hidden = (file.get("deletionVector") or {}).get("cardinality", 0)
        rows = mirror.count_rows(file)
        if vector.cardinality() == hidden:
            return []
        if vector.cardinality() == rows:
            return [self._add_file(file).removeWithTimestamp(int(time.time() * 1000), True)]
        statistics = wide_stats(file.get("stats") or "{}", rows, hidden)
        changed = self._add_file({**file, "stats": statistics}).removeRows(vector, False, True)
        return [changed._1(), changed._2()]  # noqa: SLF001

    def _add_file(self, file: Mapping[str, Any]) -> Any:
        """Returns the action that has added a file, as Delta has it."""
        return self._classes.action(json.dumps({"add": file}))

    def _deletions_at(self, transaction: Any, session: SparkSession, places: DataFrame) -> Any:
        """Returns the actions that delete the rows at these places, as Delta's DELETE has them."""
        spark = session._jsparkSession  # noqa: SLF001
        helper = _module(self._delta.commands, "DMLWithDeletionVectorsHelper$")
        files = transaction.filterFiles()
        path, row = (self._classes.some(places[name]._jc) for name in ("path", "row"))  # noqa: SLF001
        found = _module(
            self._delta.commands, "DeletionVectorBitmapGenerator$"
        ).buildRowIndexSetsForFilesMatchingCondition(
            spark,
            transaction,
            True,
            places._jdf,  # noqa: SLF001
            files,
            _module(self._jvm.org.apache.spark.sql.catalyst.expressions, "Literal$").TrueLiteral(),
            path,
            row,
        )
        by_path = helper.generateCandidateFileMap(transaction.deltaLog().dataPath(), files)
        touched = helper.findFilesWithMatchingRows(transaction, by_path, found)
        prefix = _module(self._delta.stats, "StatsCollectionUtils$").getDataSkippingStringPrefixLength(
            spark, transaction.metadata()
        )
        return helper.processUnmodifiedData(spark, touched, transaction.snapshot(), prefix)._1()  # noqa: SLF001

    def alter(self, plan: ColumnPlan, properties: Mapping[str, str], pin: str | None = None) -> None:
        """Changes the columns, including those that aren't the source table's, and sets properties, in one commit."""
        if plan.changes or not self._altered(plan, properties, pin):
            self._alter_by_delta(plan, properties, pin)

    def _altered(self, plan: ColumnPlan, properties: Mapping[str, str], pin: str | None) -> bool:
        """Sets properties and the pin without the JVM. Returns False if that can't be."""
        end = None if self._own is None else self._own.end()
        if self._own is None or end is None:
            return False
        pin = pin or end.properties.get(Property.PIN)
        pinned = {} if pin is None else {Property.PIN.value: pin}
        schema = schema_text(plan, end.schema, pin)
        with naming_table(self.path):
            made = self._own.alter(end, schema, {**properties, **pinned}, _stamp(), self._locked)
        return made is not None

    def _alter_by_delta(self, plan: ColumnPlan, properties: Mapping[str, str], pin: str | None) -> None:
        transaction = self._log().startTransaction(self._none, self._none)
        present = transaction.metadata()
        configuration = present.configuration()
        said = configuration.get(Property.PIN.value)
        pin = pin or (said.get() if said.isDefined() else None)
        pinned = {} if pin is None else {Property.PIN.value: pin}
        for name, value in {**properties, **pinned}.items():
            configuration = configuration.updated(name, value)
        altered = present.copy(
            present.id(),
            present.name(),
            properties.get(Property.ABOUT, present.description()),
            present.format(),
            schema_text(plan, present.schemaString(), pin),
            present.partitionColumns(),
            configuration,
            present.createdTime(),
        )
        transaction.updateMetadata(altered, False)
        update = getattr(self._delta, "DeltaOperations$UpdateSchema")(present.schema(), altered.schema())
        transaction.commit(self._classes.no_actions, update)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps Delta from committing to the table in this JVM."""
        with self._without_work(self.path) as alone, nullcontext() if alone else self._delta_lock():
            yield

    @contextmanager
    def _delta_lock(self) -> Iterator[None]:
        """Holds Delta's lock of the table. A thread here is one thread there, and holds its locks."""
        known = self._lock
        if known is None or time.monotonic() >= known[1]:
            self._lock = known = self._log().snapshotLock(), time.monotonic() + _LOCK_KEPT_S
        lock = known[0]
        lock.lock()
        try:
            yield
        finally:
            lock.unlock()

    def _log(self) -> Any:
        # Delta asks the thread for its session when it reads a log from a checkpoint and has no checksum.
        self._classes.set_active_session(self._session)
        return self._classes.log(self._session, self.path)

    def _applications(self, snapshot: Any) -> dict[str, int]:
        checksum = snapshot.checksumOpt()
        known = checksum.get().setTransactions() if checksum.isDefined() else checksum
        # Delta leaves them out of the checksum if it has none, or if they are very many.
        marks = known.get() if known.isDefined() else snapshot.setTransactions()
        return {mark.appId(): mark.version() for mark in _each(marks)}

    def _progress(self, transaction: Any, application: str) -> int:
        """Returns the version that the application has reached. From here on another commit of the application
        conflicts, as with `txnVersion`."""
        transaction.readTxn().addOne(application)
        return self._applications(transaction.snapshot()).get(application, -1)

    def _progress_action(self, application: str, version: int) -> Any:
        """Returns the action that sets an application's version."""
        now = self._classes.some(int(time.time() * 1000))
        return self._classes.set_transaction(application, version, now)

    def _operation(self, metadata: str) -> Any:
        write, append, none = self._classes.write, self._classes.append, self._none
        return write(append, none, none, self._classes.some(metadata), none, none, none, none, none)


def _changed_keys(merge: Merge, keys: Sequence[pa.Array], columns: Mapping[str, Stored]) -> ChangedKeys:
    """Returns these keys, with the names that their parts have in the files of a table."""
    stored = {fold_name(name): column.name for name, column in columns.items()}
    names = [stored[fold_name(name)] for name in merge.schema.key_names]
    changed = {name: pa.chunked_array([key]) for name, key in zip(names, keys, strict=True)}
    return ChangedKeys(changed, {stored[fold_name(name)] for name in merge.ordered})


def _stamp() -> CommitStamp:
    return CommitStamp(int(time.time() * 1000), str(uuid4()))


@lru_cache(maxsize=1)
def _locks_commits(session: SparkSession) -> bool:
    """Returns whether Delta locks a table on a local disk while it commits."""
    name, store = _LOCKING_STORE
    return session.conf.get(name, "") == store and session.conf.get(_LOCKING, "true") == "true"


@lru_cache(maxsize=1)
def _has_defaults(session: SparkSession) -> bool:
    """Returns whether the settings give new tables properties that this process doesn't know."""
    settings = session.sparkContext.getConf().toDebugString()  # in one answer, and `getAll` asks for each
    return any(line.startswith(_DEFAULTS) for line in settings.splitlines())


def _cast_rows(rows: DataFrame, columns: Mapping[str, Stored]) -> DataFrame:
    """Returns rows with the types of a table's columns.

    A changelog's column may be wider than the mirror's, which began again with a narrower type. Delta writes files with
    the types of the rows, and no reader could read those.
    """
    types = {fold_name(name): column.type for name, column in columns.items()}
    return rows.select(
        *(rows[quoted(name)].cast(types[fold_name(name)]).alias(name) for name in rows.columns)
    )


def _module(package: Any, name: str) -> Any:
    """Returns the one instance of a Scala object."""
    return getattr(getattr(package, name), "MODULE$")


def _each(iterable: Any) -> list[Any]:
    iterator = iterable.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found
