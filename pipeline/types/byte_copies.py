"""Copies and loads of bytes in compiled loops, as the processor does them best.

A loop over single bytes takes a nanosecond for each, since the compiler has to assume that both arrays may overlap.

A loop that works on many columns at once knows them by the addresses of their memory, as integers. Whoever calls it
holds the memory, and answers for the places that are read.
"""

from collections.abc import Callable
from typing import Any, Final

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_UNALIGNED: Final = 1


def _copying(context: Any, out: Any, to: Any, data: Any, at: Any, size: Any) -> tuple[Any, Any]:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        _copy(context, builder, signature, arguments, builder.gep(origin.data, [arguments[3]]), arguments[4])
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


def _copying_from(context: Any, out: Any, to: Any, address: Any, size: Any) -> tuple[Any, Any]:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        origin = builder.inttoptr(arguments[2], cgutils.voidptr_t)
        _copy(context, builder, signature, arguments, origin, arguments[3])
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, types.int64), generate


def _copy(context: Any, builder: Any, signature: Any, arguments: Any, origin: Any, size: Any) -> None:
    """Copy from there to the first argument, at the place that the second one says."""
    target = context.make_array(signature.args[0])(context, builder, arguments[0])
    memcpy: Any = cgutils.raw_memcpy
    memcpy(builder, builder.gep(target.data, [arguments[1]]), origin, size, _UNALIGNED)


def _loading(kind: Any) -> Callable[..., tuple[Any, Any]]:
    def typed(context: Any, address: Any, index: Any) -> tuple[Any, Any]:  # noqa: ARG001
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            first = builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer())
            loaded = builder.load(builder.gep(first, [arguments[1]]), align=_UNALIGNED)
            return context.cast(builder, loaded, kind, types.int64)

        return types.int64(types.int64, types.int64), generate

    return typed


# In compiled code only:
# copy_bytes(out, to, data, at, size): copy data[at:at + size] to out[to:], which don't overlap.
copy_bytes: Any = intrinsic(_copying)
# copy_from(out, to, address, size): copy so many bytes of the memory at an address to out[to:].
copy_from: Any = intrinsic(_copying_from)
# load_int32(address, index), load_int64(address, index): the integer that has this number among those at an address.
load_int32: Any = intrinsic(_loading(types.int32))
load_int64: Any = intrinsic(_loading(types.int64))
