"""Spark's scheduler pools: the jobs of batches and those beside them share the cores fairly.

Source: Spark's manual, "Job Scheduling: Fair Scheduler Pools".
"""

from enum import StrEnum


class Pool(StrEnum):
    """Whose jobs they are: those of batches (Spark's own name for jobs without a pool), or those beside the batches."""

    BATCHES = "default"
    BESIDE = "beside"
