"""Where numba keeps the machine code that looks at each index: checkouts of the same sources share it.

It takes half a minute to compile. numba's own folder for a module is named after its path, ours after its sources.
"""

from pathlib import Path
from typing import Final

from actors.service.jit_cache import UserProvided, stamp
from deploy.toolchain.cache import root

_DIGITS: Final = 16


class BySources(UserProvided):
    """In NUMBA_CACHE_DIR, which `environment` sets."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """A module's folder: two checkouts have the same one if its sources are the same."""
        module = Path(py_file)
        return f"{module.parent.name}-{module.stem}-{stamp(module).hex()[:_DIGITS]}"


def environment() -> dict[str, str]:
    """What a process needs in its environment. Its code needn't be the fastest, and is compiled in less time."""
    # Machine code in the usual places was compiled in the other way.
    return {
        "NUMBA_BOUNDSCHECK": "1",
        "NUMBA_OPT": "1",
        "NUMBA_CACHE_DIR": str(root() / "kernels-checked"),
        "NUMBA_CACHE_LOCATOR_CLASSES": f"{__name__}.{BySources.__name__}",
    }
