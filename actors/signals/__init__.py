"""The channels of signals."""
