"""The page's own files, which come with the package: no build, and nothing from elsewhere."""

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

PAGE: Final = "index.html"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file's bytes, and what they are."""

    body: bytes
    content_type: str


def load_files() -> dict[str, StaticFile]:
    """All files by name."""
    return {
        entry.name: StaticFile(entry.read_bytes(), _TYPES[kind])
        for entry in (files("actors.http") / "page").iterdir()
        if (kind := entry.name.rpartition(".")[2]) in _TYPES
    }
