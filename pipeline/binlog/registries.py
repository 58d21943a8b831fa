"""Sources of GTIDs, files and table maps of the stream, each with a number that the compiled parser uses.

A source and a file keep their numbers for the stream's whole life, a map until `TableMapRegistry.forget`.
"""

import zlib
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.events.table_map_event import table_id
from pipeline.binlog.rows.cells import column_forms
from pipeline.binlog.stream_state import MapIndex, Scalar, widened
from pipeline.gtid.gtid_set import Tsid
from pipeline.messages.row_images import TableUnreadable
from pipeline.schema.table_map import TableMap
from pipeline.schema.table_schema import TableId

_HEAD_BYTES: Final = 8  # of a table map's body, before what it says
_TAG_BYTES: Final = 32
_SOURCE_BYTES: Final = 16 + 1 + _TAG_BYTES  # the UUID, the tag's length, the tag


class TsidRegistry:
    """The sources of GTIDs, in the order in which they were met; `encoded` has a row for each, and no others."""

    def __init__(self) -> None:
        self._numbers: dict[Tsid, int] = {}
        self.all: tuple[Tsid, ...] = ()
        self.encoded = np.empty((0, _SOURCE_BYTES), np.uint8)

    def number(self, source: Tsid) -> int:
        """The source's number, which is a new one where it hasn't been met."""
        if source not in self._numbers:
            tag = source.tag.encode()
            row = (
                bytes.fromhex(source.uuid.replace("-", "")) + bytes([len(tag)]) + tag.ljust(_TAG_BYTES, b"\0")
            )
            self.encoded = np.concatenate([self.encoded, np.frombuffer(row, np.uint8)[None]])
            self._numbers[source] = len(self._numbers)
            self.all = (*self.all, source)
        return self._numbers[source]


class FileRegistry:
    """The files of the log, in the order in which they were met."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, file: str) -> int:
        """The file's number, which is a new one where it hasn't been met."""
        return self._numbers.setdefault(file, len(self._numbers))

    @property
    def all(self) -> tuple[str, ...]:
        """Their names by their numbers."""
        return tuple(self._numbers)


class RememberedTableMap(NamedTuple):
    """A table map that outlives its number, which it had: what it says, and the table."""

    number: int
    content: bytes
    table: TableMap | TableUnreadable


class TableMapRegistry:
    """The table maps by what they say, without the table id, which changes with each opening of the table."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know none any more."""
        self._numbers: dict[bytes, int] = {}
        self._tables: list[TableMap | TableUnreadable | None] = []
        self.known = MapIndex(
            np.empty(0, np.uint8),
            np.zeros((2, 1), np.int64),
            np.empty(0, np.int64),
            np.full(16, -1, np.int32),
        )
        self._forms = 0  # how many of `known.forms` are used

    def __len__(self) -> int:
        return len(self._tables)

    def wants(self, number: int) -> bool:
        """Whether the map with this number is a captured table's."""
        return self._tables[number] is not None

    def captured(self, number: int) -> TableMap | TableUnreadable:
        """What the map with this number says of a captured table."""
        table = self._tables[number]
        assert table is not None
        return table

    def described(self, number: int) -> RememberedTableMap:
        """What the map with this number says of a captured table, to be known again by later."""
        return RememberedTableMap(number, self._content(number), self.captured(number))

    def table(self, number: int) -> TableId:
        """The table, captured or not, that the map with this number is of."""
        return table_id(bytes(_HEAD_BYTES) + self._content(number))

    def _content(self, number: int) -> bytes:
        content, places = self.known.content, self.known.places
        return content[places[0, number] : places[0, number + 1]].tobytes()

    def number_of(self, described: RememberedTableMap) -> int:
        """The number that this map has now."""
        number = self.number(described.content)
        return self.add(described.content, described.table) if number is None else number

    def number(self, described: bytes) -> int | None:
        """The number of the map that says this, if there is one."""
        return self._numbers.get(described)

    def add(self, described: bytes, table: TableMap | TableUnreadable | None) -> int:
        """Know one more; returns its number."""
        number = len(self._tables)
        self._numbers[described] = number
        self._tables.append(table)
        content, places, forms, slots = self.known
        if 2 * len(self._tables) > len(slots):
            slots = np.full(2 * len(slots), -1, np.int32)
            for each, its_number in self._numbers.items():
                _put_slot(slots, each, its_number)
        else:
            _put_slot(slots, described, number)
        begin, places = int(places[0, number]), widened(places, number + 2)
        content = _with_values(content, begin, np.frombuffer(described, np.uint8))
        places[:, number : number + 2] = (begin, begin + len(described)), (-1, -1)
        if table is not None:
            added = column_forms(table) if isinstance(table, TableMap) else np.empty(0, np.int64)
            forms = _with_values(forms, self._forms, np.array([len(added), *added], np.int64))
            places[1, number] = self._forms
            self._forms += 1 + len(added)
        self.known = MapIndex(content, places, forms, slots)
        return number


def _with_values(table: NDArray[Scalar], at: int, values: NDArray[Scalar]) -> NDArray[Scalar]:
    """Returns the table with these values there, and room for them."""
    table = widened(table, at + len(values))
    table[at : at + len(values)] = values
    return table


def _put_slot(slots: NDArray[np.int32], described: bytes, number: int) -> None:
    slot = zlib.crc32(described) & (len(slots) - 1)
    while slots[slot] >= 0:
        slot = (slot + 1) & (len(slots) - 1)
    slots[slot] = number
