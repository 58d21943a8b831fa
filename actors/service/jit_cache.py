"""Decides when numba's cached machine code is out of date.

numba checks a kernel's own file alone. But a kernel's cached code also contains the kernels that it calls and the
constants that it names, and they come from other modules. After an update it would keep their old code, and decode
wrongly. So here a kernel's source is its module and all of ours that this one imports, directly or not. numba decides
where to keep the code.

`actors` has numba use these classes, by the environment, before anything imports it.

Source: numba's reference manual, "Environment variables: NUMBA_CACHE_LOCATOR_CLASSES".
"""

import hashlib
import re
from functools import cache
from pathlib import Path

from numba.core.caching import InTreeCacheLocator, UserProvidedCacheLocator, UserWideCacheLocator

_ROOT = Path(__file__).resolve().parents[2]

# Imported names matter as well, since they may be modules; there can be brackets around them.
_IMPORT = re.compile(r"^\s*(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w.]+))", re.MULTILINE)


class _WithImports:
    """The changed part of each of numba's locators."""

    _py_file: str

    def get_source_stamp(self) -> bytes:
        return stamp(Path(self._py_file))


class UserProvided(_WithImports, UserProvidedCacheLocator):
    """In the folder that NUMBA_CACHE_DIR names, if it does; where that's only readable, what was put there before."""

    def ensure_cache_path(self) -> None:
        """Raises OSError where the folder is of no use."""
        try:
            super().ensure_cache_path()  # type: ignore[no-untyped-call]  # numba has few types
        except OSError:
            folder = self.get_cache_path()  # type: ignore[no-untyped-call]
            if not any(Path(folder).glob(f"{Path(self._py_file).stem}.*")):
                raise


class InTree(_WithImports, InTreeCacheLocator):
    """Beside the module, if that can be written."""


class UserWide(_WithImports, UserWideCacheLocator):
    """In the user's cache folder."""


@cache
def stamp(module: Path) -> bytes:
    """A digest of the module's source and of all of ours that it imports."""
    whole = hashlib.sha256()
    for file in sorted(_reachable(module)):
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.digest()


def _reachable(module: Path) -> set[Path]:
    reached: set[Path] = set()
    waiting = {module}
    while waiting:
        file = waiting.pop()
        reached.add(file)
        waiting |= _imports(file) - reached
    return reached


@cache
def _imports(module: Path) -> frozenset[Path]:
    """The files of our modules that are imported anywhere in this one."""
    found = set()
    for package, names, plain in _IMPORT.findall(module.read_text(encoding="utf-8")):
        parts = re.findall(r"\w+", names)
        found |= {package or plain, *(f"{package}.{part}" for part in parts)}
    files = (_ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in found)
    return frozenset(file for file in files if file.exists())
