"""Which of several writers' segments count: how one journal has one writer, also where nothing can be locked.

All that's asked of the place is that a file appears whole (an atomic put), and that a listing shows every file that
was there before it began. An object store gives that and no more: no lock, no rename, no "create if absent".

A writer *claims* the journal before anything else: it puts a file whose name is greater than those of all claims
that it sees (a number, and a random token where two take the same one). Then it lists what there is, *begins* by
putting a record of it, the past, and lists the claims again. All files of a segment carry the claim in their name, so
that no writer ever replaces another one's. A segment is published by putting its entry, and *counts for its writer*
once a listing of claims after that shows none greater. Wherever a greater claim shows, the writer is fenced: it ends.

What a reader takes, it takes in this order: it lists the entries, then the claims. The greatest claim's record says
which segments of whom are the past; of its own, all count that were listed. While that claim has no record yet, only
the past that the last record tells is certain.

**Nobody sees what's taken back.** Say that a reader, or the writer itself, took entry E of claim g as counting. It saw
E, and then no claim greater than g. So each claim h > g was put after E was, and h lists the entries after putting its
claim: it finds E, and has it in its past. The same goes for g's record, of which h is sure to know: g acts by it only
after a listing without h. So the past of each claim contains all that anybody took before, and by induction there is
one sequence of segments, each with one writer.

**The older one is fenced, whatever order they start in.** Of two claims one is greater, and its writer never sees the
other one as such. A writer that is stopped and awakes later may still put an entry; it can't be mistaken, since its
name has the old claim, and the past of the newer one doesn't have it. The next thing that it does is to list claims.
"""

import bisect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import Definite

_SEGMENT = re.compile(r"([0-9]{12})-([0-9]{8}-[0-9a-f]{8})")
_CLAIM = re.compile(r"[0-9]{8}-[0-9a-f]{8}")


class Lost(Definite):
    """An entry that must be there isn't: restoring it is all that helps."""


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """What a claim began with: whose journal it is, and `spans`, each claim before it and its last segment.

    `journal`: a random id made with the journal, so that another one in its place is noticed. `spans` rise; those of
    claims that nothing is left of may be missing at the front.
    """

    journal: str
    pipeline: str
    spans: tuple[tuple[str, int], ...] = ()

    @property
    def through(self) -> int:
        """The last segment of the past, 0 if there's none."""
        return self.spans[-1][1] if self.spans else 0


@dataclass(frozen=True, slots=True)
class View:
    """All segments that count: those of the record, and `claim`'s own from there through `last`."""

    claim: str
    record: EpochRecord
    last: int

    def name(self, segment: int) -> str:
        """The name of a segment's folder and of its entry: names sort as the numbers do."""
        if segment > self.record.through:
            return entry_name(segment, self.claim)
        spans = self.record.spans
        return entry_name(segment, spans[bisect.bisect_left(spans, segment, key=lambda span: span[1])][0])

    def succeeded(self, first: int) -> EpochRecord:
        """The record of the claim that comes next, where nothing before segment `first` is wanted any more."""
        spans = (*self.record.spans, (self.claim, self.last))
        risen = (span for before, span in zip((("", 0), *spans), spans, strict=False) if span[1] > before[1])
        left = tuple(span for span in risen if span[1] >= first) or spans[-1:]
        return EpochRecord(self.record.journal, self.record.pipeline, left)


def entry_name(segment: int, claim: str) -> str:
    """What belongs to this segment of this claim."""
    return f"{segment:012d}-{claim}"


def segment_of(name: str) -> tuple[int, str] | None:
    """The segment and the claim that a name stands for, None for any other name."""
    match = _SEGMENT.fullmatch(name)
    return match and (int(match[1]), match[2])


def is_claim(name: str) -> bool:
    """Whether that's the name of a claim."""
    return _CLAIM.fullmatch(name) is not None


def next_claim(claims: Iterable[str], token: str) -> str:
    """A claim that's greater than all these; `token`: 8 random hexadecimal digits."""
    return f"{max((int(claim.partition('-')[0]) for claim in claims), default=0) + 1:08d}-{token}"


def view(claim: str, record: EpochRecord, listed: Iterable[tuple[int, str]], first: int) -> View:
    """What counts once `claim` is the greatest, and has begun; `listed` are the entries.

    `first`: the segment that the journal is whole from, as it was found after that. Raises Lost for a gap behind it.
    """
    own = {segment for segment, of in listed if of == claim and segment > record.through}
    last = max(own, default=record.through)
    for segment in range(max(first, record.through + 1), last):
        if segment not in own:
            raise Lost(
                f"the entry {entry_name(segment, claim)} is missing, and later ones are there: restore it from a "
                "copy of the journal"
            )
    return View(claim, record, last)


def to_json(record: EpochRecord) -> str:
    """The record as it's written; `from_json` is its inverse."""
    return json.dumps(
        {"journal": record.journal, "pipeline": record.pipeline, "spans": [list(s) for s in record.spans]}
    )


def from_json(text: str) -> EpochRecord:
    """The record that `to_json` wrote. Raises Definite for any other text."""
    try:
        value = json.loads(text)
        spans = tuple((str(claim), int(through)) for claim, through in value["spans"])
        record = EpochRecord(value["journal"], value["pipeline"], spans)
    except (ValueError, KeyError, TypeError) as error:
        raise Definite("it's damaged: restore it from a copy of the journal") from error
    if to_json(record) != text:
        raise Definite("it's damaged: restore it from a copy of the journal")
    return record
