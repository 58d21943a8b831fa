"""Debezium's messages, made in columns from a changes file's rows: envelopes, events, blocks and their schemas."""
