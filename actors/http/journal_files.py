"""The journal's files for programs that can't reach them: names in folders, and parts of files.

Spark's data source reads a journal so, by the address of its service (`actors.journal.served_files`). A sealed segment
never changes, so nothing has to be kept of who reads. A part has at most `MOST_ANSWER_BYTES`. Whoever reads
changes may read these files: they have the same rows.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from actors.http.answer_memory import MADE_AT_ONCE, AnswerMemory
from actors.http.changes.readers import ChangesReaders
from actors.http.connections import while_client_waits
from actors.http.error_answers import Handler, error_answer, refusing
from actors.journal.files import journal_errors
from actors.journal.writer_epochs import EPOCHS, FIRST, MANIFEST
from pipeline.journal.request_parameters import MalformedRequest, check_names

# The most that an answer has (bytes).
MOST_ANSWER_BYTES: Final = 4 << 20

_LISTED: Final = frozenset({EPOCHS, FIRST, MANIFEST, "schemas"})
_READ: Final = _LISTED | {"segments"}
# segments/NUMBER/FILE
_DEEPEST: Final = 3


class JournalFiles:
    """The files of the journal of those who read changes."""

    def __init__(self, readers: ChangesReaders, memory: AnswerMemory) -> None:
        self._readers = readers
        self._memory = memory
        self._few = asyncio.Semaphore(MADE_AT_ONCE)
        self._files = readers.tap.files

    def handlers(self) -> dict[str, Handler]:
        """Returns what answers each route."""
        return {"journal_names": refusing(self._names), "journal_file": refusing(self._file)}

    async def _names(self, request: web.Request) -> web.Response:
        folder = _only(request.query, "folder")
        if folder not in _LISTED:
            raise MalformedRequest(f"folder: {folder!r} is none of {', '.join(sorted(_LISTED))}")
        return web.json_response(await self._readers.tap.work(lambda: self._listed(folder)))

    def _listed(self, folder: str) -> list[str]:
        files = self._files()
        with journal_errors(files.shown):
            # A reader must not get ahead of what survives a crash.
            files.make_durable(folder)
            return sorted(files.listed(folder))

    async def _file(self, request: web.Request) -> web.Response:
        name = _only(request.query, "name")
        _check_name(name)
        try:
            wanted = request.http_range
        except ValueError:
            return error_answer(416, "Range: give bytes=0-99 or bytes=100-")
        start, end = wanted.start or 0, wanted.stop
        if start < 0:
            return error_answer(416, "Range: give the first byte's number")
        with self._readers.admit():
            part = await while_client_waits(request, self._made(name, start, end))
        if part is None:
            return error_answer(404, f"name: the journal has no file {name}")
        content, size = part
        if not content:
            return error_answer(
                416, f"Range: the file has {size} bytes", {"Content-Range": f"bytes */{size}"}
            )
        headers = {"Content-Range": f"bytes {start}-{start + len(content) - 1}/{size}"}
        answer = web.Response(
            body=content, status=206, headers=headers, content_type="application/octet-stream"
        )
        self._memory.check_room(answer)
        self._readers.measure_bytes("file", len(content))
        return answer

    async def _made(self, name: str, start: int, end: int | None) -> tuple[bytes, int] | None:
        """Returns a part of a file, and the file's size; None if there is no such file."""
        async with self._memory.making(self._few):
            return await self._readers.tap.work(lambda: self._part(name, start, end))

    def _part(self, name: str, start: int, end: int | None) -> tuple[bytes, int] | None:
        files = self._files()
        with journal_errors(files.shown):
            try:
                with files.filesystem.open_input_file(files.path(name)) as file:
                    size: int = file.size()
                    most = min(size, start + MOST_ANSWER_BYTES, size if end is None else end)
                    return (file.read_at(most - start, start) if start < most else b""), size
            except FileNotFoundError:
                return None


def _only(parameters: Mapping[str, str], name: str) -> str:
    """Returns the only parameter. Raises MalformedRequest."""
    check_names(parameters, name)
    if not parameters.get(name):
        raise MalformedRequest(f"{name}: it is missing")
    return parameters[name]


def _check_name(name: str) -> None:
    """Raises MalformedRequest unless it is a name of a file within the journal."""
    parts = name.split("/")
    hidden = any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts)
    if hidden or not 2 <= len(parts) <= _DEEPEST or parts[0] not in _READ:
        raise MalformedRequest(f"name: {name!r} is no file of a journal")
