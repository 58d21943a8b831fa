"""The binlog, from an event's bytes to slices of whole transactions in columns.

Reading order: `events` (with `gtid_event`, `query_event`, `tablemap_event`) says what an event says, `rows` puts row
images into Arrow, and `stream` folds events into the messages that the rest of the pipeline lives on.
"""
