"""The cache: where parts lie, and how one appears there all at once."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class ToolchainError(Exception):
    """A part can't be had; the message says which, why, and what to do."""


def root() -> Path:
    """Return the cache's folder: `$TIDEMARK_CACHE`, else `tidemark` in the user's cache folder (XDG)."""
    if chosen := os.environ.get("TIDEMARK_CACHE"):
        return Path(chosen).expanduser().resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().resolve() / "tidemark"


def say(text: str) -> None:
    """Print one line of progress."""
    print(f"toolchain: {text}", file=sys.stderr, flush=True)


def digest(*parts: str | bytes) -> str:
    """Return a short name for what `parts` say together: 12 hex digits of their SHA-256."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part.encode() if isinstance(part, str) else part).digest())
    return whole.hexdigest()[:12]


def megabytes(path: Path) -> str:
    """Return the size of a file or of a folder's files, for a progress line."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if not file.is_symlink()]
    return f"{sum(file.stat().st_size for file in files if file.is_file()) / 1e6:.0f} MB"


def run(command: Sequence[str | Path], cwd: Path | None = None, given: str = "") -> str:
    """Run a program to its end, with `given` to read, and return its standard output.

    Raises `ToolchainError` with the program's last words if it isn't there or fails.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, cwd=cwd, text=True, capture_output=True, check=True, input=given)
    except FileNotFoundError as missing:
        raise ToolchainError(f"{words[0]} is needed and isn't on this machine") from missing
    except subprocess.CalledProcessError as failed:
        said = (failed.stdout + failed.stderr).splitlines()[-15:]
        raise ToolchainError("\n  ".join([f"{words[0]} failed ({failed.returncode}):", *said])) from failed
    return done.stdout


def follow(command: Sequence[str | Path]) -> Iterator[str]:
    """Run a program and yield each line that it says, errors too; raises as `run` does if it fails."""
    words = [str(word) for word in command]
    last: deque[str] = deque(maxlen=15)
    with subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as program:
        for line in program.stdout or ():
            last.append(line.rstrip())
            yield line.strip()
    if program.returncode:
        raise ToolchainError("\n  ".join([f"{words[0]} failed ({program.returncode}):", *last]))


@contextmanager
def locked() -> Iterator[None]:
    """Hold the cache for one process; another one waits here until the first is through."""
    root().mkdir(parents=True, exist_ok=True)
    with (root() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another setup is at work in this cache; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_complete(folder: Path) -> bool:
    """Tell whether a part is there and whole."""
    return (folder / "complete").exists()


def ensure(what: str, folder: Path, build: Callable[[], None]) -> None:
    """Have `build` fill the empty `folder`, unless the part is there and whole already.

    The caller holds `locked()`, so an incomplete folder was left by a run that was cut off, and is removed. A
    part is built where it will stay (an environment's scripts name their interpreter by its path); the marker
    that says that it's whole is written last.
    """
    if is_complete(folder):
        return
    begun = time.monotonic()
    say(f"{what}: fetching")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build()
    (folder / "complete").touch()
    say(f"{what}: ready, {megabytes(folder)} in {time.monotonic() - begun:.0f} s")
