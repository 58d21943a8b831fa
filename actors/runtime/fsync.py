"""What makes a local disk keep what was written, and how it says that it has no room."""

import errno
import os
from typing import Final

# Errors by which a filesystem, or the quota of its user, says that it's full.
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def sync(path: str | os.PathLike[str]) -> None:
    """Make a file's content, or the names in a directory, durable (POSIX `fsync`)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
