"""Mirrors: which tables have one, and how changes get into it."""
