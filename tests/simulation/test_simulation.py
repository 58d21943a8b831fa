"""Capture's rules, held against a modelled server in thousands of runs, and each rule's worth shown by its absence."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.simulation.bugs import BUGS, RARE, Bug
from tests.simulation.coverage import HARD
from tests.simulation.kept_seeds import KEPT
from tests.simulation.planted import PAGE, found_by, seeds_for, told
from tests.simulation.simulation import run

# Each block of seeds has to reach every hard case by itself. `make test` has the first one, whose last two seeds
# alone have a server that gives the same GTIDs again, and a foreign key's child that stops with its parent.
QUICK = (*range(125), 147, 189)
BLOCKS = (QUICK, range(500), range(500, 1000), range(1000, 1500), range(1500, 2000))
SEEDS_FOR_A_BUG = 1000
SEEDS_FOR_A_RARE_ONE = 5000

# For `make test-full`: how many seeds, and the first of them.
FURTHER = int(os.environ.get("TIDEMARK_SEEDS", "10000"))
FURTHER_FROM = int(os.environ.get("TIDEMARK_FIRST_SEED", str(BLOCKS[-1][-1] + 1)))


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(seeds, id=f"{seeds[0]}-{seeds[-1]}", marks=() if seeds is QUICK else pytest.mark.full)
        for seeds in BLOCKS
    ],
)
def test_no_run_breaks_a_promise_and_every_hard_case_is_reached(seeds: Sequence[int]) -> None:
    reached: Counter[str] = Counter()
    for seed in seeds:
        reached += run(seed).reached
    assert not [case for case in HARD if not reached[case]], reached


def test_the_seeds_that_find_planted_bugs_break_no_promise() -> None:
    """Those behind the block of `make test`: each stands for a rule that the block hasn't shown."""
    for seed in sorted({next(seeds_for(bug, 0), 0) for bug in (*BUGS, *RARE)} - set(QUICK)):
        run(seed)


@pytest.mark.full
def test_no_further_run_breaks_a_promise() -> None:
    for seed in range(FURTHER_FROM, FURTHER_FROM + FURTHER):
        run(seed)


@pytest.mark.parametrize("seed", KEPT, ids=lambda seed: f"{seed}-{KEPT[seed].replace(' ', '_')}")
def test_what_once_was_wrong_stays_right(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize(
    "seeds",
    [range(40, 44), pytest.param(range(44, 80), marks=pytest.mark.full)],
    ids=lambda seeds: seeds.start,
)
def test_a_seed_is_the_same_run_each_time(seeds: range) -> None:
    """In another process too, where the hashes of strings are others."""
    digests = [run(seed).story.digest for seed in seeds]
    assert digests == [run(seed).story.digest for seed in seeds]
    assert len(set(digests)) == len(digests)
    program = f"from tests.simulation.simulation import run\nfor s in {seeds}: print(run(s).story.digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": "."}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )
    assert told.stdout.split() == digests


def test_the_page_lists_the_planted_bugs() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| Planted bug | seeds |\n")[2]
    assert re.findall(r"^\| (\w.*?) \|", table, re.MULTILINE) == [told(bug) for bug in (*BUGS, *RARE)]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_found(bug: Bug) -> None:
    assert found_by(bug, seeds_for(bug, SEEDS_FOR_A_BUG)) is not None


@pytest.mark.full
@pytest.mark.parametrize("bug", RARE, ids=lambda bug: bug.__name__)
def test_a_rare_bug_is_found(bug: Bug) -> None:
    assert found_by(bug, seeds_for(bug, SEEDS_FOR_A_RARE_ONE)) is not None
