"""The changes in the journal from a place on, for consumers that keep their own place."""
