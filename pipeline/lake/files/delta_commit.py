"""A commit of a Delta table that Tidemark writes itself, as one JSON file of the table's log.

Delta's own transaction takes 40 ms of the JVM for what is one small file. The first version of a table takes a
statement of Spark's, with a plan and a job. Three kinds of commits need nothing of that, because they read no row and
remove no file. These are files that come, a new table, and other properties. This module has all that such a commit
takes from Delta's format. It says when Tidemark may write one, what is in it, and what another writer's commit means
for it.

**When.** `takes_append` compares the table's protocol and properties with those that ask nothing of an append. A table
with any other (row tracking, commit times of its own, constraints, a coordinator of commits) is left to Delta. So is
the version at which Delta writes a checkpoint, because nothing here writes checkpoints. A table's columns may have
names of their own in its files. Delta gives these names, so such a table is left to Delta when it is made or altered.

**What.** The commit has the actions that Delta writes for the same: `commitInfo`, the files, the metadata and the
protocol, and the versions of applications. `commitInfo` says that it is a blind append, so a concurrent DELETE or
OPTIMIZE judges it as one.

**The checksum.** Delta writes a checksum beside each version: the sums of its files, its protocol, its metadata and its
applications. A reader that finds one need not add up the log, for which Delta takes Spark jobs. A checksum follows from
the one before and from what has come. So each commit here begins with the checksum of the version before it, and brings
its own. If there is none, or if it lacks something, Delta makes the commit and the checksum.

**Another's commit** may take the version first. `hindrance` judges it as Delta's `ConflictChecker` judges it for a
blind append. Another protocol, other metadata, or the same application's progress hinder the commit. Files that came or
went don't, and then the next version is tried. Nothing may come before the first version of a table.

Source: Delta Transaction Log Protocol, sections Commit Provenance Information, Add File, Change Metadata, Protocol
Evolution, Table Features, Transaction Identifiers, Version Checksum File, Requirements for Writers; delta-io/delta,
`ConflictChecker`, `RecordChecksum`.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipeline.errors import Transient
from pipeline.lake.tables.column_changes import new_schema_text
from pipeline.lake.tables.columns import META_COMMENTS, LakeColumn
from pipeline.lake.tables.properties import MAPPING, VECTORS, Property, need_mapping

# Features of writers that ask nothing of an append of files that have the table's columns.
_FEATURES: Final = frozenset(
    {
        "appendOnly",
        "columnMapping",
        "deletionVectors",
        "invariants",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
# Up to this version a protocol lists no features, and the properties show which are used.
_WRITER_WITHOUT_LIST: Final = 5
_WRITER_WITH_LIST: Final = 7

# Properties of Delta's that ask nothing of an append. Any other may.
_PROPERTIES: Final = frozenset(
    f"delta.{name}"
    for name in (
        "appendOnly",
        "checkpoint.writeStatsAsJson",
        "checkpoint.writeStatsAsStruct",
        "checkpointInterval",
        "checkpointPolicy",
        "columnMapping.maxColumnId",
        "columnMapping.mode",
        "dataSkippingNumIndexedCols",
        "dataSkippingStatsColumns",
        "deletedFileRetentionDuration",
        "enableDeletionVectors",
        "enableExpiredLogCleanup",
        "enableTypeWidening",
        "isolationLevel",
        "logRetentionDuration",
        "parquet.compression.codec",
        "targetFileSize",
        "tuneFileSizesForRewrites",
    )
)
# Those of them that ask nothing of the protocol of a new table, or what `_needs` says.
_PROPERTIES_OF_NEW_TABLES: Final = frozenset(
    (
        "delta.checkpointInterval",
        "delta.deletedFileRetentionDuration",
        "delta.logRetentionDuration",
        VECTORS,
    )
)
_EVERY: Final = "delta.checkpointInterval"
_EVERY_BY_DEFAULT: Final = 10

# What a column's metadata has if its values are checked or computed.
_CHECKED: Final = ("delta.generationExpression", "delta.invariants", "delta.identity.")

# All that a checksum may have. One with anything else can't be brought forward here.
_NEEDED: Final = frozenset({"tableSizeBytes", "numFiles", "setTransactions", "metadata", "protocol"})
_KNOWN: Final = _NEEDED | {
    "txnId",
    "numDeletedRecordsOpt",
    "numDeletionVectorsOpt",
    "numMetadata",
    "numProtocol",
    "domainMetadata",
    "fileSizeHistogram",
    "histogramOpt",
    "deletedRecordCountsHistogramOpt",
    "allFiles",
}

# A checksum lists the files of a table of so many, as Delta's own does.
MOST_LISTED_FILES: Final = 50

# What Delta calls the writer of a commit.
_ENGINE: Final = "Tidemark"

# Kinds of actions of others that change no more than the table's rows.
_HARMLESS: Final = frozenset({"add", "remove", "cdc", "commitInfo", "txn", "domainMetadata"})


class Conflict(Transient):
    """Work on a lake table was given up: another writer committed meanwhile, or columns have to come to it first."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """A version of a table, and its checksum as Delta's JSON has it."""

    version: int
    checksum: Mapping[str, Any]

    @property
    def schema(self) -> str:
        """Returns the columns, as in Delta's metadata."""
        text: str = self.checksum["metadata"]["schemaString"]
        return text

    @property
    def properties(self) -> Mapping[str, str]:
        """Returns the table's properties."""
        configuration: Mapping[str, str] = self.checksum["metadata"]["configuration"]
        return configuration

    @property
    def applications(self) -> dict[str, int]:
        """Returns the version that each application has reached."""
        return {each["appId"]: each["version"] for each in self.checksum["setTransactions"]}

    @property
    def files(self) -> list[dict[str, Any]] | None:
        """Returns the actions that have added the table's files; None if the checksum doesn't list them."""
        listed: list[dict[str, Any]] | None = self.checksum.get("allFiles")
        return listed


@dataclass(frozen=True, slots=True)
class CommitStamp:
    """When a commit is made (ms since the epoch), and a number that tells it from all others."""

    at_ms: int
    number: str


@dataclass(frozen=True, slots=True)
class BlindAppend:
    """What one commit brings: `add` actions as lines of the log, and the versions that applications reach.

    `report`: the commit's `userMetadata`.
    """

    added: Sequence[str]
    marks: Mapping[str, int]
    report: str
    stamp: CommitStamp

    @property
    def progress(self) -> list[dict[str, Any]]:
        """Returns the applications' versions, as Delta writes them."""
        return _progress(self.marks, self.stamp)


@dataclass(frozen=True, slots=True)
class NewTable:
    """A table that isn't there yet: its columns and properties, and the versions that applications reach with it.

    `identity`: its id in Delta. `report`: the commit's `userMetadata`.
    """

    columns: Sequence[LakeColumn]
    properties: Mapping[str, str]
    marks: Mapping[str, int]
    report: str | None
    identity: str


def log_end(version: int, checksum: bytes) -> LogEnd | None:
    """Returns a version of a table from its checksum's file; None if that is torn, or lacks what an append needs."""
    try:
        said = json.loads(checksum)
    except ValueError:  # a power cut may leave a part of it
        return None
    whole = said.keys() <= _KNOWN and all(said.get(name) is not None for name in _NEEDED)
    return LogEnd(version, said) if whole else None


def takes_append(end: LogEnd) -> bool:
    """Returns whether a table asks nothing of a commit that adds files."""
    metadata, protocol = end.checksum["metadata"], end.checksum["protocol"]
    writer = protocol["minWriterVersion"]
    listed = writer == _WRITER_WITH_LIST and _FEATURES.issuperset(protocol["writerFeatures"])
    return (
        (listed or writer <= _WRITER_WITHOUT_LIST)
        and not metadata["partitionColumns"]
        and all(name in _PROPERTIES for name in metadata["configuration"] if name.startswith("delta."))
        and not any(word in end.schema for word in _CHECKED)
    )


def checkpoint_due(end: LogEnd) -> bool:
    """Returns whether Delta writes a checkpoint with the next version, if Delta commits it."""
    every = int(end.checksum["metadata"]["configuration"].get(_EVERY, _EVERY_BY_DEFAULT))
    return (end.version + 1) % every == 0


def takes_alter(end: LogEnd, properties: Mapping[str, str]) -> bool:
    """Returns whether a table asks nothing of a commit that sets these properties, or adds a column without a value.

    A property of Delta's may ask for another protocol.
    """
    mapped = end.properties.get(MAPPING, "none") != "none"
    return takes_append(end) and not mapped and not any(name.startswith("delta.") for name in properties)


def can_be_made(table: NewTable) -> bool:
    """Returns whether a table asks nothing of the commit that makes it."""
    names = (name for name in table.properties if name.startswith("delta."))
    return _PROPERTIES_OF_NEW_TABLES.issuperset(names) and not need_mapping(
        column.name for column in table.columns
    )


def commit_text(append: BlindAppend, read: int) -> str:
    """Returns the file of an append; `read`: the version whose columns its files have."""
    told = _commit_info("WRITE", {"mode": "Append"}, append.stamp, append.report, read)
    return _text(told, append.added, [{"txn": each} for each in append.progress])


def alter_text(altered: LogEnd, properties: Mapping[str, str], stamp: CommitStamp) -> str:
    """Returns the file of the commit that makes a version from the one before, by other properties and columns."""
    parameters = {"properties": _line(properties)}
    told = _commit_info("SET TBLPROPERTIES", parameters, stamp, None, altered.version - 1)
    return _text(told, (), [{"metaData": altered.checksum["metadata"]}])


def altered(end: LogEnd, schema: str, properties: Mapping[str, str], stamp: CommitStamp) -> LogEnd:
    """Returns the version with these columns, as in Delta's metadata, and with these properties in addition."""
    metadata = {**end.checksum["metadata"], "schemaString": schema}
    metadata["configuration"] = {**end.properties, **properties}
    if Property.ABOUT in properties:
        metadata["description"] = properties[Property.ABOUT]
    return LogEnd(end.version + 1, {**end.checksum, "txnId": stamp.number, "metadata": metadata})


def creation_text(first: LogEnd, table: NewTable, stamp: CommitStamp) -> str:
    """Returns the file of a table's first commit."""
    metadata = first.checksum["metadata"]
    parameters = {
        "partitionBy": "[]",
        "clusterBy": "[]",
        "description": metadata.get("description"),
        "isManaged": "false",
        "properties": _line(metadata["configuration"]),
    }
    told = _commit_info("CREATE TABLE", parameters, stamp, table.report, None)
    progress = [{"txn": each} for each in first.checksum["setTransactions"]]
    return _text(told, (), [{"metaData": metadata}, {"protocol": first.checksum["protocol"]}, *progress])


def created(table: NewTable, stamp: CommitStamp) -> LogEnd:
    """Returns the first version of a table, without a row."""
    properties = {str(name): value for name, value in table.properties.items()}
    metadata: dict[str, Any] = {
        "id": table.identity,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": new_schema_text(table.columns, META_COMMENTS),
        "partitionColumns": [],
        "configuration": properties,
        "createdTime": stamp.at_ms,
    }
    if (about := properties.get(Property.ABOUT)) is not None:
        metadata["description"] = about
    protocol = _new_protocol(table)
    vectors = _needs(table)["deletionVectors"]
    hidden = {"numDeletedRecordsOpt": 0, "numDeletionVectorsOpt": 0} if vectors else {}
    return LogEnd(
        0,
        {
            "txnId": stamp.number,
            "tableSizeBytes": 0,
            "numFiles": 0,
            **hidden,
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": _progress(table.marks, stamp),
            "domainMetadata": [],
            "metadata": metadata,
            "protocol": protocol,
            "allFiles": [],
        },
    )


def checksum_text(end: LogEnd) -> str:
    """Returns the file of a version's checksum."""
    return _line(end.checksum) + "\n"


def following(end: LogEnd, append: BlindAppend) -> LogEnd:
    """Returns the version that an append makes of another one."""
    was = end.checksum
    files = [json.loads(line)["add"] for line in append.added]
    told = {each["appId"]: each for each in (*was["setTransactions"], *append.progress)}
    now = {
        **was,
        "txnId": append.stamp.number,
        "tableSizeBytes": was["tableSizeBytes"] + sum(file["size"] for file in files),
        "numFiles": was["numFiles"] + len(files),
        "setTransactions": list(told.values()),
    }
    for name in ("fileSizeHistogram", "histogramOpt"):
        if (sizes := was.get(name)) is not None:
            now[name] = _counted(sizes, files)
    if (hidden := was.get("deletedRecordCountsHistogramOpt")) is not None:
        none, *some = hidden["deletedRecordCounts"]
        now["deletedRecordCountsHistogramOpt"] = {"deletedRecordCounts": [none + len(files), *some]}
    listed = was.get("allFiles")
    if listed is not None and len(listed) + len(files) <= MOST_LISTED_FILES:
        now["allFiles"] = [*listed, *({**file, "dataChange": False} for file in files)]
    else:
        now.pop("allFiles", None)
    return LogEnd(end.version + 1, now)


def _counted(sizes: Mapping[str, Any], files: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns a histogram of files by their sizes, with more files."""
    counts, totals = list(sizes["fileCounts"]), list(sizes["totalBytes"])
    for file in files:
        place = bisect_right(sizes["sortedBinBoundaries"], file["size"]) - 1
        counts[place] += 1
        totals[place] += file["size"]
    return {**sizes, "fileCounts": counts, "totalBytes": totals}


def hindrance(commit: Iterable[str | bytes], application: str | None) -> str | None:
    """Returns why a commit can't follow another writer's, None if it can; `commit`: the lines of the other's file.

    `application`: whose progress the commit records; None if it records none.
    """
    try:
        actions = [action for line in commit for action in json.loads(line).items()]
    except ValueError:  # a power cut may leave a part of it
        return "another writer's commit can't be read"
    for kind, told in actions:
        if kind == "txn" and told["appId"] == application:
            return "another writer has delivered to it"
        if kind not in _HARMLESS:
            return f"another writer has changed its {kind}"
    return None


def _commit_info(
    operation: str, parameters: Mapping[str, Any], stamp: CommitStamp, report: str | None, read: int | None
) -> dict[str, Any]:
    told = {
        "timestamp": stamp.at_ms,
        "operation": operation,
        "operationParameters": parameters,
        "readVersion": read,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "operationMetrics": {},
        "userMetadata": report,
        "engineInfo": _ENGINE,
        "txnId": stamp.number,
    }
    return {name: value for name, value in told.items() if value is not None}


def _progress(marks: Mapping[str, int], stamp: CommitStamp) -> list[dict[str, Any]]:
    return [
        {"appId": name, "version": version, "lastUpdated": stamp.at_ms} for name, version in marks.items()
    ]


def _new_protocol(table: NewTable) -> dict[str, Any]:
    """Returns the least protocol that a table needs, as Delta chooses it."""
    needs = [feature for feature, needed in _needs(table).items() if needed]
    if not needs:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    return {
        "minReaderVersion": 3,
        "minWriterVersion": _WRITER_WITH_LIST,
        "readerFeatures": needs,
        "writerFeatures": [*needs, "invariants", "appendOnly"],
    }


def _needs(table: NewTable) -> dict[str, bool]:
    return {
        "deletionVectors": table.properties.get(VECTORS) == "true",
        "timestampNtz": any("timestamp_ntz" in column.type.lower() for column in table.columns),
    }


def _text(told: Mapping[str, Any], added: Iterable[str], actions: Iterable[Mapping[str, Any]]) -> str:
    lines = [_line({"commitInfo": told}), *added, *map(_line, actions)]
    return "".join(f"{line}\n" for line in lines)


def _line(action: Mapping[str, Any]) -> str:
    return json.dumps(action, separators=(",", ":"))
