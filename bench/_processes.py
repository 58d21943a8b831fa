"""What the kernel tells of a process. Source: proc(5)."""

import os
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def processor_s(pid: int) -> float:
    """Returns the processor time (s) that a process has taken since its start."""
    # The 14th and 15th fields, of which the 2nd, the name, may have blanks in it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    """Returns the most (MiB) that a process had in memory."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmHWM" in line)
    return int(line.split()[1]) / 1024
