"""Whatever a server may send, it's read or refused: no crash, no hang, no read beyond the bytes, no end of memory.

The log of a live server is damaged in a great many ways (`mutation`), and read in processes of their own (`run`), two
at a time: one as the service runs, one whose compiled code looks at each index (NUMBA_BOUNDSCHECK).
"""

import os
import pickle
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from deploy.toolchain.mysql_server import SMALL_AND_QUICK, MysqlServer
from deploy.toolchain.parts import Parts
from tests.fuzz import checked_code, corpus
from tests.fuzz.checked_code import BySources
from tests.fuzz.run import REPLAY

ROOT: Final = Path(__file__).parents[2]

SEED: Final = 1
LOGS: Final = 1_500  # cases, by each of the two
ROWS: Final = 2_500
QUICK: Final = 6  # `make test` has so large a part of them
WITHIN_S: Final = 1800  # on however busy a machine
LONG_RUNS: Final = 260  # as many, each of seeds of its own


@pytest.fixture(scope="module")
def taken(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, in a file."""
    folder = tmp_path_factory.mktemp("fuzz")
    with MysqlServer(parts.mysql, folder / "mysql", {**SMALL_AND_QUICK, **corpus.OPTIONS}) as server:
        (folder / "corpus").write_bytes(pickle.dumps(corpus.taken(server)))
    return folder / "corpus"


def environment(*, checked: bool) -> dict[str, str]:
    return {**os.environ, **(checked_code.environment() if checked else {})}


class Running(NamedTuple):
    """A process that runs cases, and the file that says which."""

    process: "subprocess.Popen[str]"
    arguments: list[str]
    state: Path


def started(taken: Path, plan: str, seed: int, count: int, *, checked: bool) -> Running:
    state = taken.with_name(f"{plan}-{seed}")
    arguments = [sys.executable, "-m", "tests.fuzz.run", str(taken), plan, str(seed)]
    process = subprocess.Popen(
        [*arguments, str(count), str(state)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(checked=checked),
        cwd=ROOT,
    )
    return Running(process, [*arguments, "1", REPLAY], state)


def finished(running: Running) -> str | None:
    """Waits for the process, and returns how it failed; a case that killed it is searched for again, in a smaller
    one."""
    with running.process:
        try:
            said, _ = running.process.communicate(timeout=WITHIN_S)
        finally:
            running.process.kill()
    code = running.process.returncode
    if code == 0:
        return None
    if code < 0:
        seed = int.from_bytes(running.state.read_bytes(), "little")
        arguments = [*running.arguments[:-3], str(seed), *running.arguments[-2:]]
        replayed = subprocess.run(arguments, capture_output=True, text=True, check=False)
        said += f"killed by signal {-code} in the case of seed {seed}\n{replayed.stdout}{replayed.stderr}"
    return said


def both(taken: Path, plan: str, seed: int, count: int) -> None:
    running = [
        started(taken, plan, seed, count, checked=False),
        started(taken, plan, seed + count, count, checked=True),
    ]
    failures = [failure for one in running if (failure := finished(one))]
    assert not failures, "\n\n".join(failures)


def test_compiled_code_that_is_to_look_at_each_index_does() -> None:
    beyond = "import actors, numpy; from pipeline.types import crc32; crc32.crc32(numpy.zeros(2, 'u1'), 0, 9)"
    ends = [
        subprocess.run(
            [sys.executable, "-c", beyond],
            env=environment(checked=checked),
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        for checked in (False, True)
    ]
    assert ["IndexError" in end.stderr for end in ends] == [False, True]


def test_checkouts_of_the_same_sources_share_the_checked_code(tmp_path: Path) -> None:
    """A module of other sources has a folder of its own."""
    for checkout, text in (("one", "a = 1"), ("same", "a = 1"), ("other", "a = 2")):
        (tmp_path / checkout / "rows").mkdir(parents=True)
        (tmp_path / checkout / "rows" / "cells.py").write_text(text)
    one, same, other = (
        BySources.get_suitable_cache_subpath(str(tmp_path / checkout / "rows" / "cells.py"))
        for checkout in ("one", "same", "other")
    )
    assert one == same != other


def test_damaged_logs_are_read_or_refused(taken: Path) -> None:
    both(taken, "logs", SEED, LOGS // QUICK)


def test_damaged_row_images_are_read_or_refused(taken: Path) -> None:
    both(taken, "rows", SEED, ROWS // QUICK)


def test_tables_that_are_decoded_together_are_as_each_alone(taken: Path) -> None:
    both(taken, "together", SEED, ROWS // QUICK)


@pytest.mark.full
@pytest.mark.parametrize(("plan", "count"), [("logs", LOGS), ("rows", ROWS), ("together", ROWS)])
def test_more_damaged_bytes_are_read_or_refused(taken: Path, plan: str, count: int) -> None:
    both(taken, plan, SEED, count)


@pytest.mark.full
@pytest.mark.parametrize("plan", ["logs", "rows", "together"])
def test_other_seeds_each_time(taken: Path, plan: str) -> None:
    for _ in range(LONG_RUNS):
        both(taken, plan, secrets.randbits(48), LOGS)
