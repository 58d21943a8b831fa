"""Which Unicode character each code of MySQL's character sets is, as the server itself converts them.

Most sets have a codec of Python's that agrees with the server on every code but a few. These few are listed here. Sets
that have no codec are written down. An integration test holds every code against a live server. A code that the server
has no character for (it prints a question mark, also where the code is well formed) has none here.

Source: MySQL 9.7 Reference Manual, chapter "Character Sets, Collations, Unicode".
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CodePoints = NDArray[np.int32]

# Instead of a code point.
NO_CODE: Final = -1  # no such code, or no character for it
LEAD: Final = -2  # the code continues in the next byte

# The place in `Tables.four` of GB 18030's code of four bytes, and the place after the last one that isn't a formula.
FOUR_BYTES: Final = 39420


class CodeTables(NamedTuple):
    """The code points of a set's codes by their bytes; those that a set has no codes for are empty.

    `one`: [byte], LEAD if it's the first of more. `two`: [first << 8 | second]; LEAD if there's a third. `three`:
    [second << 8 | third] after the one first byte that such codes have. `four`: by the code's place in GB 18030's
    order.
    """

    one: CodePoints
    two: CodePoints
    three: CodePoints
    four: CodePoints


# The bytes of EUC's codes of two bytes, and the last two of those of three.
_EUC: Final = range(0xA1, 0xFF)

# A code's character: the empty text if it has none. Codes may be incomplete.
_Codec = Callable[[bytes], str]

# Codes and their characters; a question mark among those that aren't ASCII means none.
_Exceptions = Mapping[bytes, str]

_EMPTY: Final = np.empty(0, np.int32)
_UNKNOWN: Final = "\ufffd"  # which the server prints too, where its own tables say so


def _python(codec: str, code: bytes) -> str:
    try:
        return code.decode(codec)
    except UnicodeDecodeError:
        return ""


def _run(first: bytes, characters: str) -> dict[bytes, str]:
    """Characters of codes that differ in their last byte, from `first` on."""
    return {first[:-1] + bytes([first[-1] + i]): character for i, character in enumerate(characters)}


def _none(prefix: bytes, *codes: int) -> dict[bytes, str]:
    return {prefix + bytes([code]): "" for code in codes}


def _users(prefix: bytes, first: int) -> dict[bytes, str]:
    """The EUCs' ten rows of the user's own characters, at code point `first`."""
    return {prefix + bytes([0xF5 + i // 94, 0xA1 + i % 94]): chr(first + i) for i in range(940)}


def _ibm() -> dict[bytes, str]:
    """IBM's characters at the end of eucjpms: those of cp932 that the other rows lack, and №, in cp932's order."""
    codes = (bytes([lead, trail]) for lead in (0xFA, 0xFB, 0xFC) for trail in range(0x40, 0xFD))
    characters = (_python("cp932", code) for code in codes)
    lacking = [c for c in characters if c == "№" or (c not in "￢￤" and not c.encode("euc-jp", "ignore"))]
    return {b"\x8f" + bytes([0xF3 + i // 94, 0xA1 + i % 94]): c for i, c in enumerate(lacking, 0xF3 - 0xA1)}


# One byte, one character: Python's codec, and where the server differs.
_SINGLE: Final[dict[str, tuple[str, _Exceptions]]] = {
    "armscii8": (
        "latin-1",
        _run(
            b"\xa1",
            "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
        ),
    ),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", _none(b"", 0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF)),
    "cp1257": ("cp1257", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", _run(b"\xfc", "ⁿ²")),
    "dec8": (
        "latin-1",
        {
            **_none(b"", 0xA4, 0xA6, *range(0xAC, 0xB0), 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF),
            b"\xa8": "¤",
            b"\xd7": "Œ",
            b"\xdd": "Ÿ",
            b"\xf7": "œ",
            b"\xfd": "ÿ",
        },
    ),
    "geostd8": (
        "latin-1",
        {
            **_run(b"\x80", "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????"),
            **_run(b"\xc0", "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ" + "?" * 23 + "№??"),
        },
    ),
    "greek": ("iso8859-7", {b"\xa1": "\u02bd", b"\xa2": "\u02bc", **_none(b"", 0xA4, 0xA5, 0xAA)}),
    "hebrew": ("iso8859-8", {b"\xaf": "\u203e"}),
    "hp8": ("hp-roman8", {}),
    "keybcs2": (
        "latin-1",
        _run(
            b"\x80",
            "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
            "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0",
        ),
    ),
    "koi8r": ("koi8-r", {}),
    "koi8u": ("koi8-u", {b"\x95": "\u2022"}),
    "latin1": ("cp1252", {bytes([code]): chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859-2", {}),
    "latin5": ("iso8859-9", {}),
    "latin7": ("iso8859-13", {}),
    "macce": ("mac-latin2", {}),
    "macroman": ("mac-roman", {}),
    "swe7": ("ascii", {b"@": "É", **_run(b"[", "ÄÖÅÜ"), b"`": "é", **_run(b"{", "äöåü"), b"\x7f": ""}),
    "tis620": (
        "tis-620",
        dict.fromkeys([b"\xa0", *(bytes([c]) for c in (*range(0xDB, 0xDF), *range(0xFC, 256)))], _UNKNOWN),
    ),
}

# One byte for ASCII, and more for what isn't.
_MULTIPLE: Final[dict[str, tuple[str, _Exceptions]]] = {
    "big5": (
        "big5",
        {
            **dict.fromkeys(
                (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"),
                _UNKNOWN,
            ),
            **_run(b"\xf9\xd6", "碁銹裏墻恒粧嫺"),
        },
    ),
    "cp932": ("cp932", _none(b"", 0x80, 0xA0, 0xFD, 0xFE, 0xFF)),
    "eucjpms": (
        "euc-jp",
        {
            b"\x8f\xa2\xb7": "～",
            b"\x8f\xa2\xc3": "￤",
            **_ibm(),
            **_users(b"", 0xE000),
            **_users(b"\x8f", 0xE3AC),
        },
    ),
    "euckr": ("cp949", {}),
    "gb18030": ("gb18030", {b"\xa8\xbc": "\u1e3f", b"\x81\x35\xf4\x37": "\ue7c7"}),
    "gb2312": ("gb2312", {}),
    "gbk": ("gbk", {}),
    "sjis": ("shift-jis", {b"\x81\x5f": "\\"}),
    "ujis": ("euc-jp", {b"\xa1\xc0": "\\", **_users(b"", 0xE000), **_users(b"\x8f", 0xE3AC)}),
}

# Sets whose codes are found in these tables.
TABLED: Final = frozenset(_SINGLE) | frozenset(_MULTIPLE)


@cache
def code_tables(charset: str) -> CodeTables:
    """Returns the tables of one of the TABLED sets; the first call takes up to 0.2 s for a set with many codes."""
    codec = _codec(charset)
    one = _points(codec, [bytes([byte]) for byte in range(256)])
    if charset in _SINGLE:
        return CodeTables(one, _EMPTY, _EMPTY, _EMPTY)
    # A byte that is a code by itself begins no longer one.
    firsts = np.flatnonzero(one == NO_CODE).tolist()
    two = np.full(1 << 16, NO_CODE, np.int32)
    pairs = [bytes(pair) for pair in product(firsts, range(256))]
    two.reshape(256, 256)[firsts] = _points(codec, pairs).reshape(-1, 256)
    one[(two.reshape(256, 256) != NO_CODE).any(axis=1)] = LEAD
    three = four = _EMPTY
    if charset in {"ujis", "eucjpms"}:
        three = np.full(1 << 16, NO_CODE, np.int32)
        rows = [bytes([0x8F, row, cell]) for row, cell in product(_EUC, _EUC)]
        three.reshape(256, 256)[np.ix_(_EUC, _EUC)] = _points(codec, rows).reshape(len(_EUC), -1)
        one[0x8F] = LEAD
        two[0x8F00:0x9000] = np.where((three.reshape(256, 256) != NO_CODE).any(axis=1), LEAD, NO_CODE)
    if charset == "gb18030":
        four = _points(codec, [_gb18030(place) for place in range(FOUR_BYTES)])
        two.reshape(256, 256)[0x81:0xFF, 0x30:0x3A] = LEAD
    return CodeTables(one, two, three, four)


def _codec(charset: str) -> _Codec:
    """The set's codes into characters."""
    name, exceptions = (_SINGLE if charset in _SINGLE else _MULTIPLE)[charset]

    def character(code: bytes) -> str:
        if code in exceptions:
            return "" if exceptions[code] == "?" else exceptions[code]
        if charset == "eucjpms" and len(code) == 2 and 0xA1 <= min(code) <= max(code) <= 0xFE:
            return _python("cp932", _to_shift_jis(code))
        return _python(name, code)

    return character


def _to_shift_jis(code: bytes) -> bytes:
    """A code of JIS X 0208 in EUC as it's in Shift JIS."""
    row, cell = code[0] - 0xA1, code[1] - 0xA1
    lead = row // 2 + (0x81 if row < 62 else 0xC1)
    return bytes([lead, cell + 0x9F if row % 2 else cell + 0x40 + (cell >= 63)])


def _gb18030(place: int) -> bytes:
    """The code of four bytes at this place of GB 18030's order."""
    place, fourth = divmod(place, 10)
    place, third = divmod(place, 126)
    first, second = divmod(place, 10)
    return bytes([0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth])


def _points(codec: _Codec, codes: list[bytes]) -> CodePoints:
    characters = [codec(code) for code in codes]
    return np.array([ord(c) if len(c) == 1 else NO_CODE for c in characters], np.int32)
