"""Which character set a collation belongs to, by the numbers that events carry.

Source: MySQL 9.7, `SELECT id, character_set_name FROM information_schema.collations`, with which the
integration test compares this, and MySQL 5.6. The numbers have never changed their meaning since they were given.
"""

from typing import Final

from pipeline.errors import UndecodableError

BINARY: Final = "binary"

# Ids, single ones and ranges (both ends included), of each character set.
_IDS: Final[dict[str, tuple[int | tuple[int, int], ...]]] = {
    "armscii8": (32, 64),
    "ascii": (11, 65),
    "big5": (1, 84),
    BINARY: (63,),
    "cp1250": (26, 34, 44, 66, 99),
    "cp1251": (14, 23, (50, 52)),
    "cp1256": (57, 67),
    "cp1257": (29, 58, 59),
    "cp850": (4, 80),
    "cp852": (40, 81),
    "cp866": (36, 68),
    "cp932": (95, 96),
    "dec8": (3, 69),
    "eucjpms": (97, 98),
    "euckr": (19, 85),
    "gb18030": ((248, 250),),
    "gb2312": (24, 86),
    "gbk": (28, 87),
    "geostd8": (92, 93),
    "greek": (25, 70),
    "hebrew": (16, 71),
    "hp8": (6, 72),
    "keybcs2": (37, 73),
    "koi8r": (7, 74),
    "koi8u": (22, 75),
    "latin1": (5, 8, 15, 31, (47, 49), 94),
    "latin2": (2, 9, 21, 27, 77),
    "latin5": (30, 78),
    "latin7": (20, 41, 42, 79),
    "macce": (38, 43),
    "macroman": (39, 53),
    "sjis": (13, 88),
    "swe7": (10, 82),
    "tis620": (18, 89),
    "ucs2": (35, 90, (128, 151), 159),
    "ujis": (12, 91),
    "utf16": (54, 55, (101, 124)),
    "utf16le": (56, 62),
    "utf32": (60, 61, (160, 183)),
    "utf8mb3": (33, 76, 83, (192, 215), 223),
    "utf8mb4": (45, 46, (224, 247), (255, 323)),
}


def _charsets() -> dict[int, str]:
    charsets: dict[int, str] = {}
    for charset, ids in _IDS.items():
        for item in ids:
            first, last = item if isinstance(item, tuple) else (item, item)
            charsets |= dict.fromkeys(range(first, last + 1), charset)
    return charsets


CHARSETS: Final = _charsets()


def charset(collation: int) -> str:
    """MySQL's name of the character set that the collation belongs to. Raises UndecodableError."""
    try:
        return CHARSETS[collation]
    except KeyError:
        raise UndecodableError(f"there is a collation with the unknown id {collation}") from None
