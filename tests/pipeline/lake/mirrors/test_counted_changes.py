"""Which changes count is the same in memory as in the live view's SQL."""

import json

import duckdb
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lake.live_view import MirrorPosition
from pipeline.lake.mirrors.counted_changes import CountedChanges
from pipeline.lake.reading.sql_dialects import Dialect

few = st.integers(0, 5)
changes = st.lists(st.tuples(st.sampled_from("cudrtb"), few, few), min_size=1, max_size=30)


@given(changes, st.builds(MirrorPosition, few, few), st.none() | few, st.none() | few)
def test_changes_count_as_in_the_live_view(
    rows: list[tuple[str, int, int]], reached: MirrorPosition, through: int | None, since: int | None
) -> None:
    op, scn, segment = (pa.array(column) for column in zip(*rows, strict=True))
    counted = CountedChanges(reached, through, since)
    with duckdb.connect() as engine:
        engine.register("given", pa.table({"__op": op, "__scn": scn, "__segment": segment}))
        pending = reached.condition(Dialect.DUCKDB) + (
            "" if through is None else f" AND __segment <= {through}"
        )
        later = "false" if since is None else f"__scn > {since} AND __op NOT IN ('b', 't')"
        found = engine.execute(f"SELECT ({pending}) OR ({later}) FROM given").fetchall()
    assert [(each,) for each in counted.rows(op, scn, segment).to_pylist()] == found


@given(changes, st.builds(MirrorPosition, few, few), st.none() | few, st.none() | few)
def test_a_file_that_is_passed_over_has_none(
    rows: list[tuple[str, int, int]], reached: MirrorPosition, through: int | None, since: int | None
) -> None:
    op, scn, segment = zip(*rows, strict=True)
    statistics = {
        "minValues": {"s": min(scn), "t": min(segment)},
        "maxValues": {"s": max(scn), "t": max(segment)},
    }
    counted = CountedChanges(reached, through, since)
    if not counted.may_be_in(statistics, "s", "t"):
        assert not any(counted.rows(pa.array(op), pa.array(scn), pa.array(segment)).to_pylist())
    assert counted.may_be_in({}, "s", "t")


def test_files_of_other_segments_are_passed_over() -> None:
    def file(least: int, most: int, newest: int) -> dict[str, dict[str, int]]:
        return {"minValues": {"t": least}, "maxValues": {"t": most, "s": newest}}

    pending = CountedChanges(MirrorPosition(0, 3), through=5)
    told = [
        pending.may_be_in(file(least, most, 9), "s", "t") for least, most in ((3, 3), (3, 4), (5, 6), (6, 6))
    ]
    assert told == [False, True, True, False]
    later = CountedChanges(MirrorPosition(0, 3), since=7)
    assert [later.may_be_in(file(1, 3, newest), "s", "t") for newest in (7, 8)] == [False, True]


def test_only_an_append_without_any_has_none_before_it() -> None:
    def append(segment: int, *newest: int | None, application: str = "j/changes") -> list[dict[str, object]]:
        stats = ["{}" if each is None else json.dumps({"maxValues": {"s": each}}) for each in newest]
        added: list[dict[str, object]] = [{"add": {"stats": each}} for each in stats]
        return [*added, {"txn": {"appId": application, "version": segment}}]

    def come_after(counted: CountedChanges, *commits: list[dict[str, object]]) -> list[bool]:
        return [counted.come_after(commit, "j/changes", "s") for commit in commits]

    pending = CountedChanges(MirrorPosition(0, 3), through=5)
    assert come_after(
        pending, append(3, 9), append(3), append(4, 9), append(2, 9, application="j/after")
    ) == [
        True,
        True,
        False,
        False,
    ]
    later = CountedChanges(MirrorPosition(0, 3), since=7)
    told = come_after(later, append(3, 7, 6), append(3, 7, 8), append(3, None), append(3), append(4, 7))
    assert told == [True, False, False, False, False]
    deleted_by_a_user = append(3, 7)[:-1]
    assert come_after(pending, deleted_by_a_user) == [False]
