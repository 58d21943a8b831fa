"""Runs cases, one after the other, in a process of its own: `python -m tests.fuzz.run CORPUS PLAN SEED COUNT STATE`.

Each case has to end in messages or in one of the errors for bad bytes. Anything else fails: another exception, a crash,
a hang, memory over the cap. A case that kills the process leaves its seed in the file STATE, eight bytes, for the
parent process. With "REPLAY" instead of a state's file the program makes that one case smaller and prints it.
"""

import mmap
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import actors  # noqa: F401 - it says how numba keeps machine code, and has to before numba is imported
from tests.fuzz.corpus import Corpus
from tests.fuzz.logs import log_told
from tests.fuzz.mutation import Case, case
from tests.fuzz.rows import RowsCase, rows_case, rows_told, tables
from tests.fuzz.together import TogetherCase, together_case, together_told

CASES_AT_ONCE: Final = 100
AT_ONCE_S: Final = 300  # for so many cases, on a clock, on however busy a machine
CASE_CPU_S: Final = 20  # of a processor, for each of them
MEMORY: Final = 768 * 2**20  # bytes beyond what there was when all code had been loaded

REPLAY: Final = "REPLAY"

AnyCase = Case | RowsCase | TogetherCase


@dataclass(frozen=True, slots=True)
class Plan:
    """How a seed becomes a case, and what is done with it; `told` raises what it shouldn't."""

    of_seed: Callable[[int], AnyCase]
    told: Callable[[AnyCase], object]


def plan(name: str, corpus: Corpus) -> Plan:
    """`logs`: whole logs, as a connection gives them. `rows`: row images alone, in guarded memory. `together`: those of
    several tables.
    """
    if name == "logs":
        return Plan(lambda seed: case(corpus, seed), log_told)  # type: ignore[arg-type]
    of = tables(corpus)
    if name == "together":
        return Plan(lambda seed: together_case(of, seed), together_told)  # type: ignore[arg-type]
    return Plan(lambda seed: rows_case(of, seed), rows_told)  # type: ignore[arg-type]


def main() -> int:
    """As the module's text says; returns 1 where a case failed."""
    path, name, seed, count, state = sys.argv[1:]
    todo = plan(name, pickle.loads(Path(path).read_bytes()))
    if state == REPLAY:
        sys.stdout.write(_replayed(todo, int(seed)))
        return 1
    return _run(todo, range(int(seed), int(seed) + int(count)), Path(state))


def _run(todo: Plan, seeds: range, state: Path) -> int:
    state.write_bytes(bytes(8))
    with state.open("r+b") as file, mmap.mmap(file.fileno(), 8) as current:
        for seed in seeds:
            current[:] = seed.to_bytes(8, "little")
            if (seed - seeds.start) % CASES_AT_ONCE == 0:
                signal.alarm(AT_ONCE_S)
            if seed - seeds.start == CASES_AT_ONCE:  # all code is loaded
                _limit_memory()
            if seed - seeds.start >= CASES_AT_ONCE:
                _limit_time()
            try:
                todo.told(todo.of_seed(seed))
            except BaseException:  # noqa: BLE001 - which it is is what the report says
                traceback.print_exc()
                sys.stdout.write(_replayed(todo, seed))
                return 1
    signal.alarm(0)
    return 0


def _limit_time() -> None:
    """The kernel ends the process when the case has had its time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    at_most = int(used.ru_utime + used.ru_stime) + CASE_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (at_most, resource.RLIM_INFINITY))


def _limit_memory() -> None:
    """What asks for more gets a MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + MEMORY, resource.RLIM_INFINITY))


def _replayed(todo: Plan, seed: int) -> str:
    """The smallest case that still fails, in words."""
    this = todo.of_seed(seed)
    if _ending(todo, this) is None:
        return f"seed {seed} passes by itself\n"
    smaller = True
    while smaller:
        smaller = False
        for fewer in _fewer(this):
            if _ending(todo, fewer) is not None:
                this, smaller = fewer, True
                break
    return f"seed {seed}: {_ending(todo, this)}\n{_listed(this)}\n"


def _fewer(this: AnyCase) -> Iterator[AnyCase]:
    for i in range(len(this.events)):
        yield replace(this, events=this.events[:i] + this.events[i + 1 :])  # type: ignore[arg-type]


def _ending(todo: Plan, this: AnyCase) -> str | None:
    """How a process ends that runs the case, if it isn't well."""
    child = os.fork()
    if child == 0:
        signal.alarm(CASE_CPU_S)
        try:
            todo.told(this)
        except BaseException as error:  # noqa: BLE001
            os._exit(1 if isinstance(error, Exception) else 2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return None if code == 0 else "an exception" if code > 0 else signal.Signals(-code).name


def _listed(this: AnyCase) -> str:
    """The events in hexadecimal."""
    if isinstance(this, TogetherCase):
        return "\n".join(map(_listed, this.events))
    if isinstance(this, RowsCase):
        return "\n".join([f"map {this.map.hex()}", *(f"{code} {body.hex()}" for code, body in this.events)])
    lies = [f"the packet of event {i} lies by {length} and {number}" for i, length, number in this.lies]
    return "\n".join([*(f"{event[4:5].hex()} {event.hex()}" for event in this.events), *lies])


if __name__ == "__main__":
    sys.exit(main())
