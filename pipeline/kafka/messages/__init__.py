"""Messages in columns, and as Kafka's records: partitions, headers, and the bytes of record batches."""
