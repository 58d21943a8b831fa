"""ENUM and SET values from the numbers in the log into the texts that the server shows.

**Unknown labels.** The server keeps the text of a column's type in utf8mb3. So information_schema and SHOW CREATE TABLE
both show a question mark for each character beyond U+FFFF, and for a question mark too. The log with full metadata has
the labels themselves. A label from the server has UNKNOWN_CHARACTER in place of such a question mark, so that it can't
equal another label. A value with such a label has no known text (`NoLabel`).

**Labels of CHARACTER SET binary** are bytes. They are read as UTF-8, and refused if they aren't.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import Definite

# A character in a label that the server doesn't show: U+FFFD, Unicode's own sign for that.
UNKNOWN_CHARACTER: Final = "\N{REPLACEMENT CHARACTER}"

# Why a label of CHARACTER SET binary can't be captured; `label` is its bytes in hex.
NO_TEXT: Final = (
    "the label x'{label}' of an ENUM or SET of CHARACTER SET binary isn't UTF-8 text; give the column another character"
    " set or another type"
)

_NOT_TOLD: Final = (
    "an {kind} has a value whose label has a question mark; the server also shows one for a character beyond U+FFFF, "
    "so that the label can't be known; set binlog_row_metadata=FULL on the source (MySQL 8.0.1 or later), or change "
    "the label"
)
_LAST_OF_UTF8MB3: Final = "\uffff"

_MOST_BYTES: Final = 2**31 - 1  # of the texts in one array
_TOO_LONG: Final = (
    "an ENUM or SET with long labels has more than 2 GiB of texts in a part of the log that is read at once; give it "
    "shorter labels"
)


class NoLabel(Definite):
    """A value is a number that none of its column's labels has."""


class LabelsTooLong(Definite):
    """The texts of a column's values are more than an array can have."""


def labels_agree(labels: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether these may be the same labels, as far as they're known."""
    return len(labels) == len(others) and all(map(_alike, labels, others))


def _alike(label: str, other: str) -> bool:
    return len(label) == len(other) and all(map(_may_be, label, other))


def _may_be(one: str, other: str) -> bool:
    known = other if one == UNKNOWN_CHARACTER else one
    return one == other or (UNKNOWN_CHARACTER in (one, other) and (known == "?" or known > _LAST_OF_UTF8MB3))


def enum_texts(indices: pa.Array, labels: tuple[str, ...]) -> pa.Array:
    """ENUM indices (int32, from 1; 0 is the empty text of an invalid value) as strings.

    Raises NoLabel or LabelsTooLong.
    """
    texts = pa.array(["", *labels], pa.string())
    extent = pc.min_max(indices)
    least, most = extent["min"].as_py(), extent["max"].as_py()
    if most is not None and not 0 <= least <= most < len(texts):
        raise NoLabel(f"an ENUM with {len(labels)} labels has a value between {least} and {most}")
    unknown = [i for i, label in enumerate(labels, start=1) if UNKNOWN_CHARACTER in label]
    if unknown and pc.any(pc.is_in(indices, pa.array(unknown, indices.type))).as_py():
        raise NoLabel(_NOT_TOLD.format(kind="ENUM"))
    return _take(texts, indices)


def set_texts(bits: pa.Array, labels: tuple[str, ...]) -> pa.Array:
    """SET bits (int64 in two's complement, the lowest is the first label) as strings.

    Raises NoLabel or LabelsTooLong.
    """
    encoded = bits.dictionary_encode()
    patterns = encoded.dictionary.to_numpy().astype(np.uint64).tolist()
    most = _MOST_BYTES
    texts: list[str] = []
    for pattern in patterns:
        texts.append(_set_text(pattern, labels))
        most -= len(texts[-1].encode())
        if most < 0:
            raise LabelsTooLong(_TOO_LONG)
    return _take(pa.array(texts, pa.string()), encoded.indices)


def _take(texts: pa.Array, indices: pa.Array) -> pa.Array:
    sizes = pc.binary_length(texts).to_numpy()
    if len(sizes) and int(sizes.max()) * len(indices) > _MOST_BYTES:
        taken = sizes[indices.drop_null().to_numpy()].sum(dtype=np.int64)
        if taken > _MOST_BYTES:
            raise LabelsTooLong(_TOO_LONG)
    return texts.take(indices)


def _set_text(pattern: int, labels: tuple[str, ...]) -> str:
    if pattern >> len(labels):
        raise NoLabel(f"a SET with {len(labels)} labels has the value {pattern:#x}")
    text = ""
    for bit, label in enumerate(labels):
        if pattern >> bit & 1:
            text = (
                f"{text},{label}" if text else label
            )  # the server too has no comma after nothing but empty labels
    if UNKNOWN_CHARACTER in text:
        raise NoLabel(_NOT_TOLD.format(kind="SET"))
    return text
