"""The binlog, from the connection's bytes to slices of complete transactions in columns.

`packets` and `event_buffer` take the bytes apart. `events/` parses events. `rows/` finds the cells of row images and
makes Arrow of them, `rows/json/` of the documents among them. `fast_path/` has the compiled loops over the usual
events. `transaction_assembler` makes transactions from events, `slice` gathers them, and `stream` returns the messages
for the rest of the pipeline.
"""
