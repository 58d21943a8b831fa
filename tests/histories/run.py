"""Plays random histories: `python -m tests.histories.run --seed 1 --count 100 --server 9.7`, or `--file` one.

What's found is printed with its history, shrunk if that's asked for.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.toolchain.mysql_server import (
    CENTRAL_EUROPE,
    GTIDS,
    GTIDS_56,
    SMALL_AND_QUICK,
    SMALL_AND_QUICK_56,
    MysqlServer,
)
from deploy.toolchain.parts import Parts, locate
from pipeline.config.settings import SparkSettings
from tests.histories.generate import history
from tests.histories.moves import MOVES, Move
from tests.histories.planted import FAULTS, Planted, shown, weights
from tests.histories.play import Finding, Result, played
from tests.histories.shrink import shrunk
from tests.histories.statements import History, Metadata, Version, parsed
from tests.servers.spark import quick

# How many candidates for the shortest history are played side by side.
_TOGETHER = 8


@contextmanager
def started(parts: Parts, version: Version, folder: Path) -> Iterator[MysqlServer]:
    """A server for histories."""
    if version is Version.NEW:
        server = MysqlServer(parts.mysql, folder, {**SMALL_AND_QUICK, **GTIDS}, CENTRAL_EUROPE)
    else:
        assert parts.mysql56 is not None
        server = MysqlServer(parts.mysql56, folder, {**SMALL_AND_QUICK_56, **GTIDS_56}, CENTRAL_EUROPE)
    with server:
        yield server


def batches(
    version: Version,
    seed: int,
    count: int,
    size: int,
    every: Metadata | None = None,
    weights: Mapping[Move, int] = MOVES,
) -> Iterator[list[History]]:
    """So many histories, in lots of one kind of metadata."""
    for number, first in enumerate(range(seed, seed + count, size)):
        full = version is Version.NEW and number % 3 != 2
        metadata = every or (Metadata.FULL if full else Metadata.MINIMAL)
        seeds = range(first, min(first + size, seed + count))
        yield [history(str(each), version, metadata, weights) for each in seeds]


def alone(
    server: MysqlServer,
    folder: Path,
    histories: Sequence[History],
    result: Result,
    spark: SparkSettings | None = None,
) -> Iterator[tuple[History, list[Finding]]]:
    """The histories that something was found of, each with what's found of it when it's played by itself.

    What's only found of them together is told of the first one.
    """
    found = False
    suspects = result.suspects
    for place in (*sorted(suspects), *(set(range(len(histories))) - suspects)):
        if place not in suspects and (found or suspects or not result.findings):
            break
        by_itself = played(
            server, folder / f"alone-{time.monotonic_ns()}", [histories[place]], spark
        ).findings
        found = found or bool(by_itself)
        if by_itself or place in suspects:
            yield (
                histories[place],
                by_itself or [*result.of(place), Finding(None, "not alone", "only beside others")],
            )
    if result.findings and not found and not suspects:
        yield histories[0], [*result.findings, Finding(None, "not alone", "only beside others")]


def main() -> int:
    """Play what the command line asks for; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories.run", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--batch", type=int, default=20, help="how many are played side by side")
    parser.add_argument("--server", type=Version, default=Version.NEW, choices=list(Version))
    parser.add_argument("--metadata", type=Metadata, choices=list(Metadata), help="of all of them")
    parser.add_argument("--file", type=Path, nargs="*", default=(), help="histories as printed, and no seeds")
    parser.add_argument("--lake", action="store_true", help="with Spark and a lake")
    parser.add_argument("--shrink", action="store_true", help="print the shortest histories that still fail")
    parser.add_argument("--keep", type=Path, help="keep journals and logs in this folder")
    parser.add_argument("--into", type=Path, help="write what fails into this folder, each history as a file")
    parser.add_argument("--print", action="store_true", help="print the histories, and play none")
    parser.add_argument("--planted", choices=[each.name for each in Planted], help="with this fault")
    told = parser.parse_args()
    if told.planted:
        fault = FAULTS[Planted[told.planted]]
        fault.plant(pytest.MonkeyPatch())
        told.server, told.metadata, told.lake = fault.version, fault.metadata, told.lake or fault.lake
    if told.file:
        histories = [parsed(path.read_text()) for path in told.file]
        lots = [[each] for each in histories]
        version = histories[0].version
    else:
        version = told.server
        of_moves = weights(Planted[told.planted]) if told.planted else MOVES
        lots = list(batches(version, told.seed, told.count, told.batch, told.metadata, of_moves))
    if told.print:
        print(*(each for lot in lots for each in lot), sep="\n")  # noqa: T201
        return 0
    parts = locate()
    spark = SparkSettings("local[2]", jars=parts.jars, conf=quick()) if told.lake else None
    failed = 0
    stops: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="histories-") as name:
        folder = told.keep or Path(name)
        with started(parts, version, folder / "mysql") as server:
            for number, lot in enumerate(lots):
                began = time.monotonic()
                result = played(server, folder / f"lot-{number}", lot, spark)
                stops.update(result.stops.values())
                seeds = ", ".join(each.seed for each in lot)
                _say(
                    f"{lot[0].metadata} {seeds}: {len(result.findings)} findings, {result.judged} rests,"
                    f" {result.passed} statements passed, {result.refused} refused, {time.monotonic() - began:.1f} s"
                )
                if told.planted:
                    if found := shown(Planted[told.planted], result.findings):
                        _say(f"{told.planted} is found among {told.batch * (number + 1)} histories:")
                        _say("\n".join(f"   {finding}" for finding in found))
                        return 0
                    continue
                for each, found in alone(server, folder, lot, result, spark):
                    failed += 1
                    short = _told(server, folder, each, found, spark, shrink=told.shrink)
                    if told.into:
                        _write(told.into, short, found)
    for why, times in stops.most_common():
        _say(f"tables stopped, {times}: {why}")
    _say(f"{failed} histories failed")
    return min(failed, 1)


def _told(
    server: MysqlServer,
    folder: Path,
    each: History,
    found: list[Finding],
    spark: SparkSettings | None,
    *,
    shrink: bool,
) -> History:
    _say(f"FAILED {each.version} {each.metadata} {each.seed}")
    for finding in found:
        _say(f"   {finding}")
    if shrink and all(finding.kind != "not alone" for finding in found):
        wanted = {finding.kind for finding in found}

        def fails(candidates: Sequence[History]) -> list[bool]:
            found: list[bool] = []
            for at in range(0, len(candidates), _TOGETHER):
                found += _failing(server, folder, candidates[at : at + _TOGETHER], wanted, spark)
            return found

        each = shrunk(each, fails)
        _say(str(each))
    return each


def _write(folder: Path, history: History, found: Sequence[Finding]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    remarks = [f"-- {line}" for finding in found for line in str(finding).splitlines()]
    name = f"{history.version}-{history.metadata}-{history.seed}.sql"
    (folder / name).write_text("\n".join([*remarks, str(history)]))


def _failing(
    server: MysqlServer, folder: Path, lot: Sequence[History], wanted: set[str], spark: SparkSettings | None
) -> list[bool]:
    """Which of these fail in one of the wanted ways; where the service as a whole does, each is played alone."""
    result = played(server, folder / f"shrink-{time.monotonic_ns()}", lot, spark)
    if len(lot) > 1 and any(finding.history is None for finding in result.findings):
        return [_failing(server, folder, [each], wanted, spark)[0] for each in lot]
    return [bool(wanted & {finding.kind for finding in result.of(place)}) for place in range(len(lot))]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
