"""Images that lack columns: their effect on rows that were read, and the columns laid over these."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.coordinator.partial_rows import (
    PartialRows,
    apply_partial_rows,
    classify_images,
    has_partial_images,
)
from pipeline.messages.row_images import IMAGE_FIELDS, ImageKind, TableChanges
from pipeline.schema.row_keys import key_tokens
from tests.pipeline.builders import lacks, table

TABLE = table("partial", "id", "a", "b")

INSERT = (ImageKind.INSERT, {"id": 1, "a": 1, "b": 1})
INSERT_PART = (ImageKind.INSERT, {"id": 1, "a": 1})
DELETE_PART = (ImageKind.DELETE, {"id": 1})
STAYS = ((ImageKind.UPDATE_BEFORE, {"id": 1}), (ImageKind.UPDATE_AFTER, {"id": 1, "a": 2}))
STAYS_WHOLE = ((ImageKind.UPDATE_BEFORE, {"id": 1}), (ImageKind.UPDATE_AFTER, {"id": 1, "a": 2, "b": 1}))
MOVES = ((ImageKind.UPDATE_BEFORE, {"id": 1}), (ImageKind.UPDATE_AFTER, {"id": 2, "a": 2}))
MOVES_WHOLE = ((ImageKind.UPDATE_BEFORE, {"id": 1}), (ImageKind.UPDATE_AFTER, {"id": 2, "a": 2, "b": 1}))


def changes(*images: tuple[ImageKind, dict[str, Any]]) -> TableChanges:
    absent = [lacks(TABLE, {"id", "a", "b"} - given.keys()) for _, given in images]
    fields = [
        {"kind": int(kind), "transaction": 0, "ordinal": n, "absent": absent[n]}
        for n, (kind, _) in enumerate(images)
    ]
    rows = pa.RecordBatch.from_pylist([given for _, given in images], TABLE.arrow)
    return TableChanges.unshared(TABLE, pa.RecordBatch.from_pylist(fields, IMAGE_FIELDS), rows)


def test_images_with_all_columns_are_not_partial() -> None:
    assert not has_partial_images(changes(INSERT))
    assert not has_partial_images(changes())
    assert has_partial_images(changes(INSERT, INSERT_PART))


@pytest.mark.parametrize(
    ("images", "decisive", "partial", "unknown"),
    [
        ([INSERT], "x", "-", "-"),
        ([INSERT_PART], "-", "x", "x"),
        ([DELETE_PART], "x", "-", "-"),
        (STAYS, "--", "-x", "--"),
        (STAYS_WHOLE, "-x", "--", "--"),
        (MOVES, "x-", "-x", "-x"),
        (MOVES_WHOLE, "xx", "--", "--"),
        ([INSERT_PART, *STAYS, *MOVES, DELETE_PART], "---x-x", "x-x-x-", "x---x-"),
    ],
)
def test_what_images_are_to_rows_that_were_read(
    images: list[tuple[ImageKind, dict[str, Any]]], decisive: str, partial: str, unknown: str
) -> None:
    of = changes(*images)
    found = classify_images(of, key_tokens(of.rows, TABLE.key))
    masks = (found.decisive, found.partial, found.unknown)
    assert ["".join("x" if each else "-" for each in mask) for mask in masks] == [decisive, partial, unknown]


def test_a_row_that_moves_along_another_index_is_unknown() -> None:
    of = changes(*STAYS)
    keys = key_tokens(of.rows, TABLE.key)
    assert classify_images(of, keys, ["a"]).unknown.tolist() == [False, True]
    assert classify_images(of, keys, ["b"]).unknown.tolist() == [False, False], "b isn't in the image"


def test_a_key_without_a_value_is_never_the_same() -> None:
    of = changes((ImageKind.UPDATE_BEFORE, {"a": 1}), (ImageKind.UPDATE_AFTER, {"a": 2}))
    assert classify_images(of, key_tokens(of.rows, TABLE.key)).unknown.tolist() == [False, True]


def laid(rows: list[dict[str, int]], *given: dict[str, Any]) -> list[dict[str, Any]]:
    of = changes(*((ImageKind.UPDATE_AFTER, each) for each in given))
    partial = PartialRows(key_tokens(of.rows, TABLE.key), of.images.column("absent"), of.rows)
    batch = pa.RecordBatch.from_pylist(rows, TABLE.arrow)
    found: list[dict[str, Any]] = apply_partial_rows(batch, TABLE.key, partial).to_pylist()
    last = partial.last_changes()
    assert apply_partial_rows(batch, TABLE.key, last).to_pylist() == found
    assert len(last) == len({(each["id"], *each) for each in given})
    return found


ONE, TWO = {"id": 1, "a": 10, "b": 11}, {"id": 2, "a": 20, "b": 21}


def test_of_each_column_the_last_change_that_has_it_counts() -> None:
    assert laid([ONE, TWO], {"id": 1, "a": 5}, {"id": 1, "b": 6}, {"id": 1, "a": 7}) == [
        {"id": 1, "a": 7, "b": 6},
        TWO,
    ]


def test_a_change_of_other_columns_replaces_none() -> None:
    both, first, second = {"id": 1, "a": 1, "b": 1}, {"id": 1, "a": 5}, {"id": 1, "a": None}
    assert laid(
        [ONE, TWO], first, {"id": 1, "b": 6}, second, {"id": 2, "a": 7}, first, {"id": 1, "b": 8}
    ) == [
        {"id": 1, "a": 5, "b": 8},
        {"id": 2, "a": 7, "b": 21},
    ]
    assert laid([ONE], first, both, first, second) == [{"id": 1, "a": None, "b": 1}]


def test_rows_that_no_change_is_of_stay_as_they_are() -> None:
    assert laid([ONE, TWO], {"id": 3, "a": 5}) == [ONE, TWO]
    assert laid([], {"id": 3, "a": 5}) == []


def test_null_is_a_value() -> None:
    of = changes((ImageKind.UPDATE_AFTER, {"id": 1, "a": None}))
    partial = PartialRows(key_tokens(of.rows, TABLE.key), of.images.column("absent"), of.rows)
    (row,) = apply_partial_rows(
        pa.RecordBatch.from_pylist([ONE], TABLE.arrow), TABLE.key, partial
    ).to_pylist()
    assert row == {"id": 1, "a": None, "b": 11}
