"""What touches the world, and thin.

The eight actors stand at the top of this folder. An actor's machine is `pipeline/<room>/state.py` and `step.py`, its
shell `actors/<actor>.py`, its adapters `actors/<room>/`:

    binlog_reader, schema_verifier        read the log (source/)
    watermark_coordinator                 one ordered stream
    chunk_selector                        reads chunks (snapshot/, source/)
    journal_writer                        makes it durable (journal/)
    spark_sink                            delivers it to Delta (lake/)
    kafka_sink                            delivers it to topics (kafka/)
    signal_listener                       takes signals (signals/)

`runtime/` is what each of them runs on, `status/` and `http/` what the service says of itself, and `service/` the
command line and the assembly.
"""

import os

# Said here, since numba reads it once, when it's first imported (see `actors.service.jit_cache`).
os.environ.setdefault(
    "NUMBA_CACHE_LOCATOR_CLASSES",
    ",".join(f"actors.service.jit_cache.{locator}" for locator in ("UserProvided", "InTree", "UserWide")),
)

# Arrow reads that once as well (see `actors.runtime.malloc`).
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
