"""A run of faults under writes, with a snapshot going on, and the judgement behind it.

    python -m tests.chaos.run --seed N [--seconds S | --once] [--without-lake | --verify] [--planted FAULT]
        [--patience S] [--per-second N]

With `--once` each kind of fault comes once. With `--verify` the lake is verified all the time that faults last, instead
of snapshots: no row may be found. The pauses between faults are longer then, so that some verifications are judged. It
prints what came of it as one line of JSON, and ends with 1 if something is wrong.
`--plan` prints what would be done. Journal and lake are on a filesystem of its own, of some MiB, in a namespace where
anybody may mount one.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from actors.journal.store import JournalReader
from tests.chaos.nemesis import Nemesis, Snapshots, Verifications, dumps
from tests.chaos.oracles import alarms, findings
from tests.chaos.orders import Count
from tests.chaos.plan import CALM_PAUSE_S, LONGEST_PAUSE_S, ActorStruck, Deed, Step, each_kind_once, plan
from tests.chaos.planted import STRUCK, Planted
from tests.chaos.report import Report, hanging, left_behind, restarts, unhandled
from tests.chaos.world import WITHIN_S, NotSo, World, world
from tests.servers.lasting_writer import writing
from tests.servers.source import connections

NAMESPACE: Final = ("unshare", "--user", "--map-root-user", "--mount")
# The kernel kills it when we end, however that happens.
_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")
HOUSE_MIB: Final = 512
# The judge keeps all segments, and a run with verifications has a quarter of an hour of them.
VERIFIED_HOUSE_MIB: Final = 2048
TRANSACTIONS_PER_S: Final = 60.0
# So small the lag has to be again.
LAG_S: Final = 5.0
# Connections of the service that are no dump: two for chunks, one that looks at the source, one for schemas.
CONNECTIONS: Final = 4
# With verifications: each comparison opens all files since the last merge and compaction, which the strikes delay.
_CALM: Final = {"JOURNAL__SEAL_AFTER_MS": "1000", "LAKE__MERGE_AFTER_S": "30"}
# A verdict has so many times as long as all else: a first mirror of hundreds of files is merged before it.
VERDICT_WITHIN: Final = 4
# What an actor that hangs is given, where its own patience isn't waited for.
PATIENCE_S: Final = 1.0


def run(
    seed: int,
    steps: Sequence[Step],
    folder: Path,
    *,
    lake: bool = True,
    verify: bool = False,
    planted: Planted | None = None,
    patience_s: float | None = PATIENCE_S,
    within_s: float = WITHIN_S,
    per_s: float = TRANSACTIONS_PER_S,
) -> Report:
    """Carry out these steps, and judge. Writers commit `per_s` transactions a second."""
    began, report = time.monotonic(), Report(seed)
    try:
        with world(folder, lake=lake, planted=planted, settings=_CALM if verify else {}) as there:
            there.within_s = within_s
            nemesis, snapshots = Nemesis(there, patience_s), Snapshots(there)
            verifications = Verifications(there) if verify else None
            try:
                _story(there, nemesis, snapshots, verifications, steps, report, per_s)
            finally:
                report.struck, report.snapshots = dict(nemesis.struck), dict(snapshots.ended)
                report.verified = {} if verifications is None else dict(verifications.ended)
                took, found = restarts(there.events, there.given, nemesis.stood_still)
                report.restarts_s, report.hangs_found_s = took, found
    except NotSo as wrong:
        report.findings.append(str(wrong))
    except AssertionError:  # what a judge takes for granted
        report.findings.append(traceback.format_exc())
    report.took_s = time.monotonic() - began
    return report


def _story(
    there: World,
    nemesis: Nemesis,
    snapshots: Snapshots,
    verifications: Verifications | None,
    steps: Sequence[Step],
    report: Report,
    per_s: float,
) -> None:
    there.service.start("/livez")
    there.wait(lambda: there.status().get("ready"), "the service is ready")
    # The judge reads all of the journal: while a consumer lacks it, a full disk makes no room.
    JournalReader(there.house / "journal").consumers.record_progress("judge", 0)
    with writing(there.address, per_s) as tally:
        there.meanwhile.append(snapshots.look)
        there.wait(lambda: snapshots.ended, "the first snapshot's end")
        before = _count(there, -1)
        if verifications is not None:
            there.meanwhile[:] = [verifications.look]
        nemesis.carry_out(steps)
        nemesis.give_up()
        report.recovered_s = _recovered(there)
        if verifications is not None:
            ended = verifications.ended.total()
            # First the sink delivers and merges all that came while it was struck.
            there.wait(
                lambda: verifications.ended.total() > ended,
                "a verdict behind the last fault",
                VERDICT_WITHIN * there.within_s,
            )
            there.meanwhile[:] = [snapshots.look]
        snapshots.begin()
        completed = snapshots.ended["completed"]
        there.wait(lambda: snapshots.ended["completed"] > completed, "a snapshot's end behind the last fault")
        there.meanwhile.clear()
    since = time.monotonic()
    there.caught_up()
    # Who's stopped while he hangs says so by his exit code.
    there.wait(lambda: not hanging(there.events, there.given), "all that hung was found")
    report.lake_caught_up_s, report.changes = time.monotonic() - since, len(tally)
    report.findings += left_behind(before, _count(there, -2)) + _connections(there)
    if code := there.service.stop():
        report.findings.append(f"the service ended with {code}:\n{there.service.last_words()}")
    report.findings += _left_at_the_source(there) + unhandled(there.service.log.read_text())
    report.findings += findings(there, tally)
    if verifications is not None:
        report.findings += alarms(str(there.house / "lake"))


def _count(there: World, number: int) -> dict[str, int]:
    there.give(Count(number))
    there.wait(lambda: number in there.done, "a count")
    counted: dict[str, int] = there.done[number].told["counted"]
    return counted


def _recovered(there: World) -> float:
    """How long it takes until what's committed has been captured so soon as it should be."""
    since = time.monotonic()
    lake, there.lake = there.lake, False
    while True:
        asked = time.monotonic()
        there.caught_up()
        if time.monotonic() - asked < LAG_S:
            there.lake = lake
            return asked - since
        if asked - since > there.within_s:
            raise NotSo(f"the lag wasn't below {LAG_S} s within {there.within_s} s of the last fault")


def _connections(there: World) -> list[str]:
    """Of the service, at the source, that it shouldn't have."""
    there.wait(lambda: len(dumps(there)) == 1, "one dump thread")
    more = len(connections(there.source, there.account)) - 1 - CONNECTIONS
    return [f"the service has {more} connections too many at the source"] if more > 0 else []


def _left_at_the_source(there: World) -> list[str]:
    deadline = time.monotonic() + there.within_s
    while left := [each for server in there.servers for each in connections(server, there.account)]:
        if time.monotonic() > deadline:
            return [f"a connection is left at the source: {each}" for each in left]
        time.sleep(0.05)
    return []


def steps_of(
    seed: int, seconds: float | None, lake: bool, verify: bool, planted: Planted | None
) -> tuple[Step, ...]:
    """The plan, of each kind of fault once without `seconds`; for a planted fault, what it shows by."""
    if planted is None:
        pause_s = CALM_PAUSE_S if verify else LONGEST_PAUSE_S
        if seconds is None:
            return each_kind_once(seed, lake=lake)
        return plan(seed, seconds, lake=lake, longest_pause_s=pause_s)
    actor = STRUCK.get(planted)
    return () if actor is None else tuple(Step(1.0, ActorStruck(actor, Deed.RAISE)) for _ in range(6))


def repeated_by(seed: int, seconds: float | None, lake: bool, verify: bool, per_s: float) -> str:
    """The command that does it again."""
    command = f"python -m tests.chaos.run --seed {seed} "
    command += "--once" if seconds is None else f"--seconds {seconds:g}"
    command += "" if per_s == TRANSACTIONS_PER_S else f" --per-second {per_s:g}"
    return command + ("" if lake else " --without-lake") + (" --verify" if verify else "")


@contextmanager
def _small_disk(folder: Path, mib: int, *, mounted: bool) -> Iterator[None]:
    folder.mkdir()
    if not mounted:
        yield
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def main() -> int:
    """One run, in a namespace of its own if there may be one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    lasting = parser.add_mutually_exclusive_group()
    lasting.add_argument("--seconds", type=float, default=60.0)
    lasting.add_argument("--once", dest="seconds", action="store_const", const=None)
    parser.add_argument("--per-second", type=float, default=TRANSACTIONS_PER_S, help="transactions")
    parser.add_argument("--without-lake", action="store_true")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--planted", type=Planted)
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="0: the actors' own")
    parser.add_argument("--within", type=float, default=WITHIN_S)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    lake = not chosen.without_lake
    steps = steps_of(chosen.seed, chosen.seconds, lake, chosen.verify, chosen.planted)
    if chosen.plan:
        sys.stdout.write("".join(f"{step.after_s:5.2f} s  {step.fault}\n" for step in steps))
        return 0
    if not chosen.inside and not subprocess.run([*NAMESPACE, "true"], check=False).returncode:
        again = [sys.executable, "-m", "tests.chaos.run", *sys.argv[1:], "--inside"]
        return subprocess.run([*NAMESPACE, *_WITH_US, *again], check=False).returncode
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    with _small_disk(
        folder / "house", VERIFIED_HOUSE_MIB if chosen.verify else HOUSE_MIB, mounted=chosen.inside
    ):
        report = run(
            chosen.seed,
            steps,
            folder,
            lake=lake,
            verify=chosen.verify,
            planted=chosen.planted,
            patience_s=chosen.patience or None,
            within_s=chosen.within,
            per_s=chosen.per_second,
        )
    for finding in report.findings:
        sys.stderr.write(f"{finding}\n")
    if report.findings and chosen.planted is None:
        sys.stderr.write(f"what's left of it is in {folder}\n")
        command = repeated_by(chosen.seed, chosen.seconds, lake, chosen.verify, chosen.per_second)
        sys.stderr.write(f"again: {command}\n")
    else:
        shutil.rmtree(folder)
    sys.stdout.write(report.text() + "\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
