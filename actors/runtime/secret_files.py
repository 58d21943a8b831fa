"""Secrets in separate files, which may change while the service runs.

A password may change in the file first or at the server first. So the file is read again for each connection.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path, PurePath

from pipeline.config.settings import Secret


def read_secret(file: PurePath) -> Secret:
    """Returns the secret that a file holds, without the end of its line. Raises OSError."""
    text = Path(file).read_text(encoding="utf-8")
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


def made_secret(file: Path) -> Secret:
    """Returns the secret of a file that only its owner may read; makes one if there's none. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as made:
            made.write(secrets.token_hex(32) + "\n")
    return read_secret(file)
