"""The binlog, from the connection's bytes to slices of whole transactions in columns.

`packets` and `event_buffer` take the bytes apart. `events/` says what an event says. `rows/` finds the cells of row
images and makes Arrow of them, `rows/json/` the documents among them. `fast_path/` has the compiled loops over the
usual events. `transaction_assembler` makes transactions out of events, `slice` gathers them, and `stream` gives the
messages that the rest of the pipeline lives on.
"""
