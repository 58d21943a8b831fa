"""A Delta table, by Delta's own Scala classes.

An append has to be refused where it has been made already, be it by a predecessor's JVM that hasn't noticed yet that
it's dead. Delta has that: a commit carries an application's id and version (`SetTransaction`), the transaction reads
the last version before, and two concurrent ones that have read the same application's version conflict. The writer's
options `txnAppId` and `txnVersion` do this, but at a price: Delta 4.4 answers "which version?" by reconstructing the
whole state of the table in Spark jobs, anew for each version of it (`Snapshot.transactions`, `computedState`). That
takes longer than the append itself. The answer is in the checksum as well, which Delta holds in memory after its own
commits, and verifies itself; later versions of Delta look there first.

So `append` does what `WriteIntoDelta` does, step by step and on the same transaction, but for this one question. The
classes aren't promised to stay: that's why `spark_session` insists on one version of Delta.

Source: delta-io/delta, `OptimisticTransaction.txnVersion`, `WriteIntoDelta.run`, `ConflictChecker`
(`checkForUpdatedApplicationTransactionIdsThatCurrentTxnDependsOn`).
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

# How the names of these exceptions begin.
_CONFLICTS = ("Concurrent", "MetadataChanged", "ProtocolChanged")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A version of a table: its columns' types by name, its properties, and the last version of each application."""

    version: int
    columns: dict[str, str]
    properties: dict[str, str]
    applications: dict[str, int]


class DeltaTable:
    """The Delta table at a path, which may not be there yet."""

    def __init__(self, session: SparkSession, path: str) -> None:
        self.path = path
        jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other door to Delta's classes
        self._jvm = jvm
        self._session = session._jsparkSession  # noqa: SLF001
        self._delta: Any = self._jvm.org.apache.spark.sql.delta
        self._none = _module(self._jvm.scala, "None$")

    def snapshot(self) -> Snapshot | None:
        """The newest version; None where there's no table."""
        log = self._log()
        snapshot = log.update(False, self._none, self._none)
        if not log.tableExists():
            return None
        metadata = snapshot.metadata()
        return Snapshot(
            snapshot.version(),
            {field.name: field.dataType.simpleString() for field in _fields(metadata.schemaString())},
            {entry._1(): entry._2() for entry in _each(metadata.configuration())},  # noqa: SLF001 - a Scala pair
            self._applications(snapshot),
        )

    def append(
        self, rows: DataFrame, application: str, version: int, marks: Mapping[str, int], metadata: str
    ) -> bool:
        """Append rows, whose columns are the table's, in one commit; False if `application` has got there already.

        `marks`: versions of other applications that the commit sets as well. Raises Py4JJavaError with Delta's
        ConcurrentTransactionException where another writer gets there meanwhile.
        """
        transaction = self._log().startTransaction(self._none, self._none)
        # As txnVersion does: from here on another commit of this application is a conflict.
        transaction.readTxn().addOne(application)
        if self._applications(transaction.snapshot()).get(application, -1) >= version:
            return False
        actions = transaction.writeFiles(rows._jdf)  # noqa: SLF001
        now = self._jvm.scala.Some(int(time.time() * 1000))
        for name, reached in {application: version, **marks}.items():
            actions = actions.appended(self._delta.actions.SetTransaction(name, reached, now))
        transaction.commit(actions, self._operation(metadata))
        return True

    def _log(self) -> Any:
        return self._delta.DeltaLog.forTable(self._session, self.path)

    def _applications(self, snapshot: Any) -> dict[str, int]:
        checksum = snapshot.checksumOpt()
        known = checksum.get().setTransactions() if checksum.isDefined() else checksum
        # Delta leaves them out of the checksum where it has none or they're very many.
        marks = known.get() if known.isDefined() else snapshot.setTransactions()
        return {mark.appId(): mark.version() for mark in _each(marks)}

    def _operation(self, metadata: str) -> Any:
        write = getattr(self._delta, "DeltaOperations$Write")
        none = self._none
        append = self._jvm.org.apache.spark.sql.SaveMode.Append
        return write(append, none, none, self._jvm.scala.Some(metadata), none, none, none, none, none)


def is_conflict(error: Exception) -> bool:
    """Whether Delta gave a transaction up because somebody else (an OPTIMIZE, say) had committed meanwhile."""
    return any(f"io.delta.exceptions.{name}" in str(error) for name in _CONFLICTS)


def _fields(schema: str) -> list[StructField]:
    return StructType.fromJson(json.loads(schema)).fields


def _module(package: Any, name: str) -> Any:
    """The one instance of a Scala object."""
    return getattr(getattr(package, name), "MODULE$")


def _each(iterable: Any) -> list[Any]:
    iterator = iterable.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found
