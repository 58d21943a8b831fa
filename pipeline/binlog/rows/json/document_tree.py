"""Compiled: MySQL's binary JSON as a tree, of which only the containers that a path leads through are opened.

The tree is a table of nodes. A node is a value as it lies in `buffer`: its type, and its bytes. A container that is
opened has its values as children, each a node with the next one's number. A member's name lies in `buffer`, too, or in
`names` if a path gave it. All else stays packed, because offsets count from the beginning of each container. So the
cost of a change depends on the containers on its path, and at the end the bytes of the whole are copied once.

**It ends, with any bytes.** Offsets could make values share their bytes, and so describe exponentially much. But in
what a server writes, the bytes of two values never overlap. So the names and values of a container pay for their bytes
from a budget, which is the container's size. A container that can't pay is refused. Each value enters the tree once, so
that changes can't multiply data either.

**No read outside the document.** A container's values end before it does, and so on up to the document, whose length
`locate_cells` has checked. Words of 8 bytes may reach into the slack.

Source: MySQL 9.7 source, sql-common/json_binary.h (format), json_dom.h (`Json_key_comparator`: the order of members).
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.binlog.rows.json import path_legs
from pipeline.binlog.rows.json.document_kernels import (
    ARRAY,
    DEEPEST_DOCUMENT,
    ENDS,
    LITERAL,
    NO_TYPE,
    OPAQUE,
    OVERLAPS,
    REACHES_BEYOND,
    SCALAR_SIZES,
    STRING,
    varying_length,
)
from pipeline.binlog.rows.json.opaque_values import NOT_WRITTEN
from pipeline.types.buffers import Bytes, Int, Longs
from pipeline.types.byte_kernels import copy, put_unsigned, unsigned
from pipeline.types.jit import compiled

Nodes = NDArray[np.int64]  # [nodes, NODE_SIZE]

# What is wrong, besides what `document_kernels` says of documents.
MISSING: Final = -21
DISORDERED: Final = -22

# A node. Where its name begins (below zero: ~place in `names`) and its length; the first child's number, the next
# sibling's, and how many children there are. No node has the number NONE.
_TYPE: Final = 0
_AT: Final = 1
_LENGTH: Final = 2
_NAME: Final = 3
_NAME_LENGTH: Final = 4
_IS_OPEN: Final = 5
_FIRST: Final = 6
_NEXT: Final = 7
_COUNT: Final = 8
NODE_SIZE: Final = 9  # numbers

ROOT: Final = 0
_NONE: Final = -1

_LARGE: Final = 1  # what the type of a large container has, besides that of a small one
_UINT32: Final = 8  # the last type of those whose values fit into an entry of a large container

# Of each container that is being packed, in `stack` from `frame` on: where it begins, where its next value's entry is,
# and the number of that value.
_BASE, _ENTRY, _CHILD, _FRAME = range(4)
PACK_STACK: Final = DEEPEST_DOCUMENT * _FRAME


@compiled("void(int64[:, ::1], int64, int64, int64, int64)", inlined=True)
def set_value(nodes: Nodes, node: Int, kind: Int, at: Int, length: Int) -> None:
    """Let the node be this value, packed."""
    nodes[node, _TYPE], nodes[node, _AT], nodes[node, _LENGTH] = kind, at, length
    nodes[node, _IS_OPEN], nodes[node, _FIRST], nodes[node, _COUNT] = 0, _NONE, 0


@compiled("int64(uint8[::1], int64, int64, int64)", inlined=True)
def _length(buffer: Bytes, kind: Int, at: Int, end: Int) -> Int:
    """How many bytes the value at buffer[at:] has, or an error code."""
    if kind < LITERAL:
        width = np.int64(4) if kind & _LARGE else np.int64(2)
        return unsigned(buffer, at + width, width) if at + 2 * width <= end else np.int64(ENDS)
    if kind in (STRING, OPAQUE):
        behind, length = varying_length(buffer, at + np.int64(kind == OPAQUE), end)
        return behind + length - at if behind >= 0 else behind
    return SCALAR_SIZES[kind] if kind < STRING else np.int64(NO_TYPE)


@compiled("int64(int64[:, ::1], int64, uint8[::1], int64, int64, int64, int64)", inlined=True)
def _read_value(nodes: Nodes, node: Int, buffer: Bytes, base: Int, end: Int, entry: Int, width: Int) -> Int:
    """Make the node of the value with this entry in buffer[base:end]. Returns its length, or an error code."""
    kind = np.int64(buffer[entry])
    if LITERAL <= kind < STRING and SCALAR_SIZES[kind] <= width:
        size: Int = SCALAR_SIZES[kind]
        set_value(nodes, node, kind, entry + 1, size)
        return size
    at = base + unsigned(buffer, entry + 1, width)
    length = _length(buffer, kind, at, end)
    if length >= 0 and at + length > end:
        return np.int64(ENDS)
    set_value(nodes, node, kind, at, length)
    return length


@compiled("int64(int64[:, ::1], int64, uint8[::1], int64, int64, int64, int64)", inlined=True)
def _read_name(nodes: Nodes, node: Int, buffer: Bytes, base: Int, end: Int, entry: Int, width: Int) -> Int:
    """Give the node the name with this entry. Returns the name's length, or an error code."""
    at, length = base + unsigned(buffer, entry, width), unsigned(buffer, entry + width, np.int64(2))
    nodes[node, _NAME], nodes[node, _NAME_LENGTH] = at, length
    return length if at + length <= end else np.int64(ENDS)


@compiled("int64(uint8[::1], int64, int64, uint8[::1], int64, int64)", inlined=True)
def _order(one: Bytes, at: Int, length: Int, other: Bytes, there: Int, as_long: Int) -> Int:
    """Below, at or above zero, as the first name is before, the same as, or behind the other. Short ones are first."""
    if length != as_long:
        return length - as_long
    for k in range(length):
        if one[at + k] != other[there + k]:
            return np.int64(one[at + k]) - np.int64(other[there + k])
    return np.int64(0)


@compiled("boolean(int64[:, ::1], int64, int64, uint8[::1])", inlined=True)
def _in_order(nodes: Nodes, first: Int, behind: Int, buffer: Bytes) -> bool:
    """Whether the names of the nodes from `first` to `behind` are in the order of members, each once."""
    for node in range(first + 1, behind):
        at, length = nodes[node - 1, _NAME], nodes[node - 1, _NAME_LENGTH]
        if _order(buffer, at, length, buffer, nodes[node, _NAME], nodes[node, _NAME_LENGTH]) >= 0:
            return False
    return True


@compiled("int64(int64[:, ::1], int64, uint8[::1], int64, int64)")
def open_container(nodes: Nodes, node: Int, buffer: Bytes, used: Int, most: Int) -> Int:
    """Gives a container its children, the nodes from `used` on, if it isn't open. `most`: how many nodes there
    may be.

    Returns how many nodes there are then, NOT_WRITTEN if there may be too few, or an error code.
    """
    if nodes[node, _IS_OPEN]:
        return used
    kind = nodes[node, _TYPE]
    if kind >= LITERAL:
        return np.int64(MISSING)
    width, base = np.int64(4) if kind & _LARGE else np.int64(2), nodes[node, _AT]
    if nodes[node, _LENGTH] < 2 * width:
        return np.int64(ENDS)
    count, budget = unsigned(buffer, base, width), unsigned(buffer, base + width, width)
    end = base + budget
    if budget > nodes[node, _LENGTH]:
        return np.int64(REACHES_BEYOND)
    is_array = kind >= ARRAY
    name_entry = base + 2 * width
    entry = name_entry + (np.int64(0) if is_array else count * (width + 2))
    if entry + count * (width + 1) > end:
        return np.int64(ENDS)
    if used + count > most:
        return np.int64(NOT_WRITTEN)
    for child in range(used, used + count):
        length = _read_value(nodes, child, buffer, base, end, entry, width)
        if length < 0:
            return length
        budget -= length
        entry += width + 1
        if not is_array:
            length = _read_name(nodes, child, buffer, base, end, name_entry, width)
            if length < 0:
                return length
            budget -= length
            name_entry += width + 2
        if budget < 0:
            return np.int64(OVERLAPS)
        nodes[child, _NEXT] = child + 1
    if not is_array and not _in_order(nodes, used, used + count, buffer):
        return np.int64(DISORDERED)
    if count:
        nodes[node, _FIRST] = used
        nodes[used + count - 1, _NEXT] = _NONE
    nodes[node, _TYPE], nodes[node, _IS_OPEN], nodes[node, _COUNT] = kind | _LARGE, 1, count
    return used + count


@compiled("UniTuple(int64, 2)(int64[:, ::1], int64, uint8[::1], uint8[::1], int64[::1])")
def find(nodes: Nodes, parent: Int, buffer: Bytes, names: Bytes, leg: Longs) -> tuple[Int, Int]:
    """Returns the child that a leg names in this open container, and the child before that.

    The first is NONE if the container has no such child, and MISSING if it can't have one. Then the second is the child
    before the place where it would be.
    """
    is_array = nodes[parent, _TYPE] >= ARRAY
    before, child = np.int64(_NONE), nodes[parent, _FIRST]
    if is_array != (leg[path_legs.LEG_KIND] != path_legs.MEMBER_LEG):
        return np.int64(MISSING), before
    if is_array:
        number, count = leg[path_legs.LEG_NUMBER], nodes[parent, _COUNT]
        exists = number < count
        if leg[path_legs.LEG_KIND] == path_legs.FROM_END_LEG:
            number = count - 1 - number
        for _ in range(min(max(number, 0), count)):
            before, child = child, nodes[child, _NEXT]
        return (child if exists else np.int64(_NONE)), before
    name, length = leg[path_legs.LEG_NAME], leg[path_legs.LEG_LENGTH]
    while child != _NONE:
        at, as_long = nodes[child, _NAME], nodes[child, _NAME_LENGTH]
        if at < 0:
            order = _order(names, ~at, as_long, names, name, length)
        else:
            order = _order(buffer, at, as_long, names, name, length)
        if order >= 0:
            return (child if order == 0 else np.int64(_NONE)), before
        before, child = child, nodes[child, _NEXT]
    return np.int64(_NONE), before


@compiled("void(int64[:, ::1], int64, int64, int64)", inlined=True)
def _link(nodes: Nodes, parent: Int, before: Int, child: Int) -> None:
    """Let this child be the one behind `before`."""
    if before == _NONE:
        nodes[parent, _FIRST] = child
    else:
        nodes[before, _NEXT] = child


@compiled("void(int64[:, ::1], int64, int64, int64, int64[::1])")
def insert(nodes: Nodes, parent: Int, before: Int, child: Int, leg: Longs) -> None:
    """Put a node into its parent, behind `before`, under the name that its leg has."""
    nodes[child, _NAME], nodes[child, _NAME_LENGTH] = ~leg[path_legs.LEG_NAME], leg[path_legs.LEG_LENGTH]
    nodes[child, _NEXT] = nodes[parent, _FIRST] if before == _NONE else nodes[before, _NEXT]
    _link(nodes, parent, before, child)
    nodes[parent, _COUNT] += 1


@compiled("void(int64[:, ::1], int64, int64, int64)")
def remove(nodes: Nodes, parent: Int, before: Int, child: Int) -> None:
    """Take the child behind `before` out of its parent."""
    _link(nodes, parent, before, nodes[child, _NEXT])
    nodes[parent, _COUNT] -= 1


@compiled("int64(int64[:, ::1], int64, uint8[::1], uint8[::1], int64[::1], int64, uint8[::1], int64)")
def _begin(
    nodes: Nodes, node: Int, buffer: Bytes, names: Bytes, stack: Longs, frame: Int, out: Bytes, to: Int
) -> Int:
    """Write an open container up to its first value, with room for the values' entries. Returns where that goes."""
    is_array, count = nodes[node, _TYPE] >= ARRAY, nodes[node, _COUNT]
    base, entry = to, to + 8
    to = entry + (np.int64(5) if is_array else np.int64(11)) * count
    put_unsigned(out, base, count, np.int64(4))
    child = nodes[node, _FIRST]
    while child != _NONE and not is_array:
        name, length = nodes[child, _NAME], nodes[child, _NAME_LENGTH]
        put_unsigned(out, entry, to - base, np.int64(4))
        put_unsigned(out, entry + 4, length, np.int64(2))
        if name < 0:
            copy(names, ~name, length, out, to)
        else:
            copy(buffer, name, length, out, to)
        entry += 6
        to += length
        child = nodes[child, _NEXT]
    stack[frame + _BASE], stack[frame + _ENTRY], stack[frame + _CHILD] = base, entry, nodes[node, _FIRST]
    return to


@compiled("int64(int64[:, ::1], uint8[::1], uint8[::1], int64[::1], uint8[::1], int64)")
def pack(nodes: Nodes, buffer: Bytes, names: Bytes, stack: Longs, out: Bytes, to: Int) -> Int:
    """Writes the document; containers that are open become large ones. `stack` is memory for `PACK_STACK` numbers.

    Returns where the next one goes. At most twice as many bytes are written as the document had and its changes have,
    and 16 more. An entry has 5 bytes instead of 3, one of a name 6 instead of 4, a container's head 8 instead of 4.
    """
    out[to] = np.uint8(nodes[ROOT, _TYPE])
    to += 1
    if not nodes[ROOT, _IS_OPEN]:
        whole: Int = nodes[ROOT, _LENGTH]
        copy(buffer, nodes[ROOT, _AT], whole, out, to)
        return to + whole
    frame = np.int64(0)
    to = _begin(nodes, np.int64(ROOT), buffer, names, stack, frame, out, to)
    while frame >= 0:
        base, entry, child = stack[frame + _BASE], stack[frame + _ENTRY], stack[frame + _CHILD]
        if child == _NONE:
            put_unsigned(out, base + 4, to - base, np.int64(4))
            frame -= _FRAME
            continue
        stack[frame + _ENTRY], stack[frame + _CHILD] = entry + 5, nodes[child, _NEXT]
        kind, length = nodes[child, _TYPE], nodes[child, _LENGTH]
        out[entry] = np.uint8(kind)
        if LITERAL <= kind <= _UINT32:
            put_unsigned(out, entry + 1, np.int64(0), np.int64(4))
            copy(buffer, nodes[child, _AT], length, out, entry + 1)
            continue
        put_unsigned(out, entry + 1, to - base, np.int64(4))
        if nodes[child, _IS_OPEN]:
            frame += _FRAME
            to = _begin(nodes, child, buffer, names, stack, frame, out, to)
        else:
            copy(buffer, nodes[child, _AT], length, out, to)
            to += length
    return to
