"""Where a Debezium connector stopped, as Kafka Connect keeps it.

Three forms are read. One is what `GET /connectors/NAME/offsets` answers. The second is the records of Connect's offset
topic as the console consumer prints them: key, tab, value. The last one of a key counts. The third is the file of a
FileOffsetBackingStore, in which the same keys and values lie between Java's own bytes.

The GTID set of an offset holds the transactions that the connector has finished. Of the one that it had under way it
may have sent some changes, which come once more.

Source: Debezium 3.6, `MySqlOffsetContext`; Kafka Connect, KIP-875.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pipeline.errors import Definite
from pipeline.gtid.gtid_set import GtidSet, MalformedGtid

_REMEDY: Final = "let the connector run until it streams with GTIDs, and stop it then"

# An offset has fields of an incremental snapshot as long as one is under way.
_INCREMENTAL: Final = "incremental_snapshot_"


class NoOffset(Definite):
    """The connector's offset isn't there, or none to continue from; the text says why."""


def stopped_at(content: bytes, server: str) -> GtidSet:
    """What the connector with this `topic.prefix` has finished. Raises NoOffset."""
    offsets = [offset for partition, offset in _offsets(content) if partition.get("server") == server]
    if not offsets or offsets[-1] is None:
        raise NoOffset(f"there is no offset of a connector with topic.prefix {server}")
    offset = offsets[-1]
    if offset.get("snapshot") not in (None, False, "false"):
        raise NoOffset(f"the connector's first snapshot hasn't ended; {_REMEDY}")
    if any(name.startswith(_INCREMENTAL) and value for name, value in offset.items()):
        raise NoOffset(
            "an incremental snapshot of the connector hasn't ended, and its rows that are still to come would be in no "
            "topic; let it end, or stop it by a signal, and stop the connector then"
        )
    gtids = offset.get("gtids")
    if not isinstance(gtids, str):
        raise NoOffset(f"the connector's offset has no GTIDs; {_REMEDY}")
    try:
        return GtidSet.parse(gtids)
    except MalformedGtid as error:
        raise NoOffset(f"the connector's offset has other GTIDs than a server's: {error}") from error


def _offsets(content: bytes) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """The partitions with their offsets, in their order."""
    text = content.decode(errors="replace")
    try:
        answered = json.loads(text)
        for each in answered["offsets"]:
            yield each["partition"], each["offset"]
    except (ValueError, TypeError, LookupError):
        yield from _records(text)


def _records(text: str) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
    """Each key `["connector",{...}]` with the value that follows it, an object or null, whatever is between them."""
    decoder, at = json.JSONDecoder(), 0
    partition: Mapping[str, Any] | None = None
    while (found := _next(text, at, partition is not None)) >= 0:
        try:
            value, at = decoder.raw_decode(text, found)
        except ValueError:
            at = found + 1
            continue
        match value:
            case [str(), dict() as key]:
                partition = key
            case dict() | None if partition is not None:
                yield partition, value
                partition = None
            case _:
                pass


def _next(text: str, at: int, value: bool) -> int:
    """Where the next key begins, or, after a key, the next value as well; -1 where none does."""
    wanted = ('["', "{", "null") if value else ('["',)
    places = [place for each in wanted if (place := text.find(each, at)) >= 0]
    return min(places, default=-1)
