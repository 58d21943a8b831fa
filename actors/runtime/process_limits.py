"""What the operating system permits this process, and what it permits others of this process' files."""

import os
import resource
from typing import Final

# More than any service needs. Some systems have a hard limit so high that programs which count up to it get slow.
MOST_DESCRIPTORS: Final = 1 << 20


def raise_descriptor_limit() -> int:
    """Lets the process have as many descriptors as its hard limit permits; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def restrict_new_files(umask: str) -> None:
    """Takes these rights (three octal digits) from all files that this process and its children make from now on."""
    os.umask(int(umask, 8))
