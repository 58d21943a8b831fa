"""The build cache: what a checkout has computed from its sources, for another checkout that would compute the same.

    python -m deploy.toolchain.build_cache take      before: copies it into the checkout, where that has none
    python -m deploy.toolchain.build_cache keep      afterwards: copies what the checkout has

That is the decoder's machine code, which takes a minute to compile, and what mypy knows of the sources, which takes it
another one. Both tools see for each file whether it fits: numba's files name the sources that they were made of and the
processor (`actors.service.jit_cache`), mypy's the digest of each source. So what doesn't fit is computed again.

Each is one archive, which appears whole. If no archive is of a checkout's sources, it takes the newest one, since most
files still fit. Of the machine code it takes those alone: numba removes none, and each archive would have more of them.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from deploy.toolchain import virtualenv
from deploy.toolchain.cache import REPOSITORY, digest, root

# Archives of other sources, of which so many stay: some branches.
_STAY: Final = 4


@dataclass(frozen=True, slots=True)
class _Kind:
    """What one tool computes: the files that hold it, and the folders of the sources that it is made of."""

    files: str
    sources: tuple[str, ...]


_INDEX: Final = ".nbi"
_CODE: Final = re.compile(r"\.\d+\.nbc$")

_ALL: Final = ("actors", "bench", "deploy", "docs", "pipeline", "tests", "tidemark")
_KINDS: Final = {
    "kernels": _Kind("pipeline/**/__pycache__/*.nb[ic]", ("pipeline",)),
    "types": _Kind(".mypy_cache/**/*", _ALL),
}


def take(checkout: Path) -> list[str]:
    """Copy into a checkout what it has no file of. Return which kinds came."""
    came = []
    for kind in _KINDS:
        own = _archive(kind, checkout)
        archive = own if own.exists() else next(reversed(_archives(kind)), own)
        if not archive.exists() or any(_files(kind, checkout)):
            continue
        with ZipFile(archive) as kept:
            all_fit = archive == own or kind != "kernels"
            fitting = kept.namelist() if all_fit else list(_fitting(kept, checkout))
            kept.extractall(checkout, fitting)
        came += [kind] if fitting else []
    return came


def keep(checkout: Path) -> None:
    """Keep what a checkout has, for others with the same sources."""
    for kind in _KINDS:
        archive, files = _archive(kind, checkout), sorted(_files(kind, checkout))
        if archive.exists() or not files:
            continue
        archive.parent.mkdir(parents=True, exist_ok=True)
        written = archive.with_suffix(f".{digest(str(checkout))}")
        with ZipFile(written, "w") as kept:
            for file in files:
                kept.write(file, file.relative_to(checkout))
        written.rename(archive)
        for old in _archives(kind)[:-_STAY]:
            old.unlink(missing_ok=True)


def _files(kind: str, checkout: Path) -> Iterator[Path]:
    return (file for file in checkout.glob(_KINDS[kind].files) if file.is_file())


def _fitting(kept: ZipFile, checkout: Path) -> Iterator[str]:
    """Return the files of the kernels that are made of the checkout's sources.

    Of each kernel there is an index, which names them, and one file for each of its signatures.
    """
    from actors.service.jit_cache import stamp

    names = kept.namelist()
    for index in (name for name in names if name.endswith(_INDEX)):
        kernel = Path(index)
        source = checkout / kernel.parents[1] / f"{kernel.name.partition('.')[0]}.py"
        if source.exists() and stamp(source) in kept.read(index):
            yield index
            yield from (name for name in names if _CODE.sub(_INDEX, name) == index)


def _archives(kind: str) -> list[Path]:
    """Return all of a kind, the newest one last."""
    return sorted(_folder().glob(f"{kind}-*.zip"), key=lambda each: each.stat().st_mtime)


def _folder() -> Path:
    return root() / "builds"


def _archive(kind: str, checkout: Path) -> Path:
    """Return where the archive lies, there or not: it depends on the sources and on the packages."""
    folders = (checkout / folder for folder in _KINDS[kind].sources)
    sources = [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py"))]
    return _folder() / f"{kind}-{digest(virtualenv.folder().name, *sources)}.zip"


if __name__ == "__main__":
    {"take": take, "keep": keep}[sys.argv[1]](REPOSITORY)
