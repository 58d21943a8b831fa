"""The channels by which signals come."""
