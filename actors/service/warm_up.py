"""Loads the service's code, and logs it if that takes long because the decoder is being compiled.

`python -m actors.service.warm_up` only does that, so that the machine code is there before a first start.

numba compiles its kernels when their modules are imported, and keeps the machine code on disk. So that happens once
after an install or an update. Later each kernel is loaded when it is first called.

All imported objects stay. So the garbage collector skips them during the start (a third of its processor time) and ever
after. It also runs more rarely than by default: it looks at the state of all tables, and capture stands still meanwhile
(docs/performance-notes.md has both times).

Source: numba's developer manual, "Event API": `numba:compile` is an event of the compiler alone, not of its cache.
"""

import gc
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from numba.core import event

_COMPILE: Final = "numba:compile"

# The garbage collector runs after so many new objects, in place of 700.
_NEW_OBJECTS: Final = 10_000

Tell = Callable[[str], object]

log = structlog.get_logger()


class _FirstTold(event.Listener):
    """Logs once that something has to be compiled."""

    def __init__(self, tell: Tell) -> None:
        self.tell = tell
        self.told = False

    def on_start(self, _: event.Event) -> None:
        if not self.told:
            self.tell("compiling the decoder, which takes a while once after an install")
        self.told = True

    def on_end(self, _: event.Event) -> None:
        pass


def import_all() -> None:
    """Import what the service is made of."""
    gc.disable()
    try:
        with log_compilation(log.info):
            importlib.import_module("actors.service.assembly")
    finally:
        gc.enable()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)


@contextmanager
def log_compilation(tell: Tell) -> Iterator[None]:
    """Logs that something has to be compiled meanwhile, if so, and how long it took in the end."""
    begun = time.monotonic()
    with event.install_listener(_COMPILE, _FirstTold(tell)) as listener:
        yield
    if listener.told:
        tell(f"compiled the decoder in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    import_all()
