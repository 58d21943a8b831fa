"""The configuration: settings, their validation, and the import of Debezium's properties."""
