"""What rows of changes files say, those of earlier versions as well."""

import pyarrow as pa
import pytest

from pipeline.journal.change_rows import META, SOURCE
from pipeline.kafka.debezium.changed_rows import (
    BEFORE,
    CREATE,
    DELETE,
    READ,
    UPDATE,
    committed_us,
    operations,
    source_fields,
    whole_rows,
    without,
)

FIELDS = [META.field("__op"), META.field("__commit_time")]


def changes(*rows: tuple[str, int | None, dict[str, object] | None], told: bool = True) -> pa.RecordBatch:
    """Rows of these letters, commit times and sources."""
    columns = [
        pa.array([op for op, _, _ in rows], FIELDS[0].type),
        pa.array([time for _, time, _ in rows], FIELDS[1].type),
        pa.array([source for _, _, source in rows], SOURCE.type),
    ]
    taken = 3 if told else 2
    return pa.RecordBatch.from_arrays(columns[:taken], schema=pa.schema([*FIELDS, SOURCE][:taken]))


def test_an_update_without_a_key_is_told_from_a_delete_and_an_insert() -> None:
    half: dict[str, object] = {"update": True}
    rows = changes(("d", 1, half), ("c", 1, half), ("d", 1, {}), ("c", 1, None), ("r", None, None))
    assert operations(rows).tolist() == [BEFORE, UPDATE, DELETE, CREATE, READ]


@pytest.mark.parametrize("told", [True, False])
def test_what_a_journal_of_an_earlier_version_lacks_is_null(told: bool) -> None:
    rows = changes(("d", 1, None), ("c", 2, None), told=told)
    assert operations(rows).tolist() == [DELETE, CREATE]
    assert {name: values.null_count for name, values in source_fields(rows).items()} == dict.fromkeys(
        (field.name for field in SOURCE.type), 2
    )
    assert committed_us(rows).to_pylist() == [1, 2]


def test_the_first_commit_is_told_where_there_was_another() -> None:
    rows = changes(("c", 5, {"time": 3}), ("c", 5, {}), ("r", None, {}))
    assert committed_us(rows).to_pylist() == [3, 5, None]


ROWS = "crbududdt"  # an insert, a read, an update, a delete, nothing, ...


def batch(letters: str) -> pa.RecordBatch:
    """Rows with these operations; a capital `T` is that of a scan, which no transaction committed."""
    times = [None if letter in "rT" else 1 for letter in letters]
    return pa.record_batch(
        {
            "__op": pa.array(list(letters.lower())),
            "place": pa.array(range(len(letters))),
            "__commit_time": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.mark.parametrize(
    ("skipped", "left"),
    [
        (("t",), [0, 1, 2, 3, 4, 5, 6, 7]),
        (("none",), [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        (("u",), [0, 1, 6, 7, 8]),
        (("d", "t"), [0, 1, 2, 3, 4, 5]),
        (("c",), [1, 2, 3, 4, 5, 6, 7, 8]),
        (("c", "u", "d", "t"), [1]),
    ],
)
def test_an_update_is_skipped_with_what_it_found(skipped: tuple[str, ...], left: list[int]) -> None:
    assert without(batch(ROWS), skipped).column("place").to_pylist() == left


@pytest.mark.parametrize(("skipped", "left"), [(("none",), [0, 2, 3, 4]), (("t",), [0, 2, 3])])
def test_the_row_with_which_a_scan_begins_is_no_message(skipped: tuple[str, ...], left: list[int]) -> None:
    assert without(batch("cTrrt"), skipped).column("place").to_pylist() == left


@pytest.mark.parametrize(
    ("letters", "whole"), [("", 0), ("cb", 1), ("cd", 1), ("bu", 2), ("d", 0), ("cr", 2)]
)
def test_the_last_row_waits_where_another_may_belong_to_it(letters: str, whole: int) -> None:
    assert whole_rows(batch(letters)) == whole
