"""A lake table, by either way to it: Delta's own classes in this process's JVM, or SQL over Spark Connect."""
