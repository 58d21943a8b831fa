"""What touches the world: one file an actor, all of one shape, each driving a pure module of `pipeline`."""

import os

# Said here, since numba reads it once, when it's first imported (see `actors.machine_code`).
os.environ.setdefault(
    "NUMBA_CACHE_LOCATOR_CLASSES",
    ",".join(f"actors.machine_code.{locator}" for locator in ("UserProvided", "InTree", "UserWide")),
)

# Arrow reads that once as well (see `actors.heap`).
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
