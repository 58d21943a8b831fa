"""How far a stream has read: the offsets that Spark keeps in its checkpoint.

An offset is a segment of one journal. A transaction is in one segment, so a micro-batch has only whole ones. An offset
depends on two options of the stream. One is `through`, if it left out a part of the segment. By another `through` the
stream would lack that part, so it is refused. The other is `from`, with which the stream began, until the stream has
passed that place. So a later `from` leaves out nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid
from pipeline.journal.changes.retained_range import RetainedRange


class WrongOffset(Definite):
    """The checkpoint's offset isn't one of this journal."""


class SegmentsGone(Definite):
    """The journal doesn't have segments any more that the stream has still to read."""


@dataclass(frozen=True, slots=True)
class SegmentOffset:
    """Everything of the journal with this id has been read, through this segment.

    `through`: the option by which it was read, if that left out a part. `begins`: the place with which the stream
    began, an SCN or a GTID set, while later segments may have rows of before it. Older offsets have none.
    """

    journal: str
    segment: int
    through: str | None = None
    begins: int | GtidSet | None = None


def to_json(offset: SegmentOffset) -> dict[str, int | str]:
    """Returns the offset as Spark keeps it; `from_json` is the inverse."""
    cut = {} if offset.through is None else {"through": offset.through}
    begun = {} if offset.begins is None else {"from": place_text(offset.begins)}
    return {"journal": offset.journal, "segment": offset.segment, **cut, **begun}


def from_json(value: Mapping[str, object]) -> SegmentOffset:
    """Returns the offset. Raises WrongOffset if the checkpoint isn't of this data source."""
    through, begins = value.get("through"), value.get("from")
    match value:
        case {"journal": str(journal), "segment": int(segment)} if (
            segment >= 0 and isinstance(through, str | None) and isinstance(begins, str | None)
        ):
            try:
                return SegmentOffset(journal, segment, through, _place(begins))
            except MalformedGtid as error:
                raise _foreign(value) from error
        case _:
            raise _foreign(value)


def _foreign(value: Mapping[str, object]) -> WrongOffset:
    return WrongOffset(
        f"the checkpoint's offset is {dict(value)}, which Tidemark doesn't write: give the stream a checkpoint of its "
        "own"
    )


def place_text(place: int | GtidSet) -> str:
    """Returns an SCN or a GTID set as an option gives it."""
    return place.on_one_line if isinstance(place, GtidSet) else str(place)


def _place(text: str | None) -> int | GtidSet | None:
    if text is None:
        return None
    return int(text) if text.isdecimal() else GtidSet.parse(text)


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
    if needed >= there.first:
        return
    raise SegmentsGone(
        f"the stream needs the segments from {needed} on, and the journal in {there.shown} begins with {there.first}, "
        "since retention has removed earlier ones. Read what is missing from the lake's changelog, WHERE __segment >= "
        f'{needed} AND __segment < {there.first}. Then give the stream a new checkpoint and .option("from", '
        f'"{there.scn}"). The option consumer has the journal keep segments for a stream.'
    )
