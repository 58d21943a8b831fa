"""How far a stream has read: the offsets that Spark keeps in its checkpoint.

An offset is a segment of one journal. A transaction is in one segment, so a micro-batch has only whole ones. An offset
depends on two options of the stream. One is `through`, if it left out a part of the segment. By another `through` the
stream would lack that part, so it is refused. The other is `from`, with which the stream began, until the stream has
passed that place. So a later `from` leaves out nothing.

Spark keeps where a micro-batch ends, and takes the end of the batch before for its beginning. The first one has none
before, so Spark asks where a new stream begins: once for the end, once more for the rows, and again after a failure. By
then `latest` may be elsewhere, or `from` another one. So each offset also has the beginning of its own micro-batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.journal.changes.retained_range import RetainedRange


class WrongOffset(Definite):
    """The checkpoint's offset isn't one of this journal."""


class SegmentsGone(Definite):
    """The journal doesn't have segments any more that the stream has still to read."""


@dataclass(frozen=True, slots=True)
class MicroBatchBegin:
    """A micro-batch begins after this segment; `begins` as a `SegmentOffset` has it there."""

    segment: int
    begins: int | GtidSet | None = None


@dataclass(frozen=True, slots=True)
class SegmentOffset:
    """Everything of the journal with this id has been read, through this segment.

    `through`: the option by which it was read, if that left out a part. `begins`: the place with which the stream
    began, an SCN or a GTID set, while later segments may have rows of before it. `batch`: where the micro-batch begins
    that ends here; a new stream's offset is its own beginning. Older offsets have none of these.
    """

    journal: str
    segment: int
    through: str | None = None
    begins: int | GtidSet | None = None
    batch: MicroBatchBegin | None = None

    @property
    def is_new(self) -> bool:
        """Whether the stream has read nothing before this offset."""
        return self.batch is not None and self.batch.segment == self.segment


def new_stream(journal: str, after: int, begins: int | GtidSet | None) -> SegmentOffset:
    """Returns the offset of a stream that has read nothing, and begins after a segment."""
    return SegmentOffset(journal, after, begins=begins, batch=MicroBatchBegin(after, begins))


def micro_batch_begin(start: SegmentOffset, end: SegmentOffset) -> SegmentOffset:
    """Returns where the micro-batch begins that ends with `end`. `start`: where Spark says that it does.

    Raises WrongOffset if an older `end` doesn't have it, and it can't be `start`.
    """
    if start == end:
        return start
    if end.batch is not None:
        return replace(start, segment=end.batch.segment, begins=end.batch.begins)
    # By an option of latest, a new stream would begin where the micro-batch ends, or later: it would be empty.
    nothing = start.segment > end.segment or (start.is_new and start.segment == end.segment)
    if start.journal == end.journal and nothing:
        raise WrongOffset(
            f"the first micro-batch ends with segment {end.segment} and isn't completed. By the option from it would "
            f"begin after segment {start.segment} now, and a checkpoint of an earlier version doesn't say where it "
            "began. Start it with the from that it had. If that was latest, give it a new checkpoint: the stream has "
            "completed nothing so far"
        )
    return start


def to_json(offset: SegmentOffset) -> dict[str, int | str]:
    """Returns the offset as Spark keeps it; `from_json` is the inverse."""
    value: dict[str, int | str] = {"journal": offset.journal, "segment": offset.segment}
    if offset.through is not None:
        value["through"] = offset.through
    if offset.begins is not None:
        value["from"] = place_text(offset.begins)
    if offset.batch is not None:
        value["batchAfter"] = offset.batch.segment
        if offset.batch.begins is not None:
            value["batchFrom"] = place_text(offset.batch.begins)
    return value


def from_json(value: Mapping[str, object]) -> SegmentOffset:
    """Returns the offset. Raises WrongOffset if the checkpoint isn't of this data source."""
    match value:
        case {"journal": str(journal), "segment": int(segment)} if segment >= 0:
            through, after = value.get("through"), value.get("batchAfter")
            if isinstance(through, str | None) and isinstance(after, int | None):
                begins, batch_begins = _place(value, "from"), _place(value, "batchFrom")
                batch = None if after is None else MicroBatchBegin(after, batch_begins)
                return SegmentOffset(journal, segment, through, begins, batch)
    raise _foreign(value)


def _foreign(value: Mapping[str, object]) -> WrongOffset:
    return WrongOffset(
        f"the checkpoint's offset is {dict(value)}, which Tidemark doesn't write: give the stream a checkpoint of its "
        "own"
    )


def place_text(place: int | GtidSet) -> str:
    """Returns an SCN or a GTID set as an option gives it."""
    return place.on_one_line if isinstance(place, GtidSet) else str(place)


def _place(value: Mapping[str, object], name: str) -> int | GtidSet | None:
    match value.get(name):
        case None:
            return None
        case str(text):
            try:
                return int(text) if text.isdecimal() else GtidSet.parse(text)
            except MalformedGtid as error:
                raise _foreign(value) from error
        case _:
            raise _foreign(value)


def check_offset(offset: SegmentOffset, there: RetainedRange) -> int:
    """Returns the segment after which the stream continues. Raises WrongOffset, or SegmentsGone."""
    if offset.journal != there.id:
        raise WrongOffset(
            f"the checkpoint is of the journal {offset.journal}, and {there.shown} holds the journal {there.id}; give "
            "the stream the journal that it has read, or a new checkpoint"
        )
    if offset.segment > there.last:
        raise WrongOffset(
            f"the stream has read through segment {offset.segment}, and the last one in {there.shown} is {there.last}: "
            "an older copy of the journal was restored; give the stream a new checkpoint"
        )
    check_retained(offset.segment + 1, there)
    return offset.segment


def check_nothing_left_out(offset: SegmentOffset, through: str | None) -> None:
    """Raises WrongOffset if a stream with this option lacks what another one has left out."""
    if offset.through in (None, through):
        return
    first = str(int(offset.through) + 1) if offset.through.isdecimal() else offset.through
    raise WrongOffset(
        f"the stream has read segment {offset.segment} with through = {offset.through}, and lacks the rest of it. "
        "Start it with that option until it has ended. Then read on with a new checkpoint and "
        f'.option("from", "{first}")'
    )


def check_retained(needed: int, there: RetainedRange) -> None:
    """Raises SegmentsGone if the stream needs earlier segments than there are."""
    if needed < there.first:
        raise segments_gone(needed, there)


def segments_gone(needed: int, there: RetainedRange) -> SegmentsGone:
    """Returns the error of a stream that needs the segments from this one on, before those that there are."""
    return SegmentsGone(
        f"the stream needs the segments from {needed} on, and the journal in {there.shown} begins with {there.first}, "
        "since retention has removed earlier ones. Read what is missing from the lake's changelog, WHERE __segment >= "
        f'{needed} AND __segment < {there.first}. Then give the stream a new checkpoint and .option("from", '
        f'"{there.scn}"). The option consumer has the journal keep segments for a stream.'
    )
