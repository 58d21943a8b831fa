"""Reads a service's changes as Arrow batches, with checkpoints.

    stream = changes("http://127.0.0.1:8321", since=checkpoint, tables=["shop.orders"])
    for batch in stream:                       # or `async for`
        write(batch.rows)
        if batch.checkpoint is not None:
            commit(batch.checkpoint)           # continue with since=batch.checkpoint

The last batch of a stream with an end (`through`) says that it is complete. Without that the stream broke off, however
the answer ended: HTTP/1.0 has no proper end, and a proxy may speak it.

It needs nothing else of Tidemark's than its address. A batch ends with whole transactions, and has a checkpoint then.
Only a transaction of more than some thousand rows comes in several batches: its last one has the checkpoint.
"""

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

from actors.journal.service_connection import TRANSIENT_STATUSES, Trust, request_service
from pipeline.errors import Definite, Transient

__all__ = ["ChangeBatch", "ChangesGone", "ChangesInterrupted", "changes"]

# The service sends something at least so often (s), even if nothing changes.
_SILENT_S = 60.0

_CHECKPOINT = b"checkpoint"
_COMPLETE = b"complete"
_ERROR = b"error"
_RESTARTED = b"restarted"
_STOPPED = b"stopped"


class ChangesInterrupted(Transient):
    """The stream broke off, or the service doesn't answer now: continue with the last checkpoint."""


class ChangesGone(Definite):
    """The journal doesn't have the changes after the place any more; the text says what to read instead."""


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Rows in the order of commits. With them all before `checkpoint` has come; None amid a large transaction.

    `restarted`: tables whose rows the stream lacks up to here, so that only the lake has them all. `stopped`: tables of
    which nothing more comes, each with its reason.
    """

    rows: pa.RecordBatch
    checkpoint: str | None
    restarted: tuple[str, ...] = ()
    stopped: Mapping[str, str] = field(default_factory=dict)


class _Answering:
    """The socket over which an answer comes. Another thread than the one that reads may cut it, at any time."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._cut = False

    def opened(self, over: socket.socket | None) -> None:
        """Says which socket it is."""
        self._socket = over
        if self._cut:
            self.cut()

    def cut(self) -> None:
        """Ends the answer for whoever waits for more of it. Does nothing once it has ended."""
        self._cut = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class _Changes:
    """The stream: an iterable of both kinds."""

    def __init__(self, url: str, parameters: dict[str, str], token: str | None, tls: Trust) -> None:
        self._url = url
        self._path = f"/changes?{urlencode(parameters)}"
        self._token = token
        self._tls = tls

    def __iter__(self) -> Iterator[ChangeBatch]:
        return self._read(_Answering())

    def _read(self, answering: _Answering) -> Iterator[ChangeBatch]:
        try:
            with closing(
                request_service(self._url, self._path, _SILENT_S, self._token, self._tls)
            ) as connection:
                answering.opened(connection.sock)
                answer = connection.getresponse()
                _check_answer(answer)
                yield from _batches(answer)
        except (OSError, HTTPException, pa.ArrowInvalid) as error:
            raise ChangesInterrupted(
                f"{urlsplit(self._url).netloc} sends no more changes ({error})"
            ) from error

    async def __aiter__(self) -> AsyncIterator[ChangeBatch]:
        answering = _Answering()
        batches = self._read(answering)
        try:
            # Arrow's reader waits in a thread.
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                yield batch
        finally:
            answering.cut()  # the end of a program waits for the thread, which would wait for the service


def changes(
    url: str,
    since: str | int = "now",
    *,
    tables: Iterable[str] = (),
    through: str | int | None = None,
    key_range: str | None = None,
    key_modulo: str | None = None,
    compression: str = "none",
    token: str | None = None,
    tls: Trust = None,
) -> _Changes:
    """Returns the changes after `since`, as an iterable and an async iterable of ChangeBatch.

    `since`: now, earliest, a checkpoint, an SCN or a GTID set. `through`: now, an SCN or a GTID set; without it the
    stream has no end. `key_range` and `key_modulo`: only these keys, as 100..200 and 4:1,3. `tls`: a file of
    certificates to trust, or a context. Iterating raises ChangesGone, ChangesInterrupted, or Definite if the service
    refuses.
    """
    parameters = {"format": "arrow", "since": str(since), "compression": compression}
    if named := ",".join(tables):
        parameters["tables"] = named
    more = {"through": through, "key_range": key_range, "key_modulo": key_modulo}
    parameters |= {name: str(value) for name, value in more.items() if value is not None}
    return _Changes(url, parameters, token, tls)


def _check_answer(answer: HTTPResponse) -> None:
    status = answer.status
    if status == HTTPStatus.OK:
        return
    try:
        said = json.loads(answer.read())["error"]
    except (ValueError, KeyError, TypeError):
        said = f"it answers {status}"
    if status == HTTPStatus.GONE:
        raise ChangesGone(said)
    if status in TRANSIENT_STATUSES:
        raise ChangesInterrupted(said)
    raise Definite(said)


class _Body(io.RawIOBase):
    """What an answer has, as it comes. It raises HTTPException where the answer breaks off.

    `HTTPResponse.peek` hides that: between two chunks an answer that broke off looks as one that has ended.
    """

    def __init__(self, answer: HTTPResponse) -> None:
        self._answer = answer

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._answer.read1(len(buffer))
        if not part and self._answer.length:  # it has a Content-Length: a proxy may hold answers back
            raise IncompleteRead(part, self._answer.length)
        buffer[: len(part)] = part
        return len(part)


def _batches(answer: HTTPResponse) -> Iterator[ChangeBatch]:
    """Returns the batches of all the IPC streams in an answer, through the one that says that it is complete.

    Raises HTTPException or ChangesInterrupted if there is none.
    """
    body = io.BufferedReader(_Body(answer))
    while body.peek(1):
        with pa.ipc.open_stream(pa.PythonFile(body, "r")) as reader:
            while True:
                try:
                    rows, metadata = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                told = {} if metadata is None else dict(metadata)
                if (error := told.get(_ERROR)) is not None:
                    raise ChangesInterrupted(error.decode())
                checkpoint = told.get(_CHECKPOINT)
                yield ChangeBatch(
                    rows,
                    None if checkpoint is None else checkpoint.decode(),
                    tuple(json.loads(told.get(_RESTARTED, b"[]"))),
                    json.loads(told.get(_STOPPED, b"{}")),
                )
                if _COMPLETE in told:
                    return
    raise ChangesInterrupted(
        "the answer ended before all changes had come: continue with the last checkpoint"
    )
