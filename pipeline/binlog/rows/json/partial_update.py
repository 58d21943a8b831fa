"""Partial updates: an after image's JSON document from its before image and the log's diffs of it.

With binlog_row_value_options=PARTIAL_JSON, an update by JSON_SET, JSON_REPLACE or JSON_REMOVE alone is logged as a list
of diffs: replace, insert or remove the value at a path. They are applied to the bytes. A container is opened only if a
path leads through it, and put together again afterwards. Everything else in the document stays packed, because offsets
count from the beginning of each container. The result is a document like any other.

Each value enters the document once, and those in a container together are no larger than it, so diffs can't multiply
data.

Source: MySQL 9.7 source, sql/json_diff.cc (`read_binary`), sql-common/json_dom.cc (`apply_json_diff`), json_path.cc;
WL#2955.
"""

import re
from collections.abc import Iterator
from enum import IntEnum
from json import JSONDecodeError, loads
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.rows import cells
from pipeline.binlog.rows.stored_values import StoredColumn
from pipeline.errors import UndecodableError
from pipeline.types.buffers import ABSENT, SLACK, Bytes
from pipeline.types.cursor import Cursor

LENGTH_BYTES: Final = 4  # bytes of a length before each of the documents that come out


class _Operation(IntEnum):
    """What a diff does (enum_json_diff_operation)."""

    REPLACE = 0
    INSERT = 1
    REMOVE = 2


class _Packed(NamedTuple):
    """A value as it lies in a document: its type, and its bytes."""

    kind: int
    data: bytes


# A document whose containers are opened where a path led through them; names are in UTF-8.
_Object = dict[bytes, "_Node"]
_Array = list["_Node"]
_Node = _Packed | _Object | _Array

# Types of values (JSONB_TYPE_ of json_binary.cc); of the containers the odd ones are large.
_OBJECT: Final = 0
_ARRAY: Final = 2
_LITERAL: Final = 4
_STRING: Final = 12
_OPAQUE: Final = 15
_LARGE: Final = 1
_SIZES: Final = {_LITERAL: 1, 5: 2, 6: 2, 7: 4, 8: 4, 9: 8, 10: 8, 11: 8}  # of all that has one size
_INLINED: Final = range(_LITERAL, 9)  # in the entries of large containers
_NULL: Final = _Packed(_LITERAL, b"\0")

_MOST_LEGS: Final = 100  # JSON_DOCUMENT_MAX_DEPTH


class _Cell(NamedTuple):
    """An element of an array: counted from its end, or else from its beginning."""

    number: int
    from_end: bool

    def place(self, length: int) -> tuple[int, bool]:
        """Where it is in an array of this length, and whether there is such an element."""
        if self.from_end:
            return max(length - 1 - self.number, 0), self.number < length
        return min(self.number, length), self.number < length


_Leg = bytes | _Cell  # the name of a member, or an element

# A name without quotes is what the server takes for an identifier of ECMAScript: it may have characters beyond ASCII
# that are blanks to Python, such as U+0085.
_LEG: Final = re.compile(
    r'\.(?P<name>"(?:[^"\\]|\\.)*"|[^.\[*" \t\n\v\f\r]+)|'
    r"\[(?:(?P<index>\d+)|last(?:-(?P<before_last>\d+))?)\]",
    re.DOTALL,
)


def apply_diffs(prefix: int, stored: StoredColumn, rows: NDArray[np.int64]) -> StoredColumn:
    """Returns the documents of these rows, whose cells are diffs of the row before, each after a length
    of `LENGTH_BYTES` bytes.

    Raises UndecodableError, which names the column.
    """
    buffer = bytearray()
    places: list[int] = []
    for row in rows.tolist():
        before = int(stored.cells[row - 1])
        if before < 0:
            raise UndecodableError(f"{stored.name}: {_unknown(before)}")
        diffs = _behind_length(stored.buffer, cells.diffs_at(int(stored.cells[row])), prefix)
        try:
            document = _apply(_behind_length(stored.buffer, before, prefix), diffs)
        except UndecodableError as error:
            raise UndecodableError(f"{stored.name}: {error}") from error
        places.append(len(buffer))
        buffer += len(document).to_bytes(LENGTH_BYTES, "little") + document
        if len(buffer) > cells.LARGEST_BUFFER:
            stored.refuse_size()
    buffer += bytes(SLACK)
    return StoredColumn(np.frombuffer(buffer, np.uint8), np.array(places, np.int32), stored.name, len(buffer))


def _unknown(cell: int) -> str:
    if cell == ABSENT:
        return (
            "an update gives only parts of its document, and none of the document before; set"
            " binlog_row_image='FULL' or binlog_row_value_options='' on the source, for all of its sessions"
        )
    return "an update gives parts of a document that is NULL"


def _behind_length(buffer: Bytes, at: int, prefix: int) -> bytes:
    length = int.from_bytes(buffer[at : at + prefix].tobytes(), "little")
    return buffer[at + prefix : at + prefix + length].tobytes()


def _apply(document: bytes, diffs: bytes) -> bytes:
    root: _Node = _Packed(document[0], document[1:]) if document else _NULL
    cursor = Cursor(diffs)
    while cursor.left:
        code = cursor.integer(1)
        *way, leg = _legs(cursor.packed_bytes())
        root = _open(root)
        parent = _parent(root, way)
        match code:
            case _Operation.REPLACE:
                _replace(parent, leg, _value(cursor))
            case _Operation.INSERT:
                _insert(parent, leg, _value(cursor))
            case _Operation.REMOVE:
                _remove(parent, leg)
            case _:
                raise UndecodableError(f"there's no operation {code} on parts of JSON documents")
    kind, data = _pack(root)
    return bytes([kind]) + data


def _value(cursor: Cursor) -> _Packed:
    value = cursor.packed_bytes()
    if not value or len(value) - 1 != _SIZES.get(value[0], len(value) - 1):
        raise UndecodableError("a diff of a JSON document has a value that isn't one")
    return _Packed(value[0], value[1:])


# Paths


def _legs(path: bytes) -> Iterator[_Leg]:
    """The legs of a path as the server writes it. Raises UndecodableError."""
    text, at, count = _text(path), 1, 0
    if not text.startswith("$") or text == "$":
        raise _no_path()
    while at < len(text):
        leg = _LEG.match(text, at)
        count += 1
        if leg is None or count > _MOST_LEGS:
            raise _no_path()
        at = leg.end()
        if leg["name"] is not None:
            yield _unquote(leg["name"])
        elif leg["index"] is not None:
            yield _Cell(int(leg["index"]), from_end=False)
        else:
            yield _Cell(int(leg["before_last"] or 0), from_end=True)


def _text(path: bytes) -> str:
    try:
        return path.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError("a path into a JSON document isn't UTF-8") from error


def _unquote(name: str) -> bytes:
    try:
        return str(loads(name) if name.startswith('"') else name).encode()
    except (JSONDecodeError, UnicodeEncodeError) as error:  # the second for half a surrogate pair
        raise _no_path() from error


def _no_path() -> UndecodableError:
    return UndecodableError("the path of a diff isn't a path into a JSON document")


def _missing() -> UndecodableError:
    return UndecodableError("a diff of a JSON document is of a part that the document doesn't have")


def _parent(node: _Object | _Array, way: list[_Leg]) -> _Object | _Array:
    """The container that these legs lead to, opened, and those on the way to it."""
    for leg in way:
        match node, leg:
            case dict(), bytes() if leg in node:
                inner = _open(node[leg])
                node[leg] = inner
            case list(), _Cell():
                place, exists = leg.place(len(node))
                if not exists:
                    raise _missing()
                inner = _open(node[place])
                node[place] = inner
            case _:
                raise _missing()
        node = inner
    return node


def _replace(parent: _Object | _Array, leg: _Leg, value: _Node) -> None:
    match parent, leg:
        case dict(), bytes() if leg in parent:
            parent[leg] = value
        case list(), _Cell() if leg.place(len(parent))[1]:
            parent[leg.place(len(parent))[0]] = value
        case _:
            raise _missing()


def _insert(parent: _Object | _Array, leg: _Leg, value: _Node) -> None:
    match parent, leg:
        case dict(), bytes() if leg not in parent:
            parent[leg] = value
        case list(), _Cell():
            parent.insert(leg.place(len(parent))[0], value)
        case _:
            raise _missing()


def _remove(parent: _Object | _Array, leg: _Leg) -> None:
    match parent, leg:
        case dict(), bytes() if leg in parent:
            del parent[leg]
        case list(), _Cell() if leg.place(len(parent))[1]:
            del parent[leg.place(len(parent))[0]]
        case _:
            raise _missing()


# Containers


def _open(node: _Node) -> _Object | _Array:
    if not isinstance(node, _Packed):
        return node
    if node.kind >= _LITERAL:
        raise _missing()
    word = 4 if node.kind & _LARGE else 2
    cursor = Cursor(node.data)
    count = cursor.integer(word)
    data = node.data[: cursor.integer(word)]
    budget = len(data)
    names: list[bytes] = []
    for _ in range(count if node.kind < _ARRAY else 0):
        names.append(_slice(data, cursor.integer(word), cursor.integer(2)))
        budget = _paid(budget, names[-1])
    values: list[_Node] = []
    for _ in range(count):
        value = _element(data, cursor.integer(1), cursor.take(word))
        values.append(value)
        budget = _paid(budget, value.data)
    if node.kind >= _ARRAY:
        return values
    members = dict(zip(names, values, strict=True))
    if len(members) != count:
        raise UndecodableError("an object in a JSON document has two members of one name")
    return members


def _paid(budget: int, part: bytes) -> int:
    """Returns how many of a container's bytes are left after this part of it."""
    if len(part) > budget:
        raise UndecodableError("values of a JSON document overlap")
    return budget - len(part)


def _element(data: bytes, kind: int, entry: bytes) -> _Packed:
    """The element with this type and the rest of its entry, in a container with these bytes."""
    size = _SIZES.get(kind)
    if size is not None and size <= len(entry):
        return _Packed(kind, entry[:size])
    at = int.from_bytes(entry, "little")
    if size is not None:
        return _Packed(kind, _slice(data, at, size))
    if kind < _LITERAL:
        word = 4 if kind & _LARGE else 2
        return _Packed(kind, _slice(data, at, int.from_bytes(_slice(data, at + word, word), "little")))
    if kind not in (_STRING, _OPAQUE):
        raise UndecodableError("a JSON document has a value of a type that JSON doesn't have")
    length, behind = 0, at + (kind == _OPAQUE)  # whose type is before the length
    for shift in range(0, 35, 7):
        (byte,) = _slice(data, behind, 1)
        length |= (byte & 0x7F) << shift
        behind += 1
        if byte < 0x80:
            break
    return _Packed(kind, _slice(data, at, behind + length - at))


def _slice(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise UndecodableError("a JSON document ends inside of a value")
    return data[at : at + length]


def _pack(node: _Node) -> _Packed:
    """A node put together again; containers that were open become large ones."""
    if isinstance(node, _Packed):
        return node
    names: list[bytes] = []
    if isinstance(node, dict):
        names = sorted(node, key=lambda name: (len(name), name))  # as the server orders members
        kind, values = _OBJECT | _LARGE, [node[name] for name in names]
    else:
        kind, values = _ARRAY | _LARGE, node
    head = 8 + 6 * len(names) + 5 * len(node)
    entries, rest = bytearray(), bytearray()
    for name in names:
        entries += (head + len(rest)).to_bytes(4, "little") + len(name).to_bytes(2, "little")
        rest += name
    for value in values:
        of_value, data = _pack(value)
        if of_value in _INLINED:
            entries += bytes([of_value]) + data.ljust(4, b"\0")
        else:
            entries += bytes([of_value]) + (head + len(rest)).to_bytes(4, "little")
            rest += data
    counts = len(node).to_bytes(4, "little") + (head + len(rest)).to_bytes(4, "little")
    return _Packed(kind, counts + entries + rest)
