"""Everything that can fail does, at random, under writes and with a snapshot going on: then nothing is wrong.

Each run is a process of its own (`python -m tests.chaos.run`), which says how it's repeated.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from pipeline.messages.topology import ActorName
from tests.chaos.nemesis import killed, of_actors
from tests.chaos.plan import Deed
from tests.chaos.planted import Planted
from tests.chaos.report import Report, percentile, together

_ROOT: Final = Path(__file__).parents[2]
_ENDS_WITHIN_S: Final = 3600.0

# The seed of the shortest plan, which has every kind of fault once, and each deed of an actor's. A third of the
# transactions is enough, since each fault takes seconds.
QUICK: Final = 3376
QUICK_PER_S: Final = 20.0

# That one, and those that have found something: they're run again for ever.
KEPT: Final = (
    pytest.param(("--seed", "2", "--seconds", "40", "--without-lake"), id="capture", marks=pytest.mark.full),
    pytest.param(("--seed", str(QUICK), "--once", "--per-second", str(QUICK_PER_S)), id="each once"),
    pytest.param(("--seed", "2746", "--seconds", "30"), id="all of it, busy", marks=pytest.mark.full),
    pytest.param(("--seed", "4566", "--seconds", "90"), id="longer", marks=pytest.mark.full),
)

LONG_S: Final = float(os.environ.get("CHAOS_SECONDS", "3600"))
LONG_SEED: Final = int(os.environ.get("CHAOS_SEED", "1000"))
KILLS: Final = 300
STRIKES: Final = 100
RESTART_S: Final = 5.0
HANG_FOUND_S: Final = 15.0


def chaos(*arguments: str) -> Report:
    """One run. Fails with what was printed if it says nothing."""
    command = [sys.executable, "-m", "tests.chaos.run", *arguments]
    ended = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, timeout=_ENDS_WITHIN_S, check=False
    )
    lines = ended.stdout.splitlines()
    assert lines, ended.stderr
    report = Report(**json.loads(lines[-1]))
    assert bool(report.findings) == bool(ended.returncode), ended.stderr
    return report


@pytest.mark.parametrize("arguments", KEPT)
def test_nothing_is_lost_whatever_fails(arguments: tuple[str, ...]) -> None:
    report = chaos(*arguments)
    assert report.findings == [], f"again: python -m tests.chaos.run {' '.join(arguments)}"
    assert killed(Counter(report.struck))
    assert report.changes


@pytest.mark.full
def test_an_hour_of_it() -> None:
    reports: list[Report] = []
    all_of_it = Report(LONG_SEED)
    until = time.monotonic() + LONG_S
    for seed in count(LONG_SEED):
        # Every fourth run waits for the actors' own patience.
        patience = "0" if seed % 4 == 0 else "1"
        reports.append(chaos("--seed", str(seed), "--seconds", "300", "--patience", patience))
        sys.stderr.write(f"{reports[-1].text()}\n")
        all_of_it = together(reports)
        struck = Counter(all_of_it.struck)
        enough = LONG_S < 3600.0 or (killed(struck) >= KILLS and min(of_actors(struck).values()) >= STRIKES)
        if time.monotonic() > until and enough:
            break
    assert all_of_it.findings == []
    times = [took for each in all_of_it.restarts_s.values() for took in each]
    assert percentile(times, 0.99) <= RESTART_S, all_of_it
    assert max(all_of_it.hangs_found_s, default=0.0) <= HANG_FOUND_S, all_of_it


@pytest.mark.full
def test_an_hour_of_verifications_has_no_false_alarm() -> None:
    reports: list[Report] = []
    until = time.monotonic() + LONG_S
    for seed in count(LONG_SEED):
        reports.append(chaos("--seed", str(seed), "--seconds", "1200", "--verify", "--per-second", "10"))
        sys.stderr.write(f"{reports[-1].text()}\n")
        if time.monotonic() > until:
            break
    all_of_it = together(reports)
    assert all_of_it.findings == []
    assert killed(Counter(all_of_it.struck)) and all_of_it.verified["equal"]


@pytest.mark.full
def test_what_a_verification_finds_is_reported() -> None:
    found = chaos("--seed", "1", "--verify", "--planted", Planted.NO_GIVING_WAY).findings
    assert any("the verification v" in finding for finding in found), found


@pytest.mark.full
@pytest.mark.parametrize("planted", Planted, ids=lambda planted: planted.name)
def test_what_is_planted_is_found(planted: Planted) -> None:
    lake = () if planted is Planted.NO_MARK else ("--without-lake",)
    # Where it shows by what never comes, that isn't waited for as long as for what does.
    within = ("--within", "60") if planted in (Planted.LOST_ACK, Planted.SWALLOWED) else ()
    found = chaos("--seed", "1", "--planted", planted, *within, *lake).findings
    assert any(FOUND[planted] in finding for finding in found), found


# What each of them is found by.
FOUND: Final[dict[Planted, str]] = {
    Planted.LOST_ACK: "snapshot's end",
    Planted.SWALLOWED: "all that was executed",
    Planted.POSITION_FIRST: "first_scn",
    Planted.NO_GIVING_WAY: "isn't what came before it",
    Planted.STALE_POSITION: "ended by itself",
    Planted.DOUBLED: "a second change",
    Planted.NO_MARK: "is too much",
    Planted.LEAK: "sockets",
    Planted.FOR_SHARE: "FOR SHARE",
}


def test_each_actor_can_be_struck_in_each_way() -> None:
    struck = Counter({f"{actor}: {deed}": 1 for actor in ActorName for deed in Deed})
    assert of_actors(struck) == dict.fromkeys(ActorName, len(Deed))
