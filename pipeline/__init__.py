"""What must be true: pure and synchronous.

Nothing in this folder does I/O, knows asyncio, reads a clock, draws a random number or logs. numpy, pyarrow and
numba are welcome, since they only compute. `actors` imports this folder, never the reverse (a test holds that).

Reading order, which is the order a row takes:

    binlog/             the log's bytes to columns, in slices of whole transactions
    schema_verifier     columns get their names, and only proven ones (schema, types, tablemap, labels)
    ddl, unlogged       what statements do to tables, as far as their text tells (lexemes, identifiers)
    chunks, resultset   the other way that rows come: a chunk's SELECT, and its packets to columns
    watermark, window   where a chunk's rows give way to changes, with the proof
    coordinator         one ordered stream out of both (coordinator_state, schedule, requests; snapshot, checkpoint)
    journal, manifest   the durable order
    delivery, tiers     what goes to the lake next, and which tables it has there (lake_tables, lake_changes)
    live_view, merge    what a reader sees of both, and how changes get into a mirror; maintenance keeps it small

`messages` says what crosses from one actor to the next, and `topology` along which edges. GTIDs and their sets are
in `gtid`; what the configuration may say in `settings`, and what the source has to be in `prerequisites`.
"""
