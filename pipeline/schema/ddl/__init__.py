"""What a DDL statement does to tables, as far as its text says."""
