"""`python -m actors` is the command `tidemark`."""

from actors.service.cli import main

main(prog_name="tidemark")
