"""Compares what the lake has with rows that verifications have read from the source."""
