"""A journal's files through the service that writes it, for programs that reach the service and not the files.

The service gives a file's bytes and the names in a folder (`actors.http.journal_files`). Nothing can be written. The
token for reading is in the environment variable TIDEMARK_TOKEN, and so is with the machine's other secrets. A
certificate is checked with those that the machine trusts (SSL_CERT_FILE).
"""

import io
import json
import os
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import IO, Any, Final, NoReturn
from urllib.parse import urlencode

import pyarrow as pa
from pyarrow import fs

from actors.journal.service_connection import TRANSIENT_STATUSES, ask_service
from pipeline.errors import Definite, Transient
from pipeline.journal.consumer_names import CONSUMERS

TOKEN: Final = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable

# When to ask again (s), and for how long.
ASK_AGAIN_S: Final = 1.0
AGAIN_WITHIN_S: Final = 60.0

_ANSWERS_WITHIN_S: Final = 60.0


class ServedFiles:
    """The files of the journal of a service, at this address."""

    changes_late = False

    def __init__(self, service: str) -> None:
        self.shown = service.rstrip("/")
        self.filesystem = fs.PyFileSystem(_ServedFilesystem(self))

    def path(self, name: str) -> str:
        """The path of a file, which is its name."""
        return name

    def read(self, name: str) -> bytes:
        """All of a file. Raises FileNotFoundError."""
        if name.startswith(f"{CONSUMERS}/"):  # whoever reads a consumer's is about to write it
            self.refuse(name)
        content = b""
        while True:
            part, size = self.part(name, len(content), None)
            content += part
            if len(content) >= size:
                return content

    def part(self, name: str, start: int, end: int | None) -> tuple[bytes, int]:
        """Bytes of a file from `start` on, perhaps fewer than to `end`, and the file's size."""
        wanted = f"bytes={start}-{'' if end is None else end - 1}"
        status, headers, body = self._get("/journal/file", {"name": name}, {"Range": wanted})
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return b"", start
        return body, int(headers["Content-Range"].rpartition("/")[2])

    def listed(self, folder: str) -> list[str]:
        """The names in a folder. Those of segments are durable."""
        names: list[str] = json.loads(self._get("/journal/names", {"folder": folder}, {})[2])
        return names

    def make_durable(self, folder: str) -> None:
        """Does nothing: the service lists what is durable."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The service doesn't tell."""
        self.refuse(folder)

    def make(self, folders: Sequence[str]) -> None:
        """Nothing can be made."""
        self.refuse(*folders)

    def lock(self) -> IO[str] | None:
        """Nothing can be locked."""
        self.refuse()

    def put(self, name: str, content: bytes) -> None:
        """Nothing can be put."""
        self.refuse(name, content)

    def written(self, folder: str, name: str) -> AbstractContextManager[Any]:
        """Nothing can be written."""
        self.refuse(folder, name)

    def sync(self, folder: str, names: Sequence[str]) -> None:
        """Nothing can be written."""
        self.refuse(folder, names)

    def finish_folder(self, folder: str, names: frozenset[str]) -> None:
        """Nothing can be kept."""
        self.refuse(folder, names)

    def rename(self, name: str, other: str) -> None:
        """Nothing can be renamed."""
        self.refuse(name, other)

    def remove(self, name: str) -> None:
        """Nothing can be removed."""
        self.refuse(name)

    def remove_folder(self, folder: str) -> None:
        """Nothing can be removed."""
        self.refuse(folder)

    def reserve(self) -> bool:
        """There is nothing to reserve."""
        return True

    def release(self) -> None:
        """There is no reserve."""

    def refuse(self, *_: object) -> NoReturn:
        """Raises Definite: nothing can be written, and not all can be asked."""
        raise Definite(
            f"the journal of the service at {self.shown} can only be read through it; give journal.path, or the option "
            "journal of a stream with a consumer, the folder or the URI of the journal itself"
        )

    def _get(self, path: str, asked: dict[str, str], headers: dict[str, str]) -> tuple[int, Any, bytes]:
        """Returns an answer's status, headers and body. Raises OSError, Transient or Definite."""
        until = time.monotonic() + AGAIN_WITHIN_S
        while True:
            answer, body = self._ask(f"{path}?{urlencode(asked)}", headers)
            if answer.status not in TRANSIENT_STATUSES or time.monotonic() > until:
                break
            time.sleep(ASK_AGAIN_S)
        self._check(answer, body, asked)
        return answer.status, answer.headers, body

    def _ask(self, path: str, headers: dict[str, str]) -> tuple[HTTPResponse, bytes]:
        token = os.environ.get(TOKEN)
        try:
            return ask_service(self.shown, path, _ANSWERS_WITHIN_S, token, None, headers)
        except HTTPException as error:
            raise ConnectionError(f"the service at {self.shown} broke off ({error!r})") from error

    def _check(self, answer: HTTPResponse, body: bytes, asked: dict[str, str]) -> None:
        status = answer.status
        if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE):
            return
        if status == HTTPStatus.NOT_FOUND and "name" in asked:
            raise FileNotFoundError(f"{self.shown} has no file {asked['name']}")
        said = f"the service at {self.shown} answers {status}: {_error_of(body)}"
        if status in TRANSIENT_STATUSES:
            raise Transient(said)
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            said += f"; set {TOKEN} to the token for reading, in the driver and in the executors"
        raise Definite(said)


class _ServedFile(io.RawIOBase):
    """A file, a part of which is asked for at each reading."""

    def __init__(self, files: ServedFiles, name: str) -> None:
        super().__init__()
        self._files = files
        self._name = name
        self._at = 0
        self._size = files.part(name, 0, 1)[1]

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Returns the place."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the place."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = begin + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Returns so many bytes, unless the file ends."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        content = b""
        while self._at < end:
            part, _ = self._files.part(self._name, self._at, end)
            if not part:
                raise OSError(f"{self._files.shown} has less of {self._name} than before")
            content += part
            self._at += len(part)
        return content


class _ServedFilesystem(fs.FileSystemHandler):  # type: ignore[misc] # it has no types
    """What pyarrow needs to open such files."""

    def __init__(self, files: ServedFiles) -> None:
        self._files = files

    def get_type_name(self) -> str:
        """Returns its kind."""
        return "tidemark"

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Returns a file, of which any part can be read."""
        return pa.PythonFile(_ServedFile(self._files, path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """Returns a file."""
        return self.open_input_file(path)

    def normalize_path(self, path: str) -> str:
        """Returns it as it is."""
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """The service doesn't tell."""
        self._files.refuse(paths)

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = get_file_info
    delete_root_dir_contents = delete_file = move = copy_file = get_file_info
    open_output_stream = open_append_stream = get_file_info


def _error_of(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return "no error in JSON"
