"""How values are represented in messages: Debezium's options of that, by Debezium's names.

Source: Debezium 3.6, "Debezium connector for MySQL", connector properties.
"""

from dataclasses import dataclass
from enum import StrEnum


class DecimalHandling(StrEnum):
    """`decimal.handling.mode`, of DECIMAL."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"


class TimePrecision(StrEnum):
    """`time.precision.mode`, of DATE, TIME and DATETIME."""

    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


class UnsignedBigintHandling(StrEnum):
    """`bigint.unsigned.handling.mode`. `LONG` makes values from 2 ** 63 on negative."""

    LONG = "long"
    PRECISE = "precise"


class BinaryHandling(StrEnum):
    """`binary.handling.mode`, of BINARY, VARBINARY and the BLOBs."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Handling:
    """How values are represented, with Debezium's defaults."""

    decimal: DecimalHandling = DecimalHandling.PRECISE
    time: TimePrecision = TimePrecision.ADAPTIVE_TIME_MICROSECONDS
    unsigned_bigint: UnsignedBigintHandling = UnsignedBigintHandling.LONG
    binary: BinaryHandling = BinaryHandling.BYTES
