"""How loops over bytes are compiled: when they are imported, for these types, and for the next process as well."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from numba import njit

_OPTIONS: Final[dict[str, Any]] = {"cache": True, "nogil": True, "_nrt": False}

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(signature: str, *, inlined: bool = False) -> Callable[[_Function], _Function]:
    """A decorator that compiles a function with this signature, which is Numba's, and keeps the code on disk.

    The function runs without the GIL and makes no arrays. That is why it needs no counting of references to them: they
    are the caller's as long as it runs. (Counted, each array in each call of a loop costs two atomic additions: half of
    the time of some.) `inlined` where it's called for each value.
    """

    def decorate(function: _Function) -> _Function:
        loop: Any = njit(signature, **_OPTIONS, forceinline=inlined)(function)
        return cast("_Function", loop)

    return decorate
