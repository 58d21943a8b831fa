"""Looks for each planted fault, and prints the table of docs/histories.md: `python -m tests.histories.find_planted`.

Names of faults may be given. Each is looked for by the history that was kept of its root, and by random histories.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from deploy.toolchain.parts import Parts, locate
from pipeline.config.settings import SparkSettings
from tests.histories.planted import FAULTS, Planted, shown, weights
from tests.histories.play import played
from tests.histories.run import batches, started
from tests.histories.statements import History, parsed
from tests.servers.spark import quick

FOUND = Path(__file__).parent / "found"


def main() -> int:
    """Look for all of them; 1 if one isn't found in any way."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories.find_planted", description=__doc__)
    parser.add_argument("names", nargs="*", default=[each.name for each in Planted])
    parser.add_argument("--count", type=int, default=80, help="how many random histories at most")
    parser.add_argument("--batch", type=int, default=20, help="how many are played side by side")
    told = parser.parse_args()
    parts = locate()
    found = [_looked_for(parts, Planted[name], told.count, told.batch) for name in told.names]
    return min(found.count(False), 1)


def _looked_for(parts: Parts, planted: Planted, count: int, batch: int) -> bool:
    fault = FAULTS[planted]
    lots = list(batches(fault.version, 1, count, batch, fault.metadata, weights(planted)))
    kept = [parsed((FOUND / f"{fault.kept}.sql").read_text())] if fault.kept else []
    by_kept = (
        "found" if kept and _is_found(parts, planted, [kept]) is not None else "not found" if kept else ""
    )
    at = _is_found(parts, planted, lots)
    by_random = f"not met in {count}" if at is None else str(batch * at)
    print(f"| {fault.of} | `{planted.name}` | {by_kept} | {by_random} |", flush=True)  # noqa: T201
    return by_kept == "found" or at is not None


def _is_found(parts: Parts, planted: Planted, lots: Sequence[Sequence[History]]) -> int | None:
    """In which lot, from 1 on, it's found; None if in none of them."""
    fault = FAULTS[planted]
    spark = SparkSettings("local[2]", jars=parts.jars, conf=quick()) if fault.lake else None
    with (
        tempfile.TemporaryDirectory(prefix="planted-") as name,
        started(parts, lots[0][0].version, Path(name) / "mysql") as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        fault.plant(patch)
        for at, lot in enumerate(lots, 1):
            if found := shown(planted, played(server, Path(name) / f"lot-{at}", lot, spark).findings):
                print(*found, sep="\n", file=sys.stderr, flush=True)  # noqa: T201
                return at
    return None


if __name__ == "__main__":
    sys.exit(main())
