"""SCNs as Databus' clients have them: 53 bits, of which the high ones stand for the journal.

The journal counts its transactions from 1. Another journal counts others under the same numbers, and a checkpoint of
Databus has nothing but a number. So at Databus' paths alone each SCN has the journal's generation in its high bits. It
follows from the journal's id. Within a journal, and so over failovers of the source, the order stays. A generation is
never 0. So an SCN of the journal's own, as other paths and earlier versions of Tidemark have it, is told apart.

JSON carries these SCNs. Many clients read its numbers as doubles, which have 53 bits. They would round a larger SCN,
and skip a window or repeat one. The few bits for the generation have a price. One journal of 4095 has the generation of
a given other one, and doesn't refuse its SCNs.
"""

import hashlib
from dataclasses import replace
from typing import Final

from pipeline.journal.changes.place import PlaceGone
from pipeline.journal.request_parameters import MalformedRequest
from pipeline.kafka.databus.stream_query import WindowPlace

# How many bits count a journal's transactions: ten thousand a second for almost 7 years, or a thousand for 69 years.
_COUNTING: Final = 41
_GENERATIONS: Final = (1 << (53 - _COUNTING)) - 1


class ForeignWindow(PlaceGone):
    """A client's SCN is of another journal."""


def first_window(journal: str) -> int:
    """Returns the SCN of the window before all transactions of the journal with this id."""
    digest = hashlib.sha256(journal.encode()).digest()
    return (1 + int.from_bytes(digest[:8]) % _GENERATIONS) << _COUNTING


def own_scn(scn: int, journal: str) -> int:
    """Returns an SCN as the journal with this id counts; one that it counts itself as it is. Raises ForeignWindow."""
    begin = first_window(journal)
    if scn >> _COUNTING not in (0, begin >> _COUNTING):
        raise ForeignWindow(
            f"the SCN {scn} is of another journal, and this one has those from {begin} on; read the lake and continue "
            "as GET /bootstrap says"
        )
    return scn & ((1 << _COUNTING) - 1)


def own_place(place: WindowPlace, journal: str) -> WindowPlace:
    """Returns a client's place with the SCNs of the journal with this id. Raises ForeignWindow and MalformedRequest."""
    if not isinstance(place.since, int):
        return place
    window = place.first or place.since
    scn = own_scn(window, journal)
    if place.first and not scn:
        raise MalformedRequest(f"checkPoint: the window {window} has no events, so windowOffset has to be -1")
    return replace(place, since=place.since - window + scn, first=scn if place.first else 0)
