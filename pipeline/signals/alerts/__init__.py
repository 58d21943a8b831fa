"""Alerts to a webhook: what has stopped, and when the webhook gets it."""
