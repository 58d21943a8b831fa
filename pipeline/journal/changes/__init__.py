"""The changes in the journal from a place on, for readers that keep their own place."""
