"""The Spark that the lake is written with: one of this process's own on a Java, or a session by Spark Connect."""
