"""Databus' relay protocol: sources, checkpoints, and events of the rows in the journal."""
