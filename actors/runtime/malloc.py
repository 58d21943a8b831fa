"""How memory is had: from one heap, for all threads.

Capture's memory is arrays of some hundred KiB to some MiB, made in one thread and let go in another. glibc gives each
new thread a heap of its own, up to eight for each core, and what's let go in one of them is of no use to the others;
Arrow's own allocator does likewise. So what a process keeps was a multiple of what it ever needed at once. Beside the
interpreter's lock few threads ask at the same moment, so that one heap for all makes nobody wait: catching up takes no
more processor time with it.

Arrow is told in the package's `__init__`, since it asks once, when it's loaded.

A heap keeps what lies below the last piece that's in use. Each snapshot left 4 to 12 MiB more of such holes behind,
though no more was in use than before; so the pages in them are given back now and then.

Source: mallopt(3), M_ARENA_MAX; malloc_trim(3); Arrow's documentation, "Memory Management", ARROW_DEFAULT_MEMORY_POOL.
"""

import asyncio
import ctypes
import platform
from typing import Final

_M_ARENA_MAX: Final = -8

# It takes milliseconds, and what's needed again costs a page fault.
GIVE_BACK_EVERY_S: Final = 60.0


def settle() -> None:
    """From now on no thread gets another heap; to be called before there are threads, so before all else is loaded.

    Of another C library than glibc nothing is asked.
    """
    if _is_glibc():
        taken: int = ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        assert taken == 1


async def keep_small() -> None:
    """Give back for ever what nobody uses."""
    while True:
        await asyncio.sleep(GIVE_BACK_EVERY_S)
        await asyncio.to_thread(give_back)


def give_back() -> None:
    """Let the system have all whole pages that nobody uses."""
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def _is_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"
