"""Connections to the source server, and what is read over them."""
