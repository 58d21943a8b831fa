"""The thin shells that touch the world.

The eight actors are at the top of this folder. An actor's machine is `pipeline/<room>/state.py` and `step.py`, its
shell `actors/<actor>.py`, its adapters `actors/<room>/`:

    binlog_reader, schema_verifier        read the log (source/)
    watermark_coordinator                 one ordered stream
    chunk_selector                        reads chunks (snapshot/, source/)
    journal_writer                        makes it durable (journal/)
    spark_sink                            delivers it to Delta (lake/)
    kafka_sink                            delivers it to topics (kafka/)
    signal_listener                       takes signals (signals/)

All of them run on `runtime/`. `status/` and `http/` report on the service. `service/` has the command line and the
assembly.
"""

import os

# Said here, since numba reads it once, when it's first imported (see `actors.service.jit_cache`).
os.environ.setdefault(
    "NUMBA_CACHE_LOCATOR_CLASSES",
    ",".join(f"actors.service.jit_cache.{locator}" for locator in ("UserProvided", "InTree", "UserWide")),
)

# Arrow reads that once as well (see `actors.runtime.malloc`).
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
