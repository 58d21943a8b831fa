"""Debezium's messages, made of a changes file's rows in columns: envelopes, events, blocks and their schemas."""
