"""Verifications, as the coordinator has them: which can be compared, and how what they find is repaired."""
