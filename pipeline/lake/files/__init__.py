"""What the sink does to a file of the journal that becomes a file of a lake table: names, types and forms."""
