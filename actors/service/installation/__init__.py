"""What comes before a first run: a look at the source, and a configuration file for it."""
