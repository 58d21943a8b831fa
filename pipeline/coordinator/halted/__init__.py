"""What is read while the stream stands still: consistent snapshots, and tables without a primary key."""
