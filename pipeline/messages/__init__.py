"""Everything that crosses from one actor to another, and the edges that it crosses."""
