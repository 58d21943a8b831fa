"""The HTTP server, its API, and the page."""
