"""Secrets in separate files, which may change while the service runs.

A password may change in the file first or at the server first. So the file is read again for each connection.
"""

import os
import secrets
from errno import EILSEQ, ENOENT
from pathlib import Path, PurePath

from actors.runtime.filesystem import put_file
from pipeline.config.http_access import is_token
from pipeline.config.settings import Secret


def read_secret(file: PurePath) -> Secret:
    """Returns the secret that a file holds, without the end of its line. Raises OSError, also if it's no UTF-8."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:  # whose own words have a byte of it
        raise OSError(EILSEQ, "it isn't UTF-8", str(file)) from None
    return Secret(text.removesuffix("\n").removesuffix("\r"), file)


def current_secret(secret: Secret) -> str:
    """Returns the secret as its file has it now, or its value if it has no file. Raises OSError."""
    return secret.value if secret.file is None else read_secret(secret.file).value


def changed_at(file: PurePath | None) -> tuple[int, ...] | None:
    """Returns what differs once a file has other content; None without a file."""
    try:
        found = os.stat(file) if file is not None else None  # noqa: PTH116 - a PurePath can't be asked
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_ino, found.st_size)


def ensure_token(file: Path) -> Secret:
    """Returns the token of a file that only its owner may read; makes one if there's none. Raises OSError.

    The file appears whole. A file that is no token, such as an empty one after a power cut, is replaced.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if not _has_token(file):
        put_file(file, secrets.token_hex(32).encode() + b"\n", 0o600)
    return read_secret(file)


def _has_token(file: Path) -> bool:
    try:
        return is_token(read_secret(file).value)
    except OSError as error:
        if error.errno not in (ENOENT, EILSEQ):
            raise
        return False
