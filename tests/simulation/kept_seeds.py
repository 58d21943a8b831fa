"""Seeds that once broke a promise, each with what was wrong: they are run for ever.

What a seed does changes with the model. So the rule that was missing is, where that can be done, a planted bug too.
"""

KEPT = {
    38: "a plan that was older than the stream took a table for empty: its rows were in no range",
    163: "a table that was found empty was complete while the stream was still before its last deletes",
    57: "an account of ranges outlived the primary key that they were ranges of",
    608: "a blocking snapshot waited for a table that stood still for it",
    36: "a plan that found a table empty completed a snapshot that had been asked for later",
    66: "a truncated table whose snapshot still waited got a mirror with what it had held before",
    64: "changes from before the first snapshot were told apart by another primary key",
    1226: "a schema waited for a transaction that was purged and never came",
    85: "a chunk waited for a statement to pass while the stream was paused for it",
    7641: "what began anew behind a purged log, where a mirror had begun, was the same generation, of another key",
    22663: "a consistent snapshot began anew for ever for a table that had stopped",
    38106: "a mirror was laid out by the schema of before a statement, and its key was proven within a transaction",
    186: "a stream that had been paused for want of room waited for chunks that it didn't stand for",
    204: "a mirror that began anew where it had begun was one generation, and stopped at its new primary key",
    4102: "the changes of a table that had been renamed away were left out, though the checkpoint had its columns",
    5263: "a snapshot along another index completed a generation that another signal had begun in its middle",
}
