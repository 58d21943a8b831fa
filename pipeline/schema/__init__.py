"""Tables, their columns and keys."""
