"""A place in the bytes of an event or a packet that only moves forward, and never past their end."""

from pipeline.errors import UndecodableError


class Cursor:
    """Reads the fields one after the other; each raises UndecodableError where the bytes end."""

    __slots__ = ("_data", "at")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    @property
    def left(self) -> int:
        """How many bytes haven't been read."""
        return len(self._data) - self.at

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        end = self.at + length
        if end > len(self._data):
            raise UndecodableError(f"its bytes end {end - len(self._data)} bytes too early")
        taken, self.at = self._data[self.at : end], end
        return taken

    def rest(self) -> bytes:
        """All that's left."""
        return self.take(self.left)

    def until_zero(self) -> bytes:
        """The bytes before the next zero, which is passed over."""
        end = self._data.find(0, self.at)
        if end < 0:
            raise UndecodableError("its bytes end before the zero that ends a text")
        taken, self.at = self._data[self.at : end], end + 1
        return taken

    def integer(self, length: int) -> int:
        """An unsigned little-endian integer of this many bytes."""
        return int.from_bytes(self.take(length), "little")

    def packed(self) -> int:
        """A length-encoded integer: one byte below 251, else a byte that says that 2, 3 or 8 follow.

        Source: MySQL 9.7 source documentation, "Protocol::LengthEncodedInteger".
        """
        first = self.integer(1)
        if first < 251:
            return first
        if first not in _PACKED:
            raise UndecodableError(f"there is no length-encoded integer that begins with {first}")
        return self.integer(_PACKED[first])

    def packed_bytes(self) -> bytes:
        """Returns bytes that have their length, a length-encoded integer, before them."""
        return self.take(self.packed())

    def variable(self) -> int:
        """An unsigned integer of one to nine bytes; the ones that the first byte ends with count the others.

        Source: MySQL 9.7 source documentation, page "MySQL Serialization Library", "Variable-length integers".
        """
        first = self.integer(1)
        further = (~first & (first + 1)).bit_length() - 1
        if further == 8:
            return self.integer(8)
        return first >> (further + 1) | self.integer(further) << (7 - further)

    def variable_signed(self) -> int:
        """Such an integer with a sign, which is its lowest bit."""
        value = self.variable()
        return ~(value >> 1) if value & 1 else value >> 1

    def text(self, length: int) -> str:
        """UTF-8 text of this many bytes."""
        return utf8(self.take(length))


_PACKED = {252: 2, 253: 3, 254: 8}


def utf8(text: bytes) -> str:
    """UTF-8 bytes as text. Raises UndecodableError."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(f"{text!r} isn't text in UTF-8") from error
