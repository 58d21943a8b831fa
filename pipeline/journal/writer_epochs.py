"""Which of several writers' segments count: how one journal has one writer, even where nothing can be locked.

**Assumptions** about the storage:

1. A file appears completely or not at all (an atomic put).
2. A listing shows every file that existed before the listing began.

An object store guarantees that and no more: no lock, no rename, no "create if absent".

**The writer.** It *takes an epoch* before anything else: it puts a file whose name is greater than those of all epochs
that it sees. The name is a number, and a random token in case two take the same number. Then it lists the entries,
*begins* by putting a record of them, the past, and lists the epochs again. All files of a segment carry the epoch in
their name, so no writer ever replaces another one's. It publishes a segment by putting its entry. The entry *counts for
its writer* once a later listing of epochs shows none greater. If a greater epoch shows, the writer is fenced: it ends.

**The reader.** It lists the entries, then the epochs. The greatest epoch's record says which segments of which writers
are the past. Of the greatest epoch's own segments, all listed ones count. While that epoch has no record yet, only two
things are certain. One is the past of the last record. The other is what the epoch says: what counted for its writer
right before.

**A reader that follows** learns of a segment that has been sealed since it looked. It lists the epochs. If none is
greater than the one that it knows, the segment is of that epoch, and so are those before it that it hasn't seen.
Otherwise it looks again.

**No reader sees a segment that is later revoked.** A reader, or the writer itself, took entry E of epoch g as counting.
It saw E, and then no epoch greater than g. So each epoch h > g was put after E. The writer of h lists the entries after
putting its epoch. By 2 it finds E, and has it in its past. The same holds for g's record, which h is sure to know: g
acts on it only after a listing without h. So the past of each epoch contains everything that anyone took before. By
induction there is one sequence of segments, each with one writer.

**A put that has failed may still happen.** A store may carry a request out long after its writer has given up. Then the
entry, or a file that it names, replaces what the writer has meanwhile put under the same name. So a writer that
recovers in such a store takes another epoch. What appears late has the older epoch in its name. It is in the past of
the new epoch, or no reader takes it. A removal that happens late concerns names of the older epoch too. An epoch itself
may appear late. Each epoch of a process is greater than all that it has tried to put, and a process isn't fenced by its
own.

**A schema that is removed late.** Where that may be, the name of a schema's file has the segment and the epoch with
which it was put. So each file is put once. A writer removes a file when none of its segments from the oldest on needs
it. Then it counts on it no more, and puts another one if the version comes again. A writer that begins counts only on
the newest file of a version, and only if the last segment names the version. Assume that a writer before has tried to
remove this file. Then none of its segments needed it, from some segment up to its last one. The last segment of all
names the version, so it came later, or was that writer's and needed a newer file. Each such segment has put a newer
file first, or counted on one. That contradicts.

**The older writer is fenced, in any order of starts.** Of two epochs one is greater, and its writer never sees the
other as greater. A writer that is stopped and resumes later may still put an entry. No reader takes that entry: its
name has the old epoch, and the past of the newer epoch doesn't have it. The next thing that this writer does is to list
epochs.
"""

import bisect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import Definite

_SEGMENT = re.compile(r"([0-9]{12})-([0-9]{8}-[0-9a-f]{8})")
_EPOCH = re.compile(r"[0-9]{8}-[0-9a-f]{8}")


class EntryLost(Definite):
    """An entry that must be there isn't: restoring it is all that helps."""


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """What an epoch began with: whose journal it is, and `spans`, each epoch before it and its last segment.

    `journal`: a random id made with the journal, so that another one in its place is noticed. `spans` rise; those of
    epochs that nothing is left of may be missing at the front.
    """

    journal: str
    pipeline: str
    spans: tuple[tuple[str, int], ...] = ()

    @property
    def through(self) -> int:
        """The last segment of the past, 0 if there's none."""
        return self.spans[-1][1] if self.spans else 0


@dataclass(frozen=True, slots=True)
class JournalView:
    """All segments that count: those of the record, and `epoch`'s own from there through `last`."""

    epoch: str
    record: EpochRecord
    last: int

    def name(self, segment: int) -> str:
        """The name of a segment's folder and of its entry: names sort as the numbers do."""
        if segment > self.record.through:
            return entry_name(segment, self.epoch)
        spans = self.record.spans
        return entry_name(segment, spans[bisect.bisect_left(spans, segment, key=lambda span: span[1])][0])

    def succeeded(self, first: int) -> EpochRecord:
        """The record of the epoch that comes next, where nothing before segment `first` is wanted any more."""
        spans = (*self.record.spans, (self.epoch, self.last))
        risen = (span for before, span in zip((("", 0), *spans), spans, strict=False) if span[1] > before[1])
        left = tuple(span for span in risen if span[1] >= first) or spans[-1:]
        return EpochRecord(self.record.journal, self.record.pipeline, left)


def entry_name(segment: int, epoch: str) -> str:
    """What belongs to this segment of this epoch."""
    return f"{segment:012d}-{epoch}"


def segment_of(name: str) -> tuple[int, str] | None:
    """Returns the segment and the epoch in a name, None for any other name."""
    match = _SEGMENT.fullmatch(name)
    return match and (int(match[1]), match[2])


def is_epoch(name: str) -> bool:
    """Whether that's the name of an epoch."""
    return _EPOCH.fullmatch(name) is not None


def next_epoch(epochs: Iterable[str], token: str) -> str:
    """An epoch that's greater than all these; `token`: 8 random hexadecimal digits."""
    return f"{max((int(epoch.partition('-')[0]) for epoch in epochs), default=0) + 1:08d}-{token}"


def valid_segments(
    epoch: str, record: EpochRecord, listed: Iterable[tuple[int, str]], first: int
) -> JournalView:
    """Returns the segments that count once `epoch` is the greatest and has begun; `listed` are the entries.

    `first`: the segment from which the journal is complete, as read after that. Raises EntryLost for a gap after it.
    """
    own = {segment for segment, of in listed if of == epoch and segment > record.through}
    last = max(own, default=record.through)
    for segment in range(max(first, record.through + 1), last):
        if segment not in own:
            raise EntryLost(
                f"the entry {entry_name(segment, epoch)} is missing, and later ones are there: restore it from a "
                "copy of the journal"
            )
    return JournalView(epoch, record, last)


def to_json(record: EpochRecord) -> str:
    """The record as it's written; `from_json` is its inverse."""
    return json.dumps(
        {"journal": record.journal, "pipeline": record.pipeline, "spans": [list(s) for s in record.spans]}
    )


def from_json(text: str) -> EpochRecord:
    """The record that `to_json` wrote. Raises Definite for any other text."""
    try:
        value = json.loads(text)
        spans = tuple((str(epoch), int(through)) for epoch, through in value["spans"])
        record = EpochRecord(value["journal"], value["pipeline"], spans)
    except (ValueError, KeyError, TypeError) as error:
        raise Definite("it's damaged: restore it from a copy of the journal") from error
    if to_json(record) != text:
        raise Definite("it's damaged: restore it from a copy of the journal")
    return record
