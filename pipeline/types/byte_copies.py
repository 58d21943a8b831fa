"""Copies of bytes in compiled loops, as the processor does them best.

A loop over single bytes takes a nanosecond for each, since the compiler has to assume that both arrays may overlap.
"""

from typing import Any, Final

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_UNALIGNED: Final = 1


def _copying(context: Any, out: Any, to: Any, data: Any, at: Any, size: Any) -> tuple[Any, Any]:  # noqa: ARG001
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, arguments[0])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        memcpy: Any = cgutils.raw_memcpy
        memcpy(
            builder,
            builder.gep(target.data, [arguments[1]]),
            builder.gep(origin.data, [arguments[3]]),
            arguments[4],
            _UNALIGNED,
        )
        return context.get_dummy_value()

    return types.void(out, types.int64, data, types.int64, types.int64), generate


# copy_bytes(out, to, data, at, size), in compiled code only: copy data[at:at + size] to out[to:], which don't overlap.
copy_bytes: Any = intrinsic(_copying)
