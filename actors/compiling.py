"""Says what's going on when a start takes long: the decoder's kernels are being compiled.

numba compiles them as their modules are imported, and keeps the machine code on disk. So that happens once after an
install or an update, and a later start loads what's there.

Source: numba's developer manual, "Event API": `numba:compile` is an event of the compiler alone, not of its cache.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from numba.core import event

_COMPILE: Final = "numba:compile"

log = structlog.get_logger()


class _FirstTold(event.Listener):
    """Logs that something has to be compiled, once."""

    def __init__(self) -> None:
        self.told = False

    def on_start(self, _: event.Event) -> None:
        if not self.told:
            log.info("compiling the decoder, which takes a while once after an install")
        self.told = True

    def on_end(self, _: event.Event) -> None:
        pass


@contextmanager
def told() -> Iterator[None]:
    """Log it if something has to be compiled meanwhile, and how long it took in the end."""
    begun = time.monotonic()
    with event.install_listener(_COMPILE, _FirstTold()) as listener:
        yield
    if listener.told:
        log.info("compiled the decoder", seconds=round(time.monotonic() - begun, 1))
