"""`/changes`: the journal's changes as a stream over HTTP, for consumers that keep their own place."""
