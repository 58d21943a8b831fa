"""Threads of this process and of Spark's driver: whose turn comes first, and who waits for whom."""
