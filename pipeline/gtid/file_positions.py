"""Positions of a server without GTIDs: places in its log, as sets of the same algebra.

Such a transaction has no name but the place at which it begins, and that holds for one server and one log alone. So its
"GTID" is that place: its source is the server's UUID under a tag of ours, and its number is the file's number times
10¹¹ and the offset, as 4200000001234 for `binlog.000042:1234`: in the log's order, and still to be read by people.

A position is the set of all numbers of which nothing is to come any more: with those of the transactions that have
passed, all those between and before them at which no transaction begins. So it's one interval, from 1 to the place
that has been reached, but for what was left out: an XA transaction that's prepared passes with its second phase. What
the server has in its log is one interval as well; and all that's asked of GTID sets is asked of these: whether one
contains the other, what it lacks, what is to come.
"""

from typing import Final

from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import LARGEST_NUMBER, Gtid, GtidSet, Tsid

TAG: Final = "tidemark_binlog"

FIRST_OFFSET: Final = 4  # in any file, behind the bytes that say what it is

# So many bytes a file may have: it ends behind the transaction with which it gets larger than 1 GiB, and what fits into
# a transaction's cache is far less than the rest.
_OFFSETS: Final = 10**11


def name(server: str, place: Coordinates) -> Gtid:
    """The transaction that begins at this place in the log of the server with this UUID. Raises Definite."""
    return Gtid(Tsid(server, TAG), _number(place))


def before(server: str, place: Coordinates) -> GtidSet:
    """All that begins before this place in the log of the server with this UUID. Raises Definite."""
    return GtidSet.of_range(Tsid(server, TAG), 1, _number(place))


def between(first: Gtid, place: Coordinates) -> GtidSet:
    """All that begins before this place, from that transaction on; none if it begins behind it. Raises Definite."""
    return GtidSet.of_range(first.source, first.number, _number(place))


def server_of(position: GtidSet) -> str | None:
    """The UUID of the server whose places these are; None for a set of GTIDs."""
    match tuple(position.intervals):
        case (Tsid(server, tag),) if tag == TAG:
            return server
        case _:
            return None


def first_missing(position: GtidSet) -> Gtid:
    """Where the first transaction may begin that isn't in the position, which is one of places."""
    [(source, numbers)] = position.intervals.items()
    return Gtid(source, int(numbers.edges[1]))


def file_and_offset(place: Gtid) -> tuple[int, int]:
    """The number of its file, and the offset in it."""
    return divmod(place.number, _OFFSETS)


def _number(place: Coordinates) -> int:
    number = place.number * _OFFSETS + place.offset
    if place.offset >= _OFFSETS or number > LARGEST_NUMBER:
        raise Definite(f"{place} is beyond the places that can be counted; reset the log with RESET MASTER")
    return number
