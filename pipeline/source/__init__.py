"""Queries to the source server, the decoding of its answers, and the requirements on it."""
