"""The window: the time in which a chunk and the log may both have a row. Changes of the log win.

**The stream** is the one ordered sequence that goes to the journal: the log's transactions, and between them the rows
of chunks. It advances by a *slice* at a time: several complete transactions of the log, or a part of a large one. A
transaction *has passed* once it is in the stream. The stream's *position* is the GTID set of all that have passed.

**A chunk** is the rows of one SELECT. A window opens when the coordinator orders its chunk. It closes when the stream
has passed the high watermark. Then the rows whose keys no change touched enter the stream there. **Claim:** *each of
these rows equals the source's row at the very point of the stream at which the coordinator emits it*.

**Symbols.** The five moments of a window in the order of time, and a set of keys:

- A: the stream's position when the coordinator orders the chunk (`ordered_at` in the order).
- L, the low watermark: a GTID set that the ChunkSelector reads just before S. It is what the server has executed,
  without the transactions that a thread of the server still owns. Those may be in the log and not committed yet.
- S: the SELECT that reads the chunk. It sees one state of the table.
- H, the high watermark: the end of the server's log (file and offset), which the ChunkSelector reads just after S.
- E: the point of the stream at which the coordinator emits the chunk's rows.
- K, the touched keys. Take the transactions that passed between A and E and aren't in L. K has the old and the new
  primary key of each row that they changed.

The log orders H and E: E is at or after H once the stream has the log up to there. GTID sets have no such order. So
A ⊆ L only means that L contains every transaction of A.

**Assumptions.**

1. A ⊆ L. The ChunkSelector reads L again until that holds, and `take_chunk` checks it.
2. What L holds had committed before S began, so S saw it: no thread owned it any more.
3. What S saw was in the log before H was read, because a server writes a transaction to its log before it commits.
4. H has passed at E (`can_close`), and E lies between two transactions (`pipeline.coordinator.step`).
5. No emitted row has a key in K: `pass_keys` keeps the keys of each slice, and `untouched_rows` removes the rows.
6. The log has the changes of one row in the order in which they were made. A transaction holds a row's lock until it is
   in the log.

**Proof.** S returned a row. Suppose that the source's row at E differs from it (another value, or no row). Then some
transaction T changed this row, and one of two cases holds:

1. S saw T, and the stream up to E doesn't have T. By 3 T was in the log before H was read. By 4 E is at or after H. So
   the stream has T: a contradiction.
2. The stream up to E has T, and S didn't see T. By 2 T isn't in L. By 1 T isn't in A. So T passed between A and E,
   and its keys are in K. Take the first such T in the log that changes this row after the state that S saw. By 6
   nothing changed the row in between. So its old key is the key that S returned, byte for byte. That key is in K, and
   by 5 the row isn't emitted.

A row that S didn't return needs no separate argument. If the source has it at E, then a T as in case 2 brought it into
the chunk's range, and the stream has T. Touching too many keys is harmless: the change that touched a key is in the
stream with the row's complete image. The proof compares GTIDs only by membership, never by order, and keys only for
equality. It holds for any E after H between two transactions, so the stream may advance by slices.

**Partial images.** With `binlog_row_image = MINIMAL` a change may have only some columns of a row. If it leaves the row
under its key, that key isn't in K. Instead the change overwrites the columns that it has, and S has the others as they
are at E (`pipeline.coordinator.partial_rows` has the proof).

**Parts of a transaction** suffice too. The proof needs only two things. A complete transaction is on one side of A and
of E, and all of its keys are touched if it lies between. Between its first part and its end no chunk is ordered and no
row emitted, so both hold. A window that is open at one part is open at all of them, or was dropped. The GTID is known
from the first part, so all parts have the same membership in L.

**Other watermarks.** Of H the proof needs only what 3 and 4 say together: all that S saw has passed at E. That also
holds for the executed set of the server that S read, once this set is proven complete and the stream's position
contains it. And it holds for a row written to the log after S, once that row has passed. Of L the proof needs 1 and 2.
On a server without GTIDs L is A itself. H is a row that the ChunkSelector inserts into a table of the source after S (a
*marker row*). `pipeline.snapshot.watermark` says why both suffice.

**Many windows.** The proof is about one window and doesn't mention others, so any number may be open. It doesn't
mention the *walk* either, the index along which a table's chunks are read. The primary key tells rows apart, and only
their presence in the chunk matters. A table is divided into *ranges* of its walk, each read chunk by chunk. All windows
of a table together have one more claim: the table is complete when all its ranges are. The ranges are intervals of the
server's own order, disjoint and without a gap: each begins with the key at which the one before ends. Take a row of the
source at the end. Either no transaction that passed since the order of its range's chunk changed it. Then the chunk
that has its key saw it, between the key after which it began (`after`) and that at which it ended (`upto`). Or such a
transaction did, and the stream has the row. A row whose key moves from one range to another was changed by that, so it
is the second case in both.

A row that moved along the walk may come in two chunks. Either the two copies have different primary keys, or the later
one counts. So chunks along another index than the primary key become rows of the changelog (`__op` = r), the table of
all changes. They never go straight into the mirror, the table that has each row once.

**Rows that are read again** by their keys are a chunk of exactly these keys, and the proof is the same. The order
(`ReadByKeys`) is one to re-read rows, `ReselectRows`, or to repair them, `RepairRows`. Of the log only their keys
matter. The server's collation may return a row with other bytes for one of them. That isn't the row: it got this key by
a change, which the stream has. S may be several SELECTs between L and H, each of some of the keys. The proof is about
one row, so it holds with the S of that row's key.

**The last change of a key** suffices while L isn't known. Suppose that S didn't see a T that changed the row. A later
change of this row found T's in the row. So S didn't see the last one either, by 2 it isn't in L, and its key is in K.
Of the partial images of a row, one is overwritten by a later one with the same columns. So `_keep_last_changes` keeps
the last of each, where nothing else bounds what a window keeps.

**Keys that are gone.** A repair (`RepairRows`) also emits the keys of which S returned no row with exactly these bytes,
without those in K. Each has no row at E. Suppose that it has one. Then some T gave a row this key after the state that
S saw, or S would have returned it. The two cases hold for this T: its new key is in K.

Sources: DBLog (Andreakis and Papapanagiotou, 2020) for the window; MySQL's WL#6355 for what commit order does and
doesn't promise; `pipeline.snapshot.watermark` for why the high watermark is a position in the log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.coordinator.partial_rows import PartialRows, apply_partial_rows, last_places
from pipeline.errors import InvariantBroken
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.chunks import ChunkRead, ReadByKeys, ReadChunk, RepairRows
from pipeline.schema.row_keys import Key, key_tokens
from pipeline.snapshot.watermark import High, StreamPosition, is_usable_low

# So many of the last slices that passed a window stay apart at most: each is an object, however few keys it has.
SLICES_APART: Final = 64

# So few keys of a window, and so few bytes, are kept however often the keys come.
FEW_KEYS: Final = 4096
FEW_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class SliceKeys:
    """The keys that one slice of transactions touched in one table.

    `transactions`: those that touched one of `tokens`, and no others, since a slice may have thousands of other tables.
    `tokens`: a token for each key, its bytes in one binary value, so that equal keys have equal tokens. `transaction`:
    for each token, the index of its transaction in `transactions`. `partial`: the rows that the slice changed in part.
    Their keys aren't among `tokens`.
    """

    transactions: Transactions
    transaction: npt.NDArray[np.int32]
    tokens: pa.Array
    partial: PartialRows | None = None

    @staticmethod
    def of(
        transactions: Transactions,
        transaction: npt.NDArray[np.int32],
        tokens: pa.Array,
        partial: PartialRows | None = None,
    ) -> "SliceKeys":
        """Returns these keys with only those of the slice's transactions that touched one of them."""
        used, places = np.unique(transaction, return_inverse=True)
        return SliceKeys(transactions.taken(used), places.astype(np.int32), tokens, partial)

    def __len__(self) -> int:
        return len(self.tokens) + (0 if self.partial is None else len(self.partial))

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the keys, of their transactions and of the kept rows."""
        size = int(self.tokens.nbytes) + self.transaction.nbytes + self.transactions.nbytes
        return size + (0 if self.partial is None else self.partial.nbytes)

    def among(self, keys: pa.Array) -> "SliceKeys":
        """Returns those whose tokens are among `keys`."""
        met = pc.is_in(self.tokens, keys)
        partial = None if self.partial is None else self.partial.where(pc.is_in(self.partial.tokens, keys))
        here = met.to_numpy(zero_copy_only=False)
        return SliceKeys.of(self.transactions, self.transaction[here], self.tokens.filter(met), partial)

    def last_changes(self) -> "SliceKeys":
        """Returns each key once, with the last transaction that touched it; likewise the partial rows."""
        last = last_places(self.tokens)
        partial = None if self.partial is None else self.partial.last_changes()
        return SliceKeys.of(
            self.transactions, self.transaction[last], self.tokens.take(pa.array(last)), partial
        )

    def outside(self, low: GtidSet) -> pa.Array:
        """Returns the tokens of the transactions that aren't in the low watermark."""
        not_in_low = self.transactions.not_in(low)
        return self.tokens.filter(pa.array(not_in_low[self.transaction]))

    @staticmethod
    def joined(several: Iterable["SliceKeys"]) -> "SliceKeys":
        """Returns the keys of several slices as those of one, in the order of the log."""
        slices = list(several)
        begins = accumulate((len(each.transactions) for each in slices), initial=0)
        partial = [each.partial for each in slices if each.partial is not None]
        return SliceKeys(
            Transactions.joined([each.transactions for each in slices]),
            np.concatenate([each.transaction + begin for each, begin in zip(slices, begins, strict=False)]),
            pa.concat_arrays([each.tokens for each in slices]),
            PartialRows.joined(partial) if partial else None,
        )


@dataclass(frozen=True, slots=True)
class PassedKeys:
    """The keys of all slices that passed while a window is open, in order. The last few slices are `apart`.

    The others are `joined`, and each of these has at least twice as many keys as the next one. So they are few, and
    each key was copied a few times.
    """

    joined: tuple[SliceKeys, ...] = ()
    apart: tuple[SliceKeys, ...] = ()

    def __iter__(self) -> Iterator[SliceKeys]:
        return chain(self.joined, self.apart)

    def __bool__(self) -> bool:
        return bool(self.joined or self.apart)

    def appended(self, keys: SliceKeys) -> "PassedKeys":
        """Returns these slices and one more at the end."""
        apart = (*self.apart, keys)
        if len(apart) < SLICES_APART:
            return PassedKeys(self.joined, apart)
        earlier, last = self.joined, SliceKeys.joined(apart)
        while earlier and len(earlier[-1]) < 2 * len(last):
            earlier, last = earlier[:-1], SliceKeys.joined((earlier[-1], last))
        return PassedKeys((*earlier, last))


@dataclass(frozen=True, slots=True)
class Reading:
    """The coordinator has ordered the chunk. It doesn't know yet which of the passing transactions are in L.

    `key_count` and `kept_bytes`: the number and the size of `passed_keys`. `last_count` and `last_bytes`: those of the
    last changes when only these were kept; 0 before that.
    """

    wire: ClassVar[str] = "reading"

    order: ReadChunk | ReadByKeys
    passed_keys: PassedKeys = PassedKeys()
    key_count: int = 0
    kept_bytes: int = 0
    last_count: int = 0
    last_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Reconciling:
    """The chunk has come, and the stream hasn't passed H yet.

    `low` and `high`: L and H. `rows`: the chunk's rows, without the `superseded` ones: those are already removed
    because their keys are in K. `upto`: the key at which the chunk ends, None at the end of the range. `passed_keys`:
    those of which K is computed when the window closes, `key_count` of them. `overlaid`: whether partial images already
    overwrote columns of some rows. `gone`: of a repair, the requested keys of which S returned no row, without those
    that are in K so far.
    """

    wire: ClassVar[str] = "reconciling"

    order: ReadChunk | ReadByKeys
    low: GtidSet
    high: High
    rows: pa.RecordBatch
    upto: Key | None
    passed_keys: PassedKeys
    key_count: int
    superseded: int = 0
    overlaid: bool = False
    gone: pa.RecordBatch | None = None


Window = Reading | Reconciling


def pass_keys(window: Window, keys: SliceKeys) -> Window:
    """Returns the window after a slice has passed that touched `keys` in its table."""
    if isinstance(window.order, ReadByKeys):
        keys = keys.among(window.order.tokens)
        if not len(keys):
            return window
    passed, number = window.passed_keys.appended(keys), window.key_count + len(keys)
    match window:
        case Reading():
            size = window.kept_bytes + keys.nbytes
            return _keep_last_changes(replace(window, passed_keys=passed, key_count=number, kept_bytes=size))
        case Reconciling():
            return _drop_touched_rows(replace(window, passed_keys=passed, key_count=number))


def can_be_smaller(order: ReadChunk | ReadByKeys) -> bool:
    """Returns whether the chunk may be ordered again with fewer rows."""
    return isinstance(order, ReadChunk) and order.limit > 1


def take_chunk(window: Reading, read: ChunkRead) -> Reconciling:
    """Returns the window with its chunk. Raises InvariantBroken unless A ⊆ L (`is_usable_low`)."""
    if not is_usable_low(read.low, window.order.ordered_at):
        raise InvariantBroken(
            f"chunk {read.chunk}: the low watermark {read.low} lacks transactions that had passed when the chunk "
            f"was ordered: {window.order.ordered_at - read.low}"
        )
    rows, gone = read.rows, None
    if isinstance(window.order, ReadByKeys):
        found = key_tokens(rows, window.order.schema.key)
        rows = rows.filter(pc.is_in(found, window.order.tokens))
        gone = _without_row(window.order, found) if isinstance(window.order, RepairRows) else None
    return _drop_touched_rows(
        Reconciling(
            window.order,
            read.low,
            read.high,
            rows,
            read.upto,
            window.passed_keys,
            window.key_count,
            gone=gone,
        )
    )


def can_close(window: Reconciling, passed: StreamPosition) -> bool:
    """Returns whether the stream, which is between two transactions, has passed H.

    H is one of three. The log's end has passed once the last transaction ended at or after it. A GTID set has passed
    once the position contains it. A marker row has passed with the transaction that inserted it.
    """
    return passed.has(window.high)


def untouched_rows(window: Reconciling) -> pa.RecordBatch:
    """Returns the chunk's rows whose keys aren't in K, with the columns of partial images applied."""
    if not window.passed_keys:
        return window.rows
    passed, key = SliceKeys.joined(window.passed_keys), window.order.schema.key
    gives_way = pc.is_in(key_tokens(window.rows, key), _touched(window, passed))
    rows = window.rows.filter(pc.invert(gives_way)) if pc.any(gives_way).as_py() else window.rows
    return rows if passed.partial is None else apply_partial_rows(rows, key, passed.partial)


def gone_keys(window: Reconciling) -> pa.RecordBatch:
    """Returns the keys that a repair requested, and of which the source has no row at E."""
    assert window.gone is not None
    if not window.passed_keys:
        return window.gone
    passed = SliceKeys.joined(window.passed_keys)
    touched = _touched(window, passed)
    if passed.partial is not None:
        touched = pa.concat_arrays([touched, passed.partial.tokens])
    own = key_tokens(window.gone, range(window.gone.num_columns))
    return window.gone.filter(pc.invert(pc.is_in(own, touched)))


def _touched(window: Reconciling, passed: SliceKeys) -> pa.Array:
    """Returns the tokens of K. With partial images it has the keys of all that passed, in L or not.

    Those need the order of all changes of a row, also of those in L. Touching too many keys is harmless.
    """
    low_matters = passed.partial is None and not window.overlaid
    return passed.outside(window.low) if low_matters else passed.tokens


def _without_row(order: RepairRows, found: pa.Array) -> pa.RecordBatch:
    return order.keys.filter(pc.invert(pc.is_in(order.tokens, found)))


def _keep_last_changes(window: Reading) -> Reading:
    """Returns the window with the last change of each key, once its keys or their bytes are twice as many as when that
    was done.

    That bounds the memory of a window that can't be ordered again with fewer rows, however often its keys change. The
    bytes are those of whole rows if images are partial.
    """
    if can_be_smaller(window.order):
        return window
    few_keys = window.key_count <= 2 * window.last_count + FEW_KEYS
    if few_keys and window.kept_bytes <= 2 * window.last_bytes + FEW_BYTES:
        return window
    last = SliceKeys.joined(window.passed_keys).last_changes()
    count, size = len(last), last.nbytes
    return Reading(window.order, PassedKeys((last,)), count, size, count, size)


def _drop_touched_rows(window: Reconciling) -> Reconciling:
    """Returns the window without touched rows and without keys, once the keys are more than the rows.

    That bounds memory. A lagging stream, or one large transaction, may touch any number of keys before H has passed.
    """
    if window.key_count <= len(window.rows):
        return window
    rows = untouched_rows(window)
    superseded = window.superseded + len(window.rows) - len(rows)
    partial = window.overlaid or any(keys.partial is not None for keys in window.passed_keys)
    return replace(
        window,
        rows=rows,
        passed_keys=PassedKeys(),
        key_count=0,
        superseded=superseded,
        overlaid=partial,
        gone=None if window.gone is None else gone_keys(window),
    )
