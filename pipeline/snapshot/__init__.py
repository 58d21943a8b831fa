"""Snapshots: their state, watermarks, chunk queries, and the checkpoint that a restart resumes from."""
