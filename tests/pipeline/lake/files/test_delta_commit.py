"""A commit that Tidemark writes: when it may, what is in it, and what another's commit means for it."""

import json
from typing import Any

import pytest

from pipeline.lake.files.delta_commit import (
    MOST_LISTED_FILES,
    BlindAppend,
    CommitStamp,
    LogEnd,
    NewTable,
    alter_text,
    altered,
    can_be_made,
    checkpoint_due,
    checksum_text,
    commit_text,
    created,
    creation_text,
    following,
    hindrance,
    log_end,
    takes_alter,
    takes_append,
)
from pipeline.lake.files.parquet_files import add
from pipeline.lake.tables.columns import LakeColumn
from pipeline.lake.tables.properties import Property

SCHEMA = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}'


def checksum(
    configuration: dict[str, str] | None = None, protocol: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """What Delta says of a table without files."""
    return {
        "txnId": "a",
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": {
            "id": "b",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": [],
            "configuration": configuration or {},
            "createdTime": 1,
        },
        "protocol": protocol or {"minReaderVersion": 1, "minWriterVersion": 2},
        "fileSizeHistogram": {
            "sortedBinBoundaries": [0, 100, 200],
            "fileCounts": [0, 0, 0],
            "totalBytes": [0, 0, 0],
        },
        "allFiles": [],
        **more,
    }


def end(version: int = 0, **more: Any) -> LogEnd | None:
    return log_end(version, json.dumps(checksum(**more)).encode())


def whole(version: int = 0, **more: Any) -> LogEnd:
    found = end(version, **more)
    assert found is not None
    return found


def append(*sizes: int, **marks: int) -> BlindAppend:
    files = [add(f"{size}.parquet", size, 5, '{"numRecords": 1}') for size in sizes]
    return BlindAppend(files, marks, '{"segment": 1}', CommitStamp(7, "c"))


def features(*names: str) -> dict[str, Any]:
    return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": list(names)}


def test_the_commit_is_a_blind_append_with_its_files_and_its_progress() -> None:
    lines = commit_text(append(10, 20, us=3, after=2), 4).splitlines()
    told, *actions = map(json.loads, lines)
    assert told["commitInfo"]["isBlindAppend"] is True
    assert told["commitInfo"]["operation"] == "WRITE"
    assert told["commitInfo"]["readVersion"] == 4
    assert told["commitInfo"]["userMetadata"] == '{"segment": 1}'
    assert [action["add"]["path"] for action in actions[:2]] == ["10.parquet", "20.parquet"]
    assert actions[2:] == [
        {"txn": {"appId": "us", "version": 3, "lastUpdated": 7}},
        {"txn": {"appId": "after", "version": 2, "lastUpdated": 7}},
    ]


def test_the_checksum_follows_from_the_one_before() -> None:
    hidden: dict[str, Any] = {
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [1, 2]},
        "numDeletedRecordsOpt": 9,
    }
    before = whole(4, **hidden)
    once = following(before, append(10, 150, us=3))
    twice = following(once, append(30, us=4, after=1))
    said = twice.checksum
    assert (twice.version, said["tableSizeBytes"], said["numFiles"], said["txnId"]) == (6, 190, 3, "c")
    assert said["fileSizeHistogram"]["fileCounts"] == [2, 1, 0]
    assert said["fileSizeHistogram"]["totalBytes"] == [40, 150, 0]
    assert said["deletedRecordCountsHistogramOpt"] == {"deletedRecordCounts": [4, 2]}
    assert said["numDeletedRecordsOpt"] == 9
    assert [(file["path"], file["dataChange"]) for file in said["allFiles"]] == [
        ("10.parquet", False),
        ("150.parquet", False),
        ("30.parquet", False),
    ]
    assert (before.applications, once.applications) == ({}, {"us": 3})
    assert twice.applications == {"us": 4, "after": 1}
    assert [each["appId"] for each in said["setTransactions"]] == ["us", "after"]
    assert before.checksum == checksum(**hidden), "it is left as it is"
    assert log_end(6, checksum_text(twice).encode()) == twice


def test_the_files_of_a_large_table_are_not_listed() -> None:
    many = following(whole(), append(*range(MOST_LISTED_FILES)))
    assert len(many.checksum["allFiles"]) == MOST_LISTED_FILES
    more = following(many, append(1))
    assert "allFiles" not in more.checksum
    assert "allFiles" not in following(more, append(1)).checksum
    assert following(more, append(1)).checksum["numFiles"] == MOST_LISTED_FILES + 2


@pytest.mark.parametrize(
    "more",
    [
        {"protocol": features("rowTracking", "domainMetadata")},
        {"protocol": features("inCommitTimestamp")},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 6}},
        {"configuration": {"delta.constraints.positive": "n > 0"}},
        {"configuration": {"delta.enableRowTracking": "true"}},
        {"configuration": {"delta.setTransactionRetentionDuration": "interval 1 day"}},
        {"metadata": {**checksum()["metadata"], "partitionColumns": ["n"]}},
        {
            "metadata": {
                **checksum()["metadata"],
                "schemaString": SCHEMA.replace("{}", '{"delta.invariants":""}'),
            }
        },
        {"metadata": None},
        {"setTransactions": None},
        {"inCommitTimestampOpt": 8},
    ],
    ids=str,
)
def test_a_table_that_asks_more_of_an_append_is_left_to_delta(more: dict[str, Any]) -> None:
    found = end(**more)
    assert found is None or not takes_append(found)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"protocol": features("deletionVectors", "columnMapping", "typeWidening", "timestampNtz")},
        {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
        {"configuration": {"delta.columnMapping.mode": "name", "tidemark.schema": "{}"}},
        {"deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [0]}, "numDeletionVectorsOpt": 0},
    ],
    ids=str,
)
def test_a_table_as_the_lake_makes_it_takes_an_append(more: dict[str, Any]) -> None:
    assert takes_append(whole(**more))


def test_a_torn_checksum_is_none() -> None:
    text = json.dumps(checksum()).encode()
    assert log_end(1, text) is not None
    for torn in (b"", text[:-1], text[: len(text) // 2]):
        assert log_end(1, torn) is None


def test_the_version_with_a_checkpoint_is_left_to_delta() -> None:
    assert [version for version in range(21) if checkpoint_due(whole(version))] == [9, 19]
    every = {"delta.checkpointInterval": "3"}
    assert [version for version in range(7) if checkpoint_due(whole(version, configuration=every))] == [2, 5]


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ({"txn": {"appId": "us", "version": 1}}, "another writer has delivered to it"),
        ({"metaData": {}}, "another writer has changed its metaData"),
        ({"protocol": {}}, "another writer has changed its protocol"),
        ({"somethingNew": {}}, "another writer has changed its somethingNew"),
        ({"txn": {"appId": "them", "version": 1}}, None),
        ({"remove": {"path": "a"}}, None),
        ({"add": {"path": "b"}}, None),
    ],
)
def test_another_commit_hinders_or_does_not(action: dict[str, Any], why: str | None) -> None:
    lines = [json.dumps({"commitInfo": {}}).encode(), json.dumps(action).encode()]
    assert hindrance(lines, "us") == why


def test_a_torn_commit_of_another_hinders() -> None:
    assert hindrance([b'{"commitInfo":{}}', b'{"add":{"pa'], "us") == "another writer's commit can't be read"


def new_table(*types: str, **properties: str) -> NewTable:
    columns = tuple(LakeColumn(f"c{number}", type_) for number, type_ in enumerate(types))
    named = {f"delta.{name}": value for name, value in properties.items()}
    return NewTable(columns, {**named, Property.ABOUT: "what it is"}, {"us": 3}, "{}", "identity")


def test_a_new_table_has_its_columns_its_properties_and_no_file() -> None:
    table = new_table("BIGINT", "ARRAY<STRING>", enableDeletionVectors="true")
    stamp = CommitStamp(7, "c")
    first = created(table, stamp)
    told, metadata, protocol, progress = map(json.loads, creation_text(first, table, stamp).splitlines())
    assert told["commitInfo"]["operation"] == "CREATE TABLE"
    assert "readVersion" not in told["commitInfo"]
    assert metadata["metaData"]["description"] == "what it is"
    assert metadata["metaData"]["configuration"] == {
        "delta.enableDeletionVectors": "true",
        "tidemark.about": "what it is",
    }
    assert json.loads(metadata["metaData"]["schemaString"])["fields"][0]["type"] == "long"
    assert protocol["protocol"]["readerFeatures"] == ["deletionVectors"]
    assert progress == {"txn": {"appId": "us", "version": 3, "lastUpdated": 7}}
    assert log_end(0, checksum_text(first).encode()) == first
    assert takes_append(first)
    assert following(first, append(10)).checksum["numFiles"] == 1


@pytest.mark.parametrize(
    ("types", "features"),
    [(("BIGINT", "TIMESTAMP"), None), (("TIMESTAMP_NTZ",), ["timestampNtz"])],
)
def test_a_new_table_has_the_least_protocol(types: tuple[str, ...], features: list[str] | None) -> None:
    protocol = created(new_table(*types), CommitStamp(7, "c")).checksum["protocol"]
    assert protocol.get("readerFeatures") == features
    assert (protocol["minWriterVersion"] == 2) is (features is None)


def test_a_table_that_needs_names_of_its_own_is_made_by_delta() -> None:
    assert can_be_made(new_table("BIGINT"))
    odd = NewTable((LakeColumn("a b", "BIGINT"),), {}, {}, None, "identity")
    assert not can_be_made(odd)
    assert not can_be_made(new_table("BIGINT", enableRowTracking="true"))


@pytest.mark.parametrize("name", ["columnMapping.mode", "enableTypeWidening", "checkpointPolicy"])
def test_a_table_with_a_property_that_asks_for_a_protocol_is_made_by_delta(name: str) -> None:
    """An append to such a table asks nothing."""
    named = {f"delta.{name}": "name"}
    assert not can_be_made(NewTable((LakeColumn("n", "BIGINT"),), named, {}, None, "identity"))
    assert takes_append(whole(configuration=named))


def test_other_properties_leave_all_else_as_it_was() -> None:
    before, stamp = following(whole(4), append(10, us=3)), CommitStamp(9, "d")
    after = altered(before, SCHEMA, {"tidemark.merged": "5"}, stamp)
    assert (after.version, after.properties, after.applications) == (6, {"tidemark.merged": "5"}, {"us": 3})
    assert after.checksum["numFiles"] == 1
    told, metadata = map(json.loads, alter_text(after, {"tidemark.merged": "5"}, stamp).splitlines())
    assert told["commitInfo"]["readVersion"] == 5
    assert metadata == {"metaData": after.checksum["metadata"]}
    assert takes_alter(after, {"tidemark.merged": "6"})
    assert not takes_alter(after, {"delta.enableDeletionVectors": "true"}), "it may ask for another protocol"
    mapped = whole(configuration={"delta.columnMapping.mode": "name"})
    assert takes_append(mapped)
    assert not takes_alter(mapped, {})
