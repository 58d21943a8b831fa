"""The JournalWriter's machine: the durable order."""
