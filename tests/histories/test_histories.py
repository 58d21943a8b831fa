"""Random histories of DDL and DML end right: each table is in the journal, and in the lake, as it is in the source.

`tests.histories.play` says what's judged. A history that fails is printed, and `python -m tests.histories.run` shrinks
it; what was found once is kept in the folder `found`, and played each time.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from deploy.toolchain.mysql_server import MysqlServer
from deploy.toolchain.parts import Parts
from pipeline.config.settings import SparkSettings
from tests.histories import run
from tests.histories.generate import history
from tests.histories.planted import FAULTS, Planted, shown, weights
from tests.histories.play import played
from tests.histories.run import alone
from tests.histories.shrink import shrunk
from tests.histories.statements import Act, Captured, History, Metadata, Sql, Step, Version, parsed
from tests.histories.turns import Turns
from tests.servers.mysql import parts56


def kept(folder: str) -> dict[str, History]:
    """The histories in a folder, by their names."""
    paths = sorted((Path(__file__).parent / folder).glob("*.sql"))
    return {path.stem: parsed(path.read_text()) for path in paths}


FOUND: Final = kept("found")
# What isn't mended yet.
OPEN: Final = kept("found/open")
SIZE: Final = 20
# Fewer with a lake, since readers read it all the time.
OF_LAKE: Final = 10
# In how many lots of histories what's planted has to be found.
LOTS: Final = 4
Lot = tuple[Version, Metadata, int]
Started = Callable[[Version], MysqlServer]
FEW: Final[list[Lot]] = [
    (Version.NEW, Metadata.FULL, 1),
    (Version.NEW, Metadata.MINIMAL, 1),
    (Version.OLD, Metadata.MINIMAL, 1),
]
MANY: Final[list[Lot]] = [
    *((Version.NEW, Metadata.FULL, seed) for seed in range(1001, 2101, SIZE)),
    *((Version.NEW, Metadata.MINIMAL, seed) for seed in range(1001, 1501, SIZE)),
    *((Version.OLD, Metadata.MINIMAL, seed) for seed in range(1001, 1401, SIZE)),
]


@pytest.fixture
def started(parts: Parts, tmp_path: Path) -> Iterator[Started]:
    """Starts a server of a version, of one test's own, since histories restart it and change its settings."""
    with ExitStack() as servers:

        def start(version: Version) -> MysqlServer:
            if version is Version.OLD:
                parts56(parts)
            return servers.enter_context(run.started(parts, version, tmp_path / "mysql"))

        yield start


def _of(lot: Lot) -> str:
    version, metadata, seed = lot
    return f"{version}-{metadata}-{seed}"


@pytest.mark.parametrize("lot", FEW, ids=_of)
def test_random_histories_end_right(started: Started, tmp_path: Path, lot: Lot) -> None:
    _end_right(started, tmp_path, lot)


@pytest.mark.full
@pytest.mark.parametrize("lot", MANY, ids=_of)
def test_many_random_histories_end_right(started: Started, tmp_path: Path, lot: Lot) -> None:
    _end_right(started, tmp_path, lot)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(5001, 5061, OF_LAKE))
def test_random_histories_end_right_in_a_lake(
    started: Started, spark_settings: SparkSettings, tmp_path: Path, seed: int
) -> None:
    metadata = Metadata.MINIMAL if seed // OF_LAKE % 3 == 2 else Metadata.FULL
    _end_right(started, tmp_path, (Version.NEW, metadata, seed), spark_settings, OF_LAKE)


def _end_right(
    started: Started, folder: Path, lot: Lot, spark: SparkSettings | None = None, size: int = SIZE
) -> None:
    version, metadata, seed = lot
    histories = [history(str(each), version, metadata) for each in range(seed, seed + size)]
    server = started(version)
    result = played(server, folder / "together", histories, spark)
    if result.findings:
        wrong = alone(server, folder, histories, result, spark)
        texts = ["\n".join([*map(str, found), str(each)]) for each, found in wrong]
        pytest.fail("\n\n".join(texts))
    assert result.judged >= size and result.passed > result.refused


@pytest.mark.parametrize("planted", list(Planted))
def test_what_is_to_be_planted_can_be(monkeypatch: pytest.MonkeyPatch, planted: Planted) -> None:
    FAULTS[planted].plant(monkeypatch)  # it names what it replaces


@pytest.mark.full
@pytest.mark.parametrize("planted", list(Planted))
def test_what_is_planted_is_found(
    started: Started,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    planted: Planted,
) -> None:
    fault = FAULTS[planted]
    spark = request.getfixturevalue("spark_settings") if fault.lake else None
    server = started(fault.version)
    fault.plant(monkeypatch)
    size = OF_LAKE if fault.lake else SIZE
    for seed in range(1, LOTS * size, size):
        seeds = map(str, range(seed, seed + size))
        lot = [history(each, fault.version, fault.metadata, weights(planted)) for each in seeds]
        if shown(planted, played(server, tmp_path / f"lot-{seed}", lot, spark).findings):
            return
    pytest.fail(f"{LOTS * size} histories didn't find it")


@pytest.mark.full
@pytest.mark.parametrize("planted", [each for each in Planted if FAULTS[each].kept])
def test_what_was_kept_finds_what_is_planted(
    started: Started,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    planted: Planted,
) -> None:
    fault = FAULTS[planted]
    spark = request.getfixturevalue("spark_settings") if fault.lake else None
    kept_one = FOUND[fault.kept]
    server = started(kept_one.version)
    fault.plant(monkeypatch)
    found = played(server, tmp_path / "played", [kept_one], spark).findings
    assert shown(planted, found), found


@pytest.mark.parametrize("kind", sorted({(each.version, each.metadata) for each in FOUND.values()}))
def test_what_was_found_stays_mended(
    started: Started, tmp_path: Path, kind: tuple[Version, Metadata]
) -> None:
    _replay(
        started, tmp_path, {k: each for k, each in FOUND.items() if (each.version, each.metadata) == kind}
    )


@pytest.mark.full
@pytest.mark.xfail(strict=False, reason="it isn't mended yet")
@pytest.mark.parametrize("name", OPEN)
def test_what_was_found_is_mended(started: Started, tmp_path: Path, name: str) -> None:
    _replay(started, tmp_path, {name: OPEN[name]})


@pytest.mark.full
def test_what_was_found_stays_mended_in_a_lake(
    started: Started, spark_settings: SparkSettings, tmp_path: Path
) -> None:
    kind = (Version.NEW, Metadata.FULL)
    of_kind = {k: each for k, each in FOUND.items() if (each.version, each.metadata) == kind}
    _replay(started, tmp_path, of_kind, spark_settings)


def _replay(
    started: Started, folder: Path, kept: Mapping[str, History], spark: SparkSettings | None = None
) -> None:
    names, histories = list(kept), list(kept.values())
    result = played(started(histories[0].version), folder / "played", histories, spark)
    wrong = [f"{names[f.history] if f.history is not None else ''}: {f}" for f in result.findings]
    assert not wrong, "\n".join(wrong)
    assert result.judged >= len(histories)


@pytest.mark.parametrize("version", list(Version))
def test_a_history_is_the_same_by_its_seed_and_by_its_text(version: Version) -> None:
    for seed in map(str, range(200)):
        made = history(seed, version, Metadata.MINIMAL)
        assert made == history(seed, version, Metadata.MINIMAL)
        assert parsed(f"-- a remark\n{made}") == made


def test_a_history_shrinks_to_the_steps_that_matter() -> None:
    needed = (Sql("CREATE"), Sql("ALTER", 1))
    noise = tuple(Sql(f"INSERT {number}") for number in range(20))
    behind: list[Step] = [Act.KILL_SERVICE, needed[1], *noise[15:], Act.REST]
    steps: tuple[Step, ...] = (*noise[:7], needed[0], *noise[7:15], *behind)
    whole = History(Version.NEW, Metadata.FULL, Captured.ALL, steps)
    short = shrunk(whole, lambda candidates: [set(needed) <= set(each.steps) for each in candidates])
    assert short.steps == (*needed, Act.REST)


def test_rows_shrink_as_well() -> None:
    many = Sql("INSERT INTO t (a) VALUES (1), (2), (3), (4)")
    whole = History(Version.NEW, Metadata.FULL, Captured.ALL, (many, Act.REST))
    short = shrunk(whole, lambda candidates: ["(1)" in str(each) for each in candidates])
    assert short.steps == (Sql("INSERT INTO t (a) VALUES (1)"), Act.REST)


async def test_what_concerns_all_waits_for_the_others_and_they_for_it() -> None:
    turns = Turns()
    done: list[str] = []

    async def act(name: str, go_on: asyncio.Event, *, alone: bool = False) -> None:
        async with turns.alone() if alone else turns.beside_others():
            done.append(f"{name} begins")
            await go_on.wait()
            done.append(f"{name} ends")

    first, last = asyncio.Event(), asyncio.Event()
    last.set()
    async with asyncio.TaskGroup() as acts:
        for name, go_on, alone in (
            ("a", first, False),
            ("b", first, False),
            ("all", last, True),
            ("c", last, False),
        ):
            acts.create_task(act(name, go_on, alone=alone))
            await asyncio.sleep(0)
        assert done == ["a begins", "b begins"]
        first.set()
    assert done[2:4] == ["a ends", "b ends"]
    assert done[4:] == ["all begins", "all ends", "c begins", "c ends"]
