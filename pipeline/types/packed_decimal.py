"""DECIMAL as it's stored: groups of up to nine digits, each in as few bytes as hold them.

The first bit is set where the value isn't negative; where it is, all other bits are inverted.

Source: MySQL 9.7 source, strings/decimal.cc, `decimal2bin`.
"""

from typing import Final

from pipeline.errors import UndecodableError

_BYTES: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # of a group, by its digits


def groups(precision: int, scale: int) -> list[tuple[int, int]]:
    """Bytes and digits of each group, from the left."""
    whole, whole_rest = divmod(precision - scale, 9)
    fraction, fraction_rest = divmod(scale, 9)
    digits = [whole_rest, *[9] * whole, *[9] * fraction, fraction_rest]
    return [(_BYTES[n], n) for n in digits if n > 0]


def decimal_text(stored: bytes, precision: int, scale: int) -> str:
    """A stored DECIMAL as the server prints it. Raises UndecodableError."""
    layout = groups(precision, scale)
    if len(stored) != sum(size for size, _ in layout):
        raise UndecodableError(f"{len(stored)} bytes aren't a DECIMAL({precision}, {scale})")
    negative = stored[0] < 0x80
    plain = bytes([stored[0] ^ 0x80]) + stored[1:]
    if negative:
        plain = bytes(byte ^ 0xFF for byte in plain)
    digits = ""
    at = 0
    for size, count in layout:
        group = int.from_bytes(plain[at : at + size], "big")
        if group >= 10**count:
            raise UndecodableError(f"a value in the log isn't a DECIMAL({precision}, {scale})")
        digits += f"{group:0{count}}"
        at += size
    whole = digits[: precision - scale].lstrip("0") or "0"
    sign = "-" if negative else ""
    return f"{sign}{whole}.{digits[precision - scale :]}" if scale else f"{sign}{whole}"
