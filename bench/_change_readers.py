"""Many readers of a service's `/changes`, in a process of their own that takes as little of the processor as it can.

They stand for programs on other machines, and here they share the processors with the service. All begin at the same
checkpoint. So each of them must get the same bytes from each of its places on. Whoever comes to a place first decodes
what it gets there, and checks that each row's counter `n` is one more than before: no change is missing, none comes
again. All others only compare bytes with that.
"""

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from select import EPOLLIN, epoll
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa

# What comes within this time (s) is taken at once.
_GATHER_S: Final = 0.005
_LOOK_EVERY_S: Final = 0.1
_LONGEST_WAIT_S: Final = 60.0
_AT_ONCE: Final = 1 << 18


@contextmanager
def change_readers(url: str, number: int) -> Iterator[int | None]:
    """Meanwhile so many connections follow the changes from now on. Yields their process.

    Raises AssertionError unless each of them got each change once.
    """
    if not number:
        yield None
        return
    context = get_context("spawn")
    connected, ended = context.Event(), context.Event()
    process = context.Process(target=_follow, args=(url, number, connected, ended))
    process.start()
    try:
        assert connected.wait(_LONGEST_WAIT_S), "the readers have no answer"
        yield process.pid
    finally:
        ended.set()
        process.join()
    assert process.exitcode == 0, "a reader hasn't got each change once"


class Passage:
    """The way from a checkpoint on that all readers take: the chunks, each with the checkpoint after it."""

    def __init__(self, checkpoint: str) -> None:
        self.chunks: dict[str, tuple[bytes, str]] = {}
        self.front = checkpoint
        self._counters: dict[tuple[str, int], int] = {}

    def after(self, checkpoint: str, head: bytes, chunk: bytes) -> str:
        """Returns the checkpoint after a chunk with changes, and the same one without any.

        Raises AssertionError if it isn't what the first reader got there.
        """
        known, following = self.chunks.get(checkpoint, (b"", ""))
        if chunk == known:
            return following
        batches, following = _decoded(head + chunk)
        if not any(rows.num_rows for rows in batches):
            return checkpoint
        assert checkpoint == self.front, f"after {checkpoint} readers got different bytes"
        for rows in batches:
            self._count(rows)
        self.chunks[checkpoint] = chunk, following
        self.front = following
        return following

    def _count(self, rows: pa.RecordBatch) -> None:
        tables = [field.name for field in rows.schema if pa.types.is_struct(field.type)]
        counted = 0
        for table in tables:
            own = pa.RecordBatch.from_struct_array(rows.column(table).drop_null())
            for id_, n in zip(own.column("id").to_pylist(), own.column("n").to_pylist(), strict=True):
                before = self._counters.get((table, id_), n - 1)
                assert n == before + 1, f"{table}, {id_}: {n} comes after {before}"
                self._counters[table, id_] = n
            counted += own.num_rows
        assert counted == rows.num_rows


class _Reader:
    """One connection: where it is after so many chunks with changes, and what has come of the next one."""

    def __init__(self, host: str, port: int, checkpoint: str) -> None:
        self.taken = 0
        self._checkpoint = checkpoint
        self.wire = socket.create_connection((host, port))
        asked = f"GET /changes?since={checkpoint}&format=arrow HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
        self.wire.sendall(asked.encode())
        self._held = bytearray()
        self._head = b""
        while b"\r\n\r\n" not in self._held:
            self._receive(memoryview(bytearray(1)))
        assert self._held.startswith(b"HTTP/1.1 200 "), bytes(self._held)
        self._held.clear()

    def take(self, buffer: memoryview, passage: Passage) -> None:
        """Takes what has come."""
        self._receive(buffer)
        while (end := self._held.find(b"\r\n", 0, 20)) > 0:
            begin, size = end + 2, int(self._held[:end], 16)
            assert size, "the stream has ended"
            if len(self._held) < begin + size + 2:
                return
            chunk = bytes(memoryview(self._held)[begin : begin + size])
            del self._held[: begin + size + 2]
            if self._head:
                before = self._checkpoint
                self._checkpoint = passage.after(before, self._head, chunk)
                self.taken += self._checkpoint != before
            else:
                self._head = chunk

    def _receive(self, buffer: memoryview) -> None:
        size = self.wire.recv_into(buffer)
        assert size, "the answer has ended"
        self._held += buffer[:size]


def _follow(url: str, number: int, connected: Event, ended: Event) -> None:
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    with urllib.request.urlopen(f"{url}/changes?since=now&through=now") as answer:
        checkpoint = json.loads(answer.read().splitlines()[-1])["checkpoint"]
    passage, poll, buffer = Passage(checkpoint), epoll(), memoryview(bytearray(_AT_ONCE))
    readers = {}
    for _ in range(number):
        reader = _Reader(place.hostname, place.port, checkpoint)
        readers[reader.wire.fileno()] = reader
        poll.register(reader.wire, EPOLLIN)
    connected.set()
    while not ended.is_set():
        _take(poll, readers, buffer, passage)
    number_of_all, until = len(passage.chunks), time.monotonic() + _LONGEST_WAIT_S
    assert number_of_all, "the readers got nothing"
    while any(reader.taken < number_of_all for reader in readers.values()):
        assert time.monotonic() < until, "a reader hasn't got all"
        _take(poll, readers, buffer, passage)


def _take(poll: epoll, readers: dict[int, _Reader], buffer: memoryview, passage: Passage) -> None:
    for wire, _ in poll.poll(_LOOK_EVERY_S):
        readers[wire].take(buffer, passage)
    time.sleep(_GATHER_S)


def _decoded(stream: bytes) -> tuple[list[pa.RecordBatch], str]:
    """Returns the batches of a stream, and the checkpoint after the last one."""
    batches, following = list[pa.RecordBatch](), b""
    with pa.ipc.open_stream(stream) as reader:
        while True:
            try:
                rows, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return batches, following.decode()
            batches.append(rows)
            following = dict(metadata)[b"checkpoint"]
