"""How snapshots begin and end: one table's with its mirror, a stopped table's after it, and which are remembered."""
