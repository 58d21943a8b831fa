"""What goes wrong with the log's bytes."""

from pipeline.errors import Definite


class UndecodableError(Definite):
    """Bytes of the log that are not what they have to be, or a kind of them that Tidemark doesn't read."""
