"""The lake by its path alone: which tables it has, and how far they are."""
