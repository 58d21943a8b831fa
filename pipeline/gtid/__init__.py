"""Positions in the history of a server: GTID sets, file positions, and transactions."""
