"""The part of deploy/requirements.lock that the program runs on, without what's for developers alone.

The lock says of each package what it's there for (`# via`), as uv and pip-tools write it. From what the program itself
asks for, all that's reached that way is taken.

Source: pip's documentation, "Requirements File Format", "Secure installs".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

PROGRAM: Final = "tidemark (pyproject.toml)"

_PIN: Final = re.compile(r"^([a-z0-9-]+)(?:\[[^\]]*\])?==([^\s;]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Pin:
    """A package's version and lines in the lock, and what it's there for."""

    name: str
    version: str
    text: str

    @property
    def wanted_by(self) -> frozenset[str]:
        """What asks for it: packages, the program, or a group of the developers'."""
        comments = re.findall(r"^ +# +(?:via +)?(\S.*)$", self.text, re.MULTILINE)
        return frozenset(comment for comment in comments if comment != "via")


def pins(lock: str) -> Iterator[Pin]:
    """The packages of a lock, in its order."""
    starts = [*_PIN.finditer(lock)]
    ends = [*(start.start() for start in starts[1:]), len(lock)]
    for start, end in zip(starts, ends, strict=True):
        yield Pin(start[1], start[2], lock[start.start() : end])


def runtime_part(lock: str) -> str:
    """The lock, with only what the program needs to run."""
    known = list(pins(lock))
    reached = {PROGRAM}
    while more := {pin.name for pin in known if pin.wanted_by & reached} - reached:
        reached |= more
    return "".join(pin.text for pin in known if pin.name in reached)
