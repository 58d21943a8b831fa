"""Memory with a hard end: the page after its last byte allows no access.

The kernel ends any code that reads or writes beyond it, compiled code included (SIGSEGV).
"""

import ctypes
import mmap
from typing import Final

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

_PROT_NONE: Final = 0


class Guarded:
    """Room for so many bytes before such a page."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, self.size + mmap.PAGESIZE)
        self._all = np.frombuffer(self._pages, np.uint8)[: self.size]
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self._all.ctypes.data + self.size), mmap.PAGESIZE, _PROT_NONE) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")

    def holding(self, data: bytes, slack: bytes) -> Bytes:
        """These bytes and the slack, right before the page. Whatever was there is gone."""
        size = len(data) + len(slack)
        place = self._all[self.size - size :]
        place[: len(data)] = np.frombuffer(data, np.uint8)
        place[len(data) :] = np.frombuffer(slack, np.uint8)
        return place
