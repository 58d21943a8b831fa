"""How loops over bytes are compiled: when they are imported, for these types, and for the next process as well."""

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from numba import njit, types
from numba.core import config
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.typeinfer import register_dispatcher

# The types of arrays that come from Arrow, which compiled code may not write to.
READ_BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
READ_ENDS: Final = types.Array(types.int32, 1, "C", readonly=True)
READ_LONGS: Final = types.Array(types.int64, 1, "C", readonly=True)
READ_FLAGS: Final = types.Array(types.boolean, 1, "C", readonly=True)

_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False}

# Whether each index is checked (NUMBA_BOUNDSCHECK). Numba's settings have no types.
CHECKS_INDEXES: Final = bool(cast("Any", config).BOUNDSCHECK)

_Function = TypeVar("_Function", bound=Callable[..., object])


class _NotLoaded(CPUDispatcher):
    """A function whose code is on disk only. It's loaded when the function is called, or compiled into another one.

    Then this is a `CPUDispatcher` as any other one, so that later calls cost nothing more.
    """

    def __call__(self, *args: Any) -> Any:
        self._load()
        return self(*args)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Numba asks for this where a function that it compiles calls this one."""
        self._load()
        return self.get_call_template(args, kws)

    def _load(self) -> None:
        loop: Any = self
        with global_compiler_lock:
            if type(self) is _NotLoaded:  # else another thread was first
                _compile(loop, loop.signature)
                loop.__class__ = CPUDispatcher


def compiled(signature: object, *, inlined: bool = False) -> Callable[[_Function], _Function]:
    """A decorator that compiles a function with this signature, which is Numba's, and keeps the code on disk.

    A signature is a text, or made of Numba's types where a text can't say it.

    What is on disk already is loaded with the first call: most processes need a few of all functions, and each takes
    some 8 ms. What isn't is compiled now, since that takes too long for a call. A process that checks each index
    (NUMBA_BOUNDSCHECK) is no service, and compiles with the first call.

    The function runs without the GIL and makes no arrays. That is why it needs no counting of references to them: they
    are the caller's as long as it runs. (Counted, each array in each call of a loop costs two atomic additions: half of
    the time of some.) `inlined` where it's called for each value.
    """

    def decorate(function: _Function) -> _Function:
        loop: Any = njit(cache=True, **_OPTIONS, forceinline=inlined)(function)
        if loop is function:  # Numba is turned off
            return function
        if CHECKS_INDEXES or _is_on_disk(loop, signature):
            loop.__class__ = _NotLoaded
            loop.signature = signature
        else:
            _compile(loop, signature)
        return cast("_Function", loop)

    return decorate


def _is_on_disk(loop: Any, signature: object) -> bool:
    """Whether Numba's cache has the function's code, and of this source."""
    cache = loop._cache  # noqa: SLF001 - Numba has no other name for it
    key = cache._index_key(signature, loop.targetctx.codegen())  # noqa: SLF001
    return cache._cache_file.load(key) is not None  # noqa: SLF001


def _compile(loop: Any, signature: object) -> None:
    """Compile it, or take what is on disk; no other signature will do from now on."""
    with register_dispatcher(loop):
        loop.compile(signature)
    loop.disable_compile()


def inlined(function: _Function) -> _Function:
    """Let a function be compiled into the loops that call it, for the types that they give it.

    It has no code of its own that a start would have to load.
    """
    loop: Any = njit(**_OPTIONS)(function)
    return cast("_Function", loop)
