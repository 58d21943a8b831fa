"""Where a pipeline keeps data of this machine only: in the journal's folder, if that's on a local disk.

If the journal is in an object store, it's a folder of the user's own state (XDG Base Directory Specification).
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

from actors.runtime.filesystem import DISK_FULL
from pipeline.errors import Definite


def local_folder(location: str, pipeline: str) -> Path:
    """The folder that belongs to the journal at this path or URI."""
    if "://" not in location:
        return Path(location)
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(parts.path)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "tidemark" / pipeline


def unwritable_file(file: Path, error: OSError) -> Definite:
    """Returns an error that says why a file of such a folder can't be written, and what to do."""
    full = error.errno in DISK_FULL
    remedy = "make room on its filesystem" if full else "let the service's user write into its folder"
    return Definite(f"{file} can't be written ({error.strerror or error}); {remedy}")
