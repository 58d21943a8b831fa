"""Threads of this process and of Spark's driver: whose turn comes first, who waits for whom, and what advances."""
