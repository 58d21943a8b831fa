"""One form of each value, as bytes, to compare a source's rows with those of a journal or a lake.

| MySQL's type | its form |
|---|---|
| integers, YEAR, BIT(1) | its digits |
| DECIMAL | its digits, without zeros at the fraction's end; wider than 38 digits, as the server writes it |
| FLOAT, DOUBLE | the shortest text of the double |
| BIT(n), BINARY, BLOB, spatial types | its bytes |
| DATE | `2024-02-29`; NULL for a day that no calendar has, as in the lake |
| DATETIME, TIMESTAMP | `2024-02-29 10:00:00.000000`, in UTC; NULL for a day that no calendar has |
| TIME | its microseconds |
| VECTOR | the bytes of its 32-bit floats |
| all others | its text in UTF-8 |

This module gives values of a journal or a lake that form. `deploy.oracle.source` gives it to values of a server.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Row = Mapping[str, Any]

# The widest DECIMAL that isn't text in the lake.
DIGITS: Final = 38


def forms(table: pa.Table) -> pa.Table:
    """Returns the rows of a journal or a lake with each value in its form."""
    columns = [
        pa.chunked_array([form(chunk) for chunk in column.chunks], pa.binary()) for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def forms_of_rows(rows: Sequence[Row]) -> pa.Table:
    """The same of rows that are Python objects. What a row lacks and others have is NULL in it."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table([_form_of_objects([row.get(name) for row in rows]) for name in names], names=names)


def form(values: pa.Array) -> pa.Array:
    """Returns a column's values in their forms, by their Arrow type."""
    kind = values.type
    match kind:
        case _ if pa.types.is_boolean(kind):
            return values.cast(pa.int8()).cast(pa.string()).cast(pa.binary())
        case _ if pa.types.is_integer(kind) or pa.types.is_date32(kind):
            return values.cast(pa.string()).cast(pa.binary())
        case _ if pa.types.is_decimal(kind):
            return _decimals(values).cast(pa.binary())
        case _ if pa.types.is_floating(kind):
            return doubles(values.cast(pa.float64())).cast(pa.binary())
        case _ if pa.types.is_timestamp(kind):
            instants = values.cast(pa.timestamp("us", kind.tz)).cast(pa.timestamp("us"))
            return instants.cast(pa.string()).cast(pa.binary())
        case _ if pa.types.is_list(kind):
            vectors = [None if v is None else np.array(v, "<f4").tobytes() for v in values.to_pylist()]
            return pa.array(vectors, pa.binary())
        case _:
            return values.cast(pa.binary())


def doubles(values: pa.Array) -> pa.Array:
    """The text of doubles; there is one zero."""
    return pc.if_else(pc.equal(values, 0.0), 0.0, values).cast(pa.string())


def without_zeros(texts: pa.Array) -> pa.Array:
    """Texts of decimals without the zeros that say nothing."""
    fraction = pc.replace_substring_regex(texts, pattern=r"(\.\d*?)0+$", replacement=r"\1")
    whole = pc.replace_substring_regex(fraction, pattern=r"\.$", replacement="")
    return pc.replace_substring_regex(whole, pattern=r"^(-?)0+(\d)", replacement=r"\1\2")


def _decimals(values: pa.Array) -> pa.Array:
    """Arrow's own text of a small one has an exponent, so the text is made of the digits without the point."""
    kind = values.type
    wide = pa.types.is_decimal256(kind)
    plain = pa.decimal256(kind.precision, 0) if wide else pa.decimal128(kind.precision, 0)
    digits = pa.Array.from_buffers(plain, len(values), values.buffers(), offset=values.offset).cast(
        pa.string()
    )
    if kind.scale <= 0:
        return digits
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    padded = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), kind.scale + 1, "0")
    whole = pc.utf8_slice_codeunits(padded, 0, -kind.scale)
    fraction = pc.utf8_slice_codeunits(padded, -kind.scale)
    return without_zeros(pc.binary_join_element_wise(sign, whole, ".", fraction, ""))


def _form_of_objects(values: Sequence[object]) -> pa.Array:
    """Of a column that was of several types the values of each type are taken by themselves."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return form(_array(values))
    found: list[bytes | None] = [None] * len(values)
    for kind in kinds:
        places = [place for place, value in enumerate(values) if type(value) is kind]
        texts = form(_array([values[place] for place in places])).to_pylist()
        for place, text in zip(places, texts, strict=True):
            found[place] = text
    return pa.array(found, pa.binary())


def _array(values: Sequence[object]) -> pa.Array:
    some = next((value for value in values if value is not None), None)
    match some:
        case bool() | float() | bytes() | str() | datetime() | Decimal():
            return pa.array(values)
        case int():
            return pa.array(values, pa.decimal128(DIGITS, 0))
        case tuple() | list():
            return pa.array(values, pa.list_(pa.float32()))
        case _:
            return pa.array(values)
