"""What must be true: pure and synchronous.

Nothing in this folder does I/O, knows asyncio, reads a clock, draws a random number or logs. numpy, pyarrow and
numba are welcome, since they only compute. `actors` imports this folder, never the reverse (a test holds that).

Reading order, which is the order a row takes: `binlog/` (bytes to columns), `schema` (columns get names),
`window` and `coordinator` (where a chunk's rows give way to changes), `journal` (the durable order), `mirror`
(the lake's tables). `messages` says what crosses from one actor to the next, and `topology` along which edges.
"""
