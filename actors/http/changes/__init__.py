"""`/changes`: the journal's changes as a stream over HTTP, for readers that keep their own place."""
