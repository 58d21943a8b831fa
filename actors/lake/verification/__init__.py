"""Compares what verifications have read with the live view, and keeps the results."""
