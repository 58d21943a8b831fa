"""Where a pipeline keeps data of this machine only: in the journal's folder, if that's on a local disk.

If the journal is in an object store, it's a folder of the user's own state (XDG Base Directory Specification).
"""

import os
from pathlib import Path
from urllib.parse import urlsplit


def local_folder(location: str, pipeline: str) -> Path:
    """The folder that belongs to the journal at this path or URI."""
    if "://" not in location:
        return Path(location)
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(parts.path)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "tidemark" / pipeline
