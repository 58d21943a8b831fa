"""Compiled loops over the usual events."""
