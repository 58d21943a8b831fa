"""`make demo`: a busy MySQL server is captured into Delta tables, killed half-way, and proven equal at the end."""
