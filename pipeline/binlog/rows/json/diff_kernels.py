"""Compiled: the log's diffs of JSON documents, applied.

A diff is an operation (one byte), a path and, unless it removes, a value. Path and value each have a length before
them.

Source: MySQL 9.7 source, sql/json_diff.cc (`read_binary`), sql-common/json_dom.cc (`apply_json_diff`); source
documentation, "Protocol::LengthEncodedInteger".
"""

from typing import Final

import numpy as np

from pipeline.binlog.rows.json import document_tree, path_legs
from pipeline.binlog.rows.json.document_kernels import DEEPEST_DOCUMENT, LITERAL, SCALAR_SIZES
from pipeline.binlog.rows.json.document_tree import ROOT, Nodes
from pipeline.binlog.rows.json.opaque_values import NOT_WRITTEN
from pipeline.types.buffers import Bytes, Cells, Int, Longs
from pipeline.types.byte_kernels import put_unsigned, unsigned
from pipeline.types.jit import compiled

LENGTH_BYTES: Final = 4  # bytes of a length before each of the documents that come out

_ROOM_OF_EACH: Final = 32  # bytes, besides twice those of the document and its diffs (`document_tree.pack`)

# What is wrong with diffs, besides with their paths and with the document.
DIFFS_END: Final = -30
NO_LENGTH: Final = -31
NO_OPERATION: Final = -32
NOT_A_VALUE: Final = -33

# What `state` holds between two calls: which document is next, and where it goes; and within one document, how many
# nodes and how many bytes of names there are.
DIFFS_DOCUMENT: Final = 0
DIFFS_TO: Final = 1
_NODES: Final = 2
_NAMES: Final = 3
DIFFS_STATE: Final = 4  # numbers

# What a diff does (enum_json_diff_operation).
_REPLACE: Final = 0
_INSERT: Final = 1
_REMOVE: Final = 2


@compiled("UniTuple(int64, 2)(uint8[::1], int64, int64)")
def _run(buffer: Bytes, at: Int, end: Int) -> tuple[Int, Int]:
    """Returns where the bytes behind their length, a length-encoded integer at buffer[at:], begin and end. Or an error
    code."""
    if at >= end:
        return np.int64(DIFFS_END), end
    length: Int = np.int64(buffer[at])
    at += 1
    if length > 250:
        if length in (251, 255):
            return np.int64(NO_LENGTH), end
        width = length - 250 if length < 254 else np.int64(8)
        if at + width > end:
            return np.int64(DIFFS_END), end
        length = unsigned(buffer, at, width)
        at += width
    if length < 0 or length > end - at:
        return np.int64(DIFFS_END), end
    return at, at + length


@compiled("int64(int64[:, ::1], int64, uint8[::1], int64, int64)", inlined=True)
def _read_value(nodes: Nodes, node: Int, buffer: Bytes, at: Int, end: Int) -> Int:
    """Let the node be the value at buffer[at:end]. Returns 0, or an error code."""
    if at == end:
        return np.int64(NOT_A_VALUE)
    kind = np.int64(buffer[at])
    size = SCALAR_SIZES[kind] if kind < len(SCALAR_SIZES) else np.int64(0)
    if size and size != end - at - 1:
        return np.int64(NOT_A_VALUE)
    document_tree.set_value(nodes, node, kind, at + 1, end - at - 1)
    return np.int64(0)


@compiled("UniTuple(int64, 2)(int64[:, ::1], uint8[::1], int64, int64, uint8[::1], int64[::1], int64[::1])")
def _follow_path(
    nodes: Nodes, buffer: Bytes, at: Int, end: Int, names: Bytes, leg: Longs, state: Longs
) -> tuple[Int, Int]:
    """Goes the path at buffer[at:end] and opens the containers on it. Returns the last container, and 0; `leg` is the
    path's last then. Or an error code twice."""
    parent: Int = np.int64(ROOT)
    wrong: Int = np.int64(0)
    legs = 0
    if at == end or buffer[at] != 36:  # $
        wrong = np.int64(path_legs.NO_PATH)
    at += 1
    while not wrong:
        at = path_legs.next_leg(buffer, at, end, names, state[_NAMES], leg)
        legs += 1
        if at < 0 or legs > DEEPEST_DOCUMENT:
            wrong = np.int64(path_legs.NO_PATH)
            break
        used = document_tree.open_container(nodes, parent, buffer, state[_NODES], np.int64(len(nodes)))
        if used < 0:
            wrong = used
            break
        state[_NODES] = used
        if at == end:
            break
        child, _ = document_tree.find(nodes, parent, buffer, names, leg)
        if child < 0:
            wrong = np.int64(document_tree.MISSING)
        parent = child
    return (wrong, wrong) if wrong else (parent, wrong)


@compiled("int64(int64[:, ::1], uint8[::1], int64, int64, uint8[::1], int64[::1], int64[::1])")
def _apply_one(nodes: Nodes, buffer: Bytes, at: Int, end: Int, names: Bytes, leg: Longs, state: Longs) -> Int:
    """Applies the diff at buffer[at:]. Returns where the next one is, or an error code."""
    operation = buffer[at]
    path, behind_path = _run(buffer, at + 1, end)
    if path < 0:
        return path
    if operation > _REMOVE:
        return np.int64(NO_OPERATION)
    parent, wrong = _follow_path(nodes, buffer, path, behind_path, names, leg, state)
    if wrong:
        return wrong
    child, before = document_tree.find(nodes, parent, buffer, names, leg)
    is_element = leg[path_legs.LEG_KIND] != path_legs.MEMBER_LEG
    fits = is_element or child < 0 if operation == _INSERT else child >= 0
    if child == document_tree.MISSING or not fits:
        return np.int64(document_tree.MISSING)
    if operation == _REMOVE:
        document_tree.remove(nodes, parent, before, child)
        return behind_path
    value, behind = _run(buffer, behind_path, end)
    if value < 0:
        return value
    if operation == _INSERT:
        child = state[_NODES]
        if child == len(nodes):
            return np.int64(NOT_WRITTEN)
        state[_NODES] = child + 1
        document_tree.insert(nodes, parent, before, child, leg)
        if not is_element:
            state[_NAMES] += leg[path_legs.LEG_LENGTH]
    wrong = _read_value(nodes, child, buffer, value, behind)
    return wrong or behind


@compiled("int64(uint8[::1], int32[::1], int32[::1], int64)")
def room(buffer: Bytes, before: Cells, diffs: Cells, prefix: Int) -> Int:
    """How many bytes `apply` writes at most."""
    needed = np.int64(0)
    for i in range(len(before)):
        lengths = unsigned(buffer, np.int64(before[i]), prefix) + unsigned(buffer, np.int64(diffs[i]), prefix)
        needed += 2 * lengths + _ROOM_OF_EACH
    return needed


@compiled(
    "int64(uint8[::1], int32[::1], int32[::1], int64, int64[:, ::1], uint8[::1], int64[::1], int64[::1], uint8[::1],"
    " int32[::1], int64[::1])"
)
def apply(
    buffer: Bytes,
    before: Cells,
    diffs: Cells,
    prefix: Int,
    nodes: Nodes,
    names: Bytes,
    stack: Longs,
    leg: Longs,
    out: Bytes,
    places: Cells,
    state: Longs,
) -> Int:
    """Writes the documents that come of those at `before`, each after its length of `prefix` bytes, by the `diffs`.

    They go end to end into `out`, each after a length of `LENGTH_BYTES`; `places` takes where each begins. `out` and
    `names` have the bytes that `room` says. `stack` is memory for `PACK_STACK` numbers, `leg` for `LEG_SIZE`.

    Returns 0, or NOT_WRITTEN if it has to be called again with more `nodes`, or the error code of the document in
    `state`.
    """
    while state[DIFFS_DOCUMENT] < len(before):
        document, to = state[DIFFS_DOCUMENT], state[DIFFS_TO]
        at = np.int64(before[document])
        length = unsigned(buffer, at, prefix)
        if length:
            kind = np.int64(buffer[at + prefix])
            document_tree.set_value(nodes, np.int64(ROOT), kind, at + prefix + 1, length - 1)
        else:  # which the server takes for null: a literal whose one byte is zero, like those of the length
            document_tree.set_value(nodes, np.int64(ROOT), np.int64(LITERAL), at, np.int64(1))
        state[_NODES], state[_NAMES] = ROOT + 1, 0
        diff: Int = np.int64(diffs[document]) + prefix
        end = diff + unsigned(buffer, diff - prefix, prefix)
        while diff < end:
            diff = _apply_one(nodes, buffer, diff, end, names, leg, state)
            if diff < 0:
                return diff
        behind = document_tree.pack(nodes, buffer, names, stack, out, to + LENGTH_BYTES)
        put_unsigned(out, to, behind - to - LENGTH_BYTES, np.int64(LENGTH_BYTES))
        places[document] = to
        state[DIFFS_TO] = behind
        state[DIFFS_DOCUMENT] = document + 1
    return np.int64(0)
