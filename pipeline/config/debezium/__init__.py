"""A Debezium connector's configuration and offset, taken over as ours."""
