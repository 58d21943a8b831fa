"""Positions of a server without GTIDs: files and offsets of its log, as sets of the same algebra.

Such a transaction has no name except the position at which it begins, and that holds for one server and one log alone.
So its "GTID" is that position. Its source is the server's UUID under a tag of Tidemark's. Its number is the file's
number times 10¹¹ plus the offset, as 4200000001234 for `binlog.000042:1234`. These numbers are in the log's order, and
people can still read them.

A position is the set of all numbers that are complete. It has those of the transactions that have passed, and all
numbers between and before them at which no transaction begins. So it's one interval, from 1 to the reached position,
except for what was left out: a prepared XA transaction passes with its second phase. What the server has in its log is
one interval too. These sets answer the same questions as GTID sets: whether one contains the other, what it lacks, what
is to come.
"""

from typing import Final

from pipeline.errors import Definite
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import LARGEST_NUMBER, Gtid, GtidSet, Tsid

TAG: Final = "tidemark_binlog"

FIRST_OFFSET: Final = 4  # in any file, after the bytes that identify it

# The maximum size of a file. A file ends after the transaction with which it gets larger than 1 GiB, and a
# transaction's cache holds far less than the rest.
_OFFSETS: Final = 10**11


def transaction_at(server: str, coordinates: Coordinates) -> Gtid:
    """The transaction that begins at these coordinates in the log of the server with this UUID. Raises Definite."""
    return Gtid(Tsid(server, TAG), _number(coordinates))


def all_before(server: str, coordinates: Coordinates) -> GtidSet:
    """All that begins before these coordinates in the log of the server with this UUID. Raises Definite."""
    return GtidSet.of_range(Tsid(server, TAG), 1, _number(coordinates))


def all_between(first: Gtid, coordinates: Coordinates) -> GtidSet:
    """Returns everything that begins at or after that transaction and before these coordinates, which may be nothing.
    Raises Definite."""
    return GtidSet.of_range(first.source, first.number, _number(coordinates))


def server_of(position: GtidSet) -> str | None:
    """The UUID of the server whose log these are of; None for a set of GTIDs."""
    match tuple(position.intervals):
        case (Tsid(server, tag),) if tag == TAG:
            return server
        case _:
            return None


def are_comparable(gtids: GtidSet, position: GtidSet) -> bool:
    """Returns whether the set can be compared with the position. One of coordinates only can with its own server's."""
    server = server_of(position)
    return server is None or server_of(gtids) == server


def first_missing(position: GtidSet) -> Gtid:
    """Where the first transaction may begin that isn't in the position, which is one of coordinates."""
    [(source, numbers)] = position.intervals.items()
    return Gtid(source, int(numbers.edges[1]))


def file_and_offset(position: Gtid) -> tuple[int, int]:
    """The number of its file, and the offset in it."""
    return divmod(position.number, _OFFSETS)


def _number(coordinates: Coordinates) -> int:
    number = coordinates.number * _OFFSETS + coordinates.offset
    if coordinates.offset >= _OFFSETS or number > LARGEST_NUMBER:
        raise Definite(f"{coordinates} are beyond what can be counted; reset the log with RESET MASTER")
    return number
