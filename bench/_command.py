"""What a benchmark is asked for on its command line."""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """The names of what's to be measured, in their order, and the scale of all numbers of rows."""

    names: tuple[str, ...]
    scale: float


def command_line(description: str, names: Iterable[str]) -> Wanted:
    """What this process's arguments ask for: all of these, or those that are named.

    The help begins as the benchmark's own docstring does (`description`).
    """
    there = tuple(names)
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="WHAT", help=", ".join(there))
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of rows; 1 is what's told")
    options = parser.parse_args()
    return Wanted(tuple(name for name in there if not options.what or name in options.what), options.scale)
