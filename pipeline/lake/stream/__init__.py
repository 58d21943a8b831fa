"""Spark's data source `tidemark`: its options, its offsets, which files of which segments it reads, and as what."""
