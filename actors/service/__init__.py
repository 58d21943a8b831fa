"""The command line, the configuration file, and the assembly of the parts."""
