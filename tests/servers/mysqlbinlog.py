"""What MySQL's own mysqlbinlog prints of the rows in a log."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_STATEMENT = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`")
_VALUE = re.compile(rb"###   @(\d+)=(.*)", re.DOTALL)

# The values of a row image that are there, by their columns' places (from 0).
Image = dict[int, bytes]


@dataclass
class Printed:
    """A changed row: `where` is empty for an insert, `set` for a delete."""

    table: str
    where: Image = field(default_factory=dict)
    set: Image = field(default_factory=dict)


def printed_rows(mysqlbinlog: Path, log: Path) -> list[Printed]:
    """The changed rows of all tables, in the log's order."""
    done = subprocess.run(
        [mysqlbinlog, "--no-defaults", "--verbose", "--base64-output=decode-rows", log],
        capture_output=True,
        check=True,
    )
    rows: list[Printed] = []
    image: Image = {}
    for line in done.stdout.split(b"\n"):
        if match := _STATEMENT.fullmatch(line):
            rows.append(Printed(match[3].decode()))
        elif line == b"### WHERE":
            image = rows[-1].where
        elif line == b"### SET":
            image = rows[-1].set
        elif match := _VALUE.fullmatch(line):
            image[int(match[1]) - 1] = match[2]
    return rows
