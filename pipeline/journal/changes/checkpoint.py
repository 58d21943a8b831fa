"""A reader's checkpoint: what it has read of the journal's changes, as a text that it keeps."""

from dataclasses import dataclass

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid


class MalformedCheckpoint(Definite):
    """A text is no checkpoint."""


@dataclass(frozen=True, slots=True)
class ChangesCheckpoint:
    """All before `segment` of the journal with this id has been read, and of the segment all SCNs through `scn`.

    `scn` is 0 if nothing of the segment was read. `without`: transactions that the reader had before it began, and
    that may still come.
    """

    journal: str
    segment: int
    scn: int = 0
    without: GtidSet | None = None

    def __str__(self) -> str:
        """Returns its text; `parse_checkpoint` is the inverse."""
        more = f".{self.without.on_one_line}" if self.without else ""
        return f"{self.journal}.{self.segment}.{self.scn}{more}"


def parse_checkpoint(text: str) -> ChangesCheckpoint:
    """Returns the checkpoint. Raises MalformedCheckpoint."""
    journal, _, rest = text.partition(".")
    segment, _, rest = rest.partition(".")
    scn, _, without = rest.partition(".")
    if not (journal and is_long(segment) and int(segment) and is_long(scn)):
        raise MalformedCheckpoint(
            f"{text!r} is no checkpoint; give one as the stream of changes has it, as 3f5c0a.12.345"
        )
    try:
        return ChangesCheckpoint(journal, int(segment), int(scn), GtidSet.parse(without) or None)
    except MalformedGtid as error:
        raise MalformedCheckpoint(f"{text!r} is no checkpoint: {error}") from error


def is_long(text: str) -> bool:
    """Returns whether a text is a whole number from 0 on that has room in 64 bits, with a sign."""
    # Python reads no number of thousands of digits.
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 1 << 63
