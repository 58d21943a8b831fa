"""The window: the time in which a chunk's rows and the log's changes may speak of the same rows, and changes win.

A window opens when its chunk is asked for and closes when the stream has passed the high watermark. Then the
rows whose keys no change touched are put into the stream at that place. The claim is strong: *each of these
rows equals the source's row at the very position at which it's emitted*.

Proof. Let A be the stream's position when the chunk was asked for, L the low watermark, S the SELECT, H the
end of the log after it, and E the place of emission, with H passed at E. Take a row that S returned, and
suppose that the source's row at E differs from it (another value, or no row). Then some transaction T changed
this row, and T is in the stream up to E but not in what S saw, or S saw T and T is not in the stream up to E.

- The second can't be: what S saw was in the log before H was read, and E is at or behind H.
- So T is at or before E in the stream and S didn't see it. T isn't in L: what L holds had committed before S
  began. T isn't in A either, because A ⊆ L (that's why a low watermark is `usable` only then). So T passed
  between asking and emission, and isn't in L, and just the keys of such transactions, old and new, are
  `touched`.
- Of these T take the first in the log that changes this row after what S saw. Its old key is the key that S
  returned, byte for byte, since nothing changed the row in between. So the row's key is touched, and it isn't
  emitted.

A row that S didn't return needs no argument of its own: if it's in the source at E, then a T as above brought
it into the chunk's range, and T is in the stream. Touching too much is harmless, since the change that
touched a key is in the stream with the row's whole image. The proof never compares GTIDs by order, only by
membership, and keys only for equality. It holds for any E behind H that lies between two transactions, so
slices of transactions will do. A change that has a part of a row is laid over the chunk's row instead:
`partial_rows` has the proof for that.

Parts of a transaction will do as well, since the proof needs only that a transaction is on one side of A and of E as
a whole, and that all of its keys are touched if it lies between. Nothing is asked for and nothing emitted between its
first part and its end, so that both sides hold, and a window that's open at one part is open at all of them or was
dropped. Its GTID is known from the first part on, so that its membership in L is that of the whole.

**Other watermarks.** H enters the proof only where it says that all that S saw has passed at E. That's as true of the
executed set of the server that S asked, once it's proven whole and contained in the stream's position, and of a row
that was written to the log behind S, once it has passed. L enters it in that S saw all of L, and that A ⊆ L; where a
row was committed before S, L may be A itself (`watermark`).

**Many windows.** The proof is of one window and knows of no other, so that any number may be open. Neither does it ask
along which index the chunk was read: a row is told from others by its primary key, and that it's in the chunk is all
that matters. What the windows of a table share is the claim that the table is complete when all its ranges are. The
ranges are intervals of the server's own order, disjoint and without a gap, as each begins with the key at which the
one before ends. Take a row of the source at the end. If no transaction that passed since its range's chunk was asked
for changed it, it was there for the chunk that has its key between `after` and `upto`; otherwise it's in the stream. A
row whose key moves from one range to another was changed by that, so it's the second case, in both.

A row that comes in two chunks, since it moved along the walk, comes with two primary keys, or it's a change of one
(`op` = r), of which the later one counts. So chunks along another index than the primary key's never go straight to a
mirror, where nothing counts but what's there.

**Rows that are read again** by their keys (`ReselectRows`) are a chunk of just these keys, and the proof is the same.
Of the log only their keys matter. A row that the server takes for one of them by its collation, with other bytes, isn't
one of them: it got this key by a change, which is in the stream.

Sources: DBLog (Andreakis and Papapanagiotou, 2020) for the window; WL#6355 for what commit order does and
doesn't promise; `watermark` for why the high watermark is a place in the log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.coordinator.partial_rows import Partial, laid_over
from pipeline.errors import InvariantBroken
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.chunks import ChunkRead, ReadChunk, ReselectRows
from pipeline.schema.row_keys import Key, tokens
from pipeline.snapshot.watermark import High, StreamPosition, usable


@dataclass(frozen=True, slots=True)
class PassedKeys:
    """The keys that a run of transactions touched in one table: a token and the transaction's index for each.

    `partial`: the rows that it left under their keys and has in part; their keys aren't among the others for that.
    """

    transactions: Transactions
    transaction: npt.NDArray[np.int32]
    tokens: pa.Array
    partial: Partial | None = None

    def __len__(self) -> int:
        return len(self.tokens) + (0 if self.partial is None else len(self.partial))

    @property
    def nbytes(self) -> int:
        """The bytes of the keys, and of the rows that are kept."""
        return int(self.tokens.nbytes) + (0 if self.partial is None else self.partial.nbytes)

    def among(self, keys: pa.Array) -> "PassedKeys":
        """Those that are among these keys."""
        met = pc.is_in(self.tokens, keys)
        partial = None if self.partial is None else self.partial.where(pc.is_in(self.partial.tokens, keys))
        here = met.to_numpy(zero_copy_only=False)
        return PassedKeys(self.transactions, self.transaction[here], self.tokens.filter(met), partial)

    def outside(self, low: GtidSet) -> pa.Array:
        """The tokens of those transactions that aren't in the low watermark."""
        not_in_low = self.transactions.not_in(low)
        return self.tokens.filter(pa.array(not_in_low[self.transaction]))

    @staticmethod
    def joined(several: Iterable["PassedKeys"]) -> "PassedKeys":
        """The keys of several runs, one behind the other."""
        runs = list(several)
        begins = accumulate((len(run.transactions) for run in runs), initial=0)
        partial = [run.partial for run in runs if run.partial is not None]
        return PassedKeys(
            Transactions.joined([run.transactions for run in runs]),
            np.concatenate([run.transaction + begin for run, begin in zip(runs, begins, strict=False)]),
            pa.concat_arrays([run.tokens for run in runs]),
            Partial.joined(partial) if partial else None,
        )


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs, one behind the other, to which one more is added without copying all: of n it copies about log n.

    That's since they are in pieces of which each is longer than the next one.
    """

    pieces: tuple[tuple[PassedKeys, ...], ...] = ()

    def __iter__(self) -> Iterator[PassedKeys]:
        return chain.from_iterable(self.pieces)

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def and_then(self, run: PassedKeys) -> "Runs":
        """These and one more behind them."""
        earlier = self.pieces
        last: tuple[PassedKeys, ...] = (run,)
        while earlier and len(earlier[-1]) <= len(last):
            earlier, last = earlier[:-1], earlier[-1] + last
        return Runs((*earlier, last))


@dataclass(frozen=True, slots=True)
class Reading:
    """The chunk is asked for. Which of the passing transactions are in the low watermark isn't known yet.

    `kept`: the bytes of the keys that passed, and of rows that were kept with them.
    """

    wire: ClassVar[str] = "reading"

    order: ReadChunk | ReselectRows
    passed: Runs = Runs()
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Reconciling:
    """The chunk is here, and the stream hasn't passed its high watermark yet.

    `passed` are the keys that may have touched it, `keys` is how many. Each window of a stream that lags is handed each
    run of them, so that they're looked at when it closes and not before. `rows` are those of the chunk less the
    `given_up` ones, which gave way already to keys that aren't kept any more. `laid_over`: whether rows that passed in
    part were laid over some of them already.
    """

    wire: ClassVar[str] = "reconciling"

    order: ReadChunk | ReselectRows
    low: GtidSet
    high: High
    rows: pa.RecordBatch
    upto: Key | None
    passed: Runs
    keys: int
    given_up: int = 0
    laid_over: bool = False


Window = Reading | Reconciling


def keys_passed(window: Window, keys: PassedKeys) -> Window:
    """The window after transactions have passed that touched `keys` in its table."""
    if isinstance(window.order, ReselectRows):
        keys = keys.among(window.order.tokens)
    match window:
        case Reading():
            return replace(window, passed=window.passed.and_then(keys), kept=window.kept + keys.nbytes)
        case Reconciling():
            passed, number = window.passed.and_then(keys), window.keys + len(keys)
            return _folded(replace(window, passed=passed, keys=number))


def take_chunk(window: Reading, read: ChunkRead) -> Reconciling:
    """The window with its chunk. InvariantBroken if the low watermark can't be used for it."""
    if not usable(read.low, window.order.asked_at):
        raise InvariantBroken(
            f"chunk {read.chunk}: the low watermark {read.low} lacks transactions that had passed when the chunk "
            f"was asked for: {window.order.asked_at - read.low}"
        )
    keys = sum(len(run) for run in window.passed)
    rows = read.rows
    if isinstance(window.order, ReselectRows):
        rows = rows.filter(pc.is_in(tokens(rows, window.order.schema.key), window.order.tokens))
    return _folded(Reconciling(window.order, read.low, read.high, rows, read.upto, window.passed, keys))


def closes(window: Reconciling, passed: StreamPosition) -> bool:
    """Whether the stream, between two transactions there, has passed the high watermark."""
    return passed.has(window.high)


def untouched(window: Reconciling) -> pa.RecordBatch:
    """The chunk's rows that no transaction outside of the low watermark touched, with what passed of them in part."""
    if not window.passed:
        return window.rows
    passed, key = PassedKeys.joined(window.passed), window.order.schema.key
    low_matters = passed.partial is None and not window.laid_over
    touched = passed.outside(window.low) if low_matters else passed.tokens
    gives_way = pc.is_in(tokens(window.rows, key), touched)
    rows = window.rows.filter(pc.invert(gives_way)) if pc.any(gives_way).as_py() else window.rows
    return rows if passed.partial is None else laid_over(rows, key, passed.partial)


def _folded(window: Reconciling) -> Reconciling:
    """The window without touched rows and without keys, once these are more than the rows.

    A stream that lags, or one large transaction, may touch any number of keys before high has passed.
    """
    if window.keys <= len(window.rows):
        return window
    rows = untouched(window)
    given_up = window.given_up + len(window.rows) - len(rows)
    partial = window.laid_over or any(run.partial is not None for run in window.passed)
    return replace(window, rows=rows, passed=Runs(), keys=0, given_up=given_up, laid_over=partial)
