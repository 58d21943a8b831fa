"""One heap for all threads, in a process of its own, as it holds for all of it."""

import asyncio
import platform
import subprocess
import sys

import pytest

from actors.runtime import malloc

# How many heaps there are once 16 threads have had memory at the same time; settled before, or not.
PROGRAM = """
import ctypes, os, sys, tempfile, threading
from actors.runtime import malloc

if sys.argv[1] == "settled":
    malloc.use_one_arena()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fopen.restype = ctypes.c_void_p
together = threading.Barrier(16)

def have():
    libc.malloc(100_000)
    together.wait()

threads = [threading.Thread(target=have) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with tempfile.NamedTemporaryFile() as told:
    file = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(told.read().count(b"<heap nr="))
"""

# Returns the resident memory (KiB) with holes of 100 MiB between used pieces, and after their return.
HOLES = """
import ctypes, re
from actors.runtime import malloc

malloc.use_one_arena()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])

taken = [libc.malloc(100_000) for _ in range(1100)]
for piece in taken:
    ctypes.memset(piece, 1, 100_000)
for piece in taken[:-1]:
    libc.free(piece)
print(resident())
malloc.trim_heap()
print(resident())
"""


def heaps(settled: str) -> int:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, settled], check=True, capture_output=True, text=True)
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other heaps")
def test_all_threads_have_their_memory_from_one_heap() -> None:
    assert heaps("settled") == 1
    assert heaps("not") > 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other heaps")
def test_what_nobody_uses_is_given_back() -> None:
    ran = subprocess.run([sys.executable, "-c", HOLES], check=True, capture_output=True, text=True)
    with_holes, without = map(int, ran.stdout.split())
    assert with_holes - without > 100 * 1024 * 0.9


async def test_it_is_given_back_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[None] = []

    def third_fails() -> None:
        given.append(None)
        assert len(given) < 3

    monkeypatch.setattr(malloc, "GIVE_BACK_EVERY_S", 0.0)
    monkeypatch.setattr(malloc, "trim_heap", third_fails)
    with pytest.raises(AssertionError):
        await asyncio.wait_for(malloc.trim_regularly(), 10)


def test_arrow_has_its_memory_from_there_as_well() -> None:
    program = "import actors, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "system\n"
