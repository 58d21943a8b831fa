"""Spark's data source `tidemark`: a driver plans the journal's files, and executors read them."""
