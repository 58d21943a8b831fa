"""What must be true: pure and synchronous.

Nothing in this folder does I/O, knows asyncio, reads a clock, draws a random number or logs. numpy, pyarrow and
numba are welcome, since they only compute. `actors` imports this folder, never the reverse (a test holds that).

The rooms, from the bottom up. A room imports only rooms that stand above it in this list:

    types        MySQL's column types, character sets, Arrow arrays, compiled kernels over bytes and values
    gtid         GTID sets, file positions, coordinates, transactions
    schema       tables, their columns and keys; ddl/ reads what a statement does to them
    config       settings, their validation, the import of Debezium's properties
    source       statements, result sets, information_schema, prerequisites, throttle, failover
    snapshot     the state of snapshots, the checkpoint, watermarks, chunk queries
    signals      signals, their outcomes, notifications
    messages     what crosses from one actor to the next, one module an edge; the edges themselves (topology)
    binlog       the log's bytes to columns, in slices of whole transactions
    verifier     the SchemaVerifier's machine
    coordinator  the WatermarkCoordinator's machine; window has the rule and its proof
    journal      the JournalWriter's machine; the manifest, the segments, retention
    lake         the SparkSink's machine; the lake's tables, the live view, merge
    kafka        the KafkaSink's machine; Debezium's messages of the rows in the journal

A machine is `state` and `step` in its room. Its shell is the actor of the same name in `actors`.
"""
