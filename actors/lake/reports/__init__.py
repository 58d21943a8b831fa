"""What the SparkSink reports: metrics, lines of the log, and its part of the status."""
