"""`python -m actors` is the command `tidemark`."""

from actors.cli import main

main(prog_name="tidemark")
