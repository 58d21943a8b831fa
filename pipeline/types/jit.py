"""How loops over bytes are compiled: when they are imported, for these types, and for the next process as well."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from numba import njit, types

# The types of arrays that come from Arrow, which compiled code may not write to.
READ_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
READ_ENDS: Final = types.Array(types.int32, 1, "C", readonly=True)
READ_LONGS: Final = types.Array(types.int64, 1, "C", readonly=True)
READ_FLAGS: Final = types.Array(types.boolean, 1, "C", readonly=True)

_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False}

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(signature: object, *, inlined: bool = False) -> Callable[[_Function], _Function]:
    """A decorator that compiles a function with this signature, which is Numba's, and keeps the code on disk.

    A signature is a text, or made of Numba's types where a text can't say it.

    The function runs without the GIL and makes no arrays. That is why it needs no counting of references to them: they
    are the caller's as long as it runs. (Counted, each array in each call of a loop costs two atomic additions: half of
    the time of some.) `inlined` where it's called for each value.
    """

    def decorate(function: _Function) -> _Function:
        loop: Any = njit(signature, cache=True, **_OPTIONS, forceinline=inlined)(function)
        return cast("_Function", loop)

    return decorate


def inlined(function: _Function) -> _Function:
    """Let a function be compiled into the loops of the same file that call it, for the types that they give it.

    It has no code of its own that a start would have to load.
    """
    loop: Any = njit(**_OPTIONS)(function)
    return cast("_Function", loop)
