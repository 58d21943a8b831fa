"""The SparkSink's machine, the lake's tables, and the live view."""
