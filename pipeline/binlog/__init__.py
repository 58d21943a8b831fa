"""The binlog, from an event's bytes to slices of whole transactions in columns.

Reading order: `packets` takes the connection's bytes apart; `events` (with `codes`, `gtid_event`, `query_event`,
`tablemap_event`) says what an event says; `rows` finds the cells of row images, and `columns` makes Arrow of them (with
`stored`, `temporal`, `decimals`, `json`; the compiled loops are in `kernels`); `slice` gathers transactions, and `stream`
folds events into the messages that the rest of the pipeline lives on.
"""
