"""Who only looks is begun again; the rest of the assembly is in tests/integration/service/test_run.py."""

import asyncio

import pytest

from actors.service import assembly
from pipeline.config.settings import SnapshotSettings


@pytest.mark.measuring_fails
async def test_who_fails_looking_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "LOOKS_AGAIN_S", 0.0)
    looks, again = iter([ZeroDivisionError("a bug")]), asyncio.Event()

    async def look() -> None:
        if (failure := next(looks, None)) is not None:
            raise failure
        again.set()
        await asyncio.Event().wait()

    looking = asyncio.create_task(assembly._look(look))
    await asyncio.wait_for(again.wait(), 10)
    looking.cancel()
    await asyncio.wait({looking})
    assert looking.cancelled()


@pytest.mark.parametrize(("rows_per_s", "most"), [(0, 0), (300, 150), (1, 1), (3, 2)])
def test_the_first_chunks_have_no_more_rows_than_a_second_may(rows_per_s: int, most: int) -> None:
    limits = assembly._limits(SnapshotSettings(rows_per_s=rows_per_s, connections=2))
    assert limits.most_rows == most
    assert limits.bound_rows(50_000) == (most or 50_000)


def test_a_chunk_fits_into_the_memory_for_rows_that_wait() -> None:
    limits = [assembly._limits(SnapshotSettings(memory_mib=mib)) for mib in (1, 8, 256)]
    assert [each.chunk_bytes >> 20 for each in limits] == [1, 8, 8]
