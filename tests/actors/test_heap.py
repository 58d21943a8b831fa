"""One heap for all threads, in a process of its own, as it holds for all of it."""

import platform
import subprocess
import sys

import pytest

# How many heaps there are once 16 threads have had memory at the same time; settled before, or not.
PROGRAM = """
import ctypes, os, sys, tempfile, threading
from actors import heap

if sys.argv[1] == "settled":
    heap.settle()
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


def heaps(settled: str) -> int:
    ran = subprocess.run([sys.executable, "-c", PROGRAM, settled], check=True, capture_output=True, text=True)
    return int(ran.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other heaps")
def test_all_threads_have_their_memory_from_one_heap() -> None:
    assert heaps("settled") == 1
    assert heaps("not") > 1


def test_arrow_has_its_memory_from_there_as_well() -> None:
    program = "import actors, pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert ran.stdout == "system\n"
