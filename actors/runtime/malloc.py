"""Memory allocation: one heap for all threads.

Capture's memory is arrays of some hundred KiB to some MiB, made in one thread and freed in another. glibc gives each
new thread its own heap, up to eight for each core. Memory freed in one of them is useless to the others. Arrow's own
allocator does likewise. So a process kept a multiple of what it ever needed at once. Beside the interpreter's lock few
threads allocate at the same moment. So with one heap no thread waits: catching up takes no more processor time with it.

Arrow reads its setting in the package's `__init__`, once, when it's loaded.

A heap keeps everything below the last piece in use. Each snapshot left 4 to 12 MiB more of such holes, though no more
was in use than before. So the pages in them are returned now and then.

Source: mallopt(3), M_ARENA_MAX; malloc_trim(3); Arrow's documentation, "Memory Management", ARROW_DEFAULT_MEMORY_POOL.
"""

import asyncio
import ctypes
import platform
from typing import Final

_M_ARENA_MAX: Final = -8

# It takes milliseconds, and memory that is needed again costs a page fault.
GIVE_BACK_EVERY_S: Final = 60.0


def use_one_arena() -> None:
    """Gives all later threads the one heap. Call it before any thread exists, so before other imports.

    With another C library than glibc it does nothing.
    """
    if _is_glibc():
        taken: int = ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)
        assert taken == 1


async def trim_regularly() -> None:
    """Returns unused memory to the system again and again, until cancelled."""
    while True:
        await asyncio.sleep(GIVE_BACK_EVERY_S)
        await asyncio.to_thread(trim_heap)


def trim_heap() -> None:
    """Returns all completely unused pages to the system."""
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(0)


def _is_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"
