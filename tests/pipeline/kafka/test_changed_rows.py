"""What rows of changes files say, those of earlier versions as well."""

import pyarrow as pa
import pytest

from pipeline.journal.change_rows import META, SOURCE
from pipeline.kafka.changed_rows import (
    BEFORE,
    CREATE,
    DELETE,
    READ,
    UPDATE,
    committed_us,
    operations,
    source_fields,
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
