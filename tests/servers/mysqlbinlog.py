"""What MySQL's own mysqlbinlog prints of the rows in a log."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_GTID = re.compile(rb"SET @@SESSION.GTID_NEXT= '(.*)'/\*!\*/;")
_STATEMENT = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`")
_VALUE = re.compile(rb"###   @(\d+)=(.*)", re.DOTALL)

# The values of a row image that are there, by their columns' places (from 0).
Image = dict[int, bytes]


@dataclass
class Printed:
    """A changed row: `where` is empty for an insert, `set` for a delete. `gtid`: of its transaction, if it has one."""

    table: str
    gtid: str
    where: Image = field(default_factory=dict)
    set: Image = field(default_factory=dict)

    @property
    def op(self) -> str:
        """What was done, as the journal has it: c, u or d."""
        return "c" if not self.where else "d" if not self.set else "u"


def printed_rows(mysqlbinlog: Path, *logs: Path) -> list[Printed]:
    """The changed rows of all tables, in the order of these files."""
    done = subprocess.run(
        [mysqlbinlog, "--no-defaults", "--verbose", "--base64-output=decode-rows", *logs],
        capture_output=True,
        check=True,
    )
    rows: list[Printed] = []
    image: Image = {}
    gtid = ""
    for line in done.stdout.split(b"\n"):
        if match := _GTID.fullmatch(line):
            gtid = match[1].decode()
        elif match := _STATEMENT.fullmatch(line):
            rows.append(Printed(match[3].decode(), gtid))
        elif line == b"### WHERE":
            image = rows[-1].where
        elif line == b"### SET":
            image = rows[-1].set
        elif match := _VALUE.fullmatch(line):
            image[int(match[1]) - 1] = match[2]
    return rows
