"""The pure, synchronous core.

No code in this folder does I/O, knows asyncio, reads a clock, draws a random number or logs. It may use numpy, pyarrow
and numba, because they only compute. `actors` imports this folder, never the reverse (a test ensures that).

The rooms, from the bottom up. A room imports only rooms above it in this list:

    types        MySQL's column types, character sets, Arrow arrays, compiled kernels over bytes and values
    gtid         GTID sets, file positions, coordinates, transactions
    schema       tables, their columns and keys; ddl/ reads what a statement does to them
    config       settings, their validation, the import of Debezium's properties
    source       statements, result sets, information_schema, prerequisites, throttle, failover
    snapshot     the state of snapshots, the checkpoint, watermarks, chunk queries
    signals      signals, their outcomes, notifications
    messages     the messages between actors, one module for each edge; the edges themselves (topology)
    binlog       the log's bytes to columns, in slices of complete transactions
    verifier     the SchemaVerifier's machine
    coordinator  the WatermarkCoordinator's machine; window has the rule and its proof
    journal      the JournalWriter's machine; the manifest, the segments, retention
    lake         the SparkSink's machine; the lake's tables, the live view, merge
    kafka        the KafkaSink's machine; Debezium's messages of the rows in the journal

A machine is `state` and `step` in its room. Its shell is the actor of the same name in `actors`.
"""
