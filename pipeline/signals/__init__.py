"""Signals, their outcomes, and notifications."""
