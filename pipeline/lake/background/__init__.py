"""What Spark does beside the batches: which work is due, whose turn it is, and how it ended."""
