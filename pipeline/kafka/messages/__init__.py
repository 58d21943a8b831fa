"""Messages as Kafka's records: partitions, headers, and the bytes of record batches."""
