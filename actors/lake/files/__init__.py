"""Files that belong to lake tables: how they come there, and what is looked up in them."""
