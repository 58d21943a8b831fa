"""The SchemaVerifier's machine: columns get their names, and only proven ones."""
