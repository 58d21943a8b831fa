"""Secrets in separate files, which may change while the service runs.

A password may change in the file first or at the server first. So the file is read again for each connection.
"""

from pathlib import Path, PurePath

from pipeline.config.settings import Secret


def read_secret(file: PurePath) -> Secret:
    """Returns the secret that a file holds, without the end of its line. Raises OSError."""
    text = Path(file).read_text(encoding="utf-8")
    return Secret(text.removesuffix("\n").removesuffix("\r"), file)


def current_secret(secret: Secret) -> str:
    """Returns the secret as its file has it now, or its value if it has no file. Raises OSError."""
    return secret.value if secret.file is None else read_secret(secret.file).value
