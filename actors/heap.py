"""How memory is had: from one heap, for all threads.

Capture's memory is arrays of some hundred KiB to some MiB, made in one thread and let go in another. glibc gives each
new thread a heap of its own, up to eight for each core, and what's let go in one of them is of no use to the others;
Arrow's own allocator does likewise. So what a process keeps was a multiple of what it ever needed at once. Beside the
interpreter's lock few threads ask at the same moment, so that one heap for all makes nobody wait: catching up takes no
more processor time with it.

Arrow is told in the package's `__init__`, since it asks once, when it's loaded.

Source: mallopt(3), M_ARENA_MAX; Arrow's documentation, "Memory Management", ARROW_DEFAULT_MEMORY_POOL.
"""

import ctypes
import platform
from typing import Final

_M_ARENA_MAX: Final = -8


def settle() -> None:
    """From now on no thread gets another heap; to be called before there are threads, so before all else is loaded.

    Of another C library than glibc nothing is asked.
    """
    if platform.libc_ver()[0] == "glibc":
        taken: int = ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        assert taken == 1
