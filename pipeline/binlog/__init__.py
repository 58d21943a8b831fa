"""The binlog, from the connection's bytes to slices of whole transactions in columns.

Reading order: `packets` takes the bytes apart; `events` (with `codes`, `gtid_event`, `query_event` and
`tablemap_event`) says what an event says; `rows` finds the cells of row images, and `columns` makes Arrow of them
(with `stored`, `temporal`, `decimals` and `json`; the compiled loops are in `kernels`); `slice` gathers transactions,
and `stream` folds events into the messages that the rest of the pipeline lives on.
"""
