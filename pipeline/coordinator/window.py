"""The window: the time in which a chunk and the log may both have a row. Changes of the log win.

A window opens when the coordinator orders its chunk. It closes when the stream has passed the high watermark. Then the
rows whose keys no change touched enter the stream at that position. **Claim:** *each of these rows equals the source's
row at the very position at which the coordinator emits it*.

**Symbols.** The five moments of a window, in the order of time:

- A: the stream's position when the coordinator orders the chunk: the GTID set of all transactions that have passed.
- L, the low watermark: a GTID set that the ChunkSelector reads just before S. It is what the server has executed,
  without the transactions that a thread of the server still owns: those may be in the log and not committed yet.
- S: the SELECT that reads the chunk. It sees one state of the table.
- H, the high watermark: the end of the server's log (file and offset), which the ChunkSelector reads just after S.
- E: the position in the stream at which the coordinator emits the chunk's rows.

The log orders H and E: E is at or after H once the stream has read the log up to there. GTID sets have no such order.
A ⊆ L means that L contains every transaction of A.

**Assumptions.**

1. A ⊆ L. The ChunkSelector reads L again until that holds, and `take_chunk` checks it.
2. What L holds had committed before S began, so S saw it: no thread owned it any more.
3. What S saw was in the log before H was read, because a server writes a transaction to its log before it commits.
4. H has passed at E (`can_close`), and E lies between two transactions (`pipeline.coordinator.step`).
5. `touched` has the old and new keys of exactly those transactions that passed between A and E and aren't in L
   (`pass_keys`, `untouched_rows`).

**Proof.** S returned a row. Suppose that the source's row at E differs from it (another value, or no row). Then some
transaction T changed this row, and one of two cases holds:

1. S saw T, and the stream up to E doesn't have T. By 3 T was in the log before H was read. By 4 E is at or after H. So
   the stream has T: a contradiction.
2. The stream up to E has T, and S didn't see T. By 2 T isn't in L. By 1 T isn't in A. So T passed between A and E,
   and by 5 its keys are in `touched`. Take the first such T in the log that changes this row after the state that S
   saw. Its old key is the key that S returned, byte for byte, because nothing changed the row in between. So the row's
   key is touched, and the row isn't emitted.

A row that S didn't return needs no separate argument. If the source has it at E, then a T as in case 2 brought it into
the chunk's range, and the stream has T. Touching too many keys is harmless: the change that touched a key is in the
stream with the row's complete image. The proof compares GTIDs only by membership, never by order, and keys only for
equality. It holds for any E after H between two transactions, so slices of transactions suffice. A change with a part
of a row is laid over the chunk's row instead: `partial_rows` has the proof for that.

**Parts of a transaction** suffice too. The proof needs only that a complete transaction is on one side of A and of E,
and that all of its keys are touched if it lies between. Between its first part and its end no chunk is ordered and no
row emitted, so both hold. A window that is open at one part is open at all of them, or was dropped. The GTID is known
from the first part, so all parts have the same membership in L.

**Other watermarks.** Of H the proof needs only what 3 and 4 say together: all that S saw has passed at E. That also
holds for the executed set of the server that S read, once this set is proven complete and the stream's position
contains it. And it holds for a row written to the log after S, once that row has passed. Of L the proof needs 1 and 2.
If a row was committed before S, L may be A itself (`watermark`).

**Many windows.** The proof is about one window and doesn't mention others, so any number may be open. It doesn't
mention the index along which the chunk was read either. The primary key tells rows apart, and only their presence in
the chunk matters. The windows of a table share one claim: the table is complete when all its ranges are. The ranges are
intervals of the server's own order, disjoint and without a gap, because each begins with the key at which the one
before ends. Take a row of the source at the end. Either no transaction that passed since the order of its range's chunk
changed it: then the chunk that has its key between `after` and `upto` saw it. Or such a transaction did, and the stream
has the row. A row whose key moves from one range to another was changed by that, so it is the second case in both.

A row that moved along the walk may come in two chunks. It then has two primary keys, or it is a change of one (`op` =
r), and the later one counts. So chunks along another index than the primary key never go straight to a mirror, where
only the present rows count.

**Rows that are read again** by their keys (`ReadByKeys`) are a chunk of exactly these keys, and the proof is the same.
Of the log only their keys matter. The server's collation may return a row with other bytes for one of them. That isn't
the row: it got this key by a change, which the stream has.

**Keys that are gone.** A repair (`RepairRows`) also emits the keys of which S returned no row with exactly these bytes,
without those in `touched`. Each has no row at E. Suppose that it has one. Then some T gave a row this key after the
state that S saw, or S would have returned it. The two cases hold for this T: its new key is in `touched`.

Sources: DBLog (Andreakis and Papapanagiotou, 2020) for the window; WL#6355 for what commit order does and doesn't
promise; `watermark` for why the high watermark is a position in the log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.coordinator.partial_rows import PartialRows, apply_partial_rows
from pipeline.errors import InvariantBroken
from pipeline.gtid.gtid_set import GtidSet
from pipeline.gtid.transactions import Transactions
from pipeline.messages.chunks import ChunkRead, ReadByKeys, ReadChunk, RepairRows
from pipeline.schema.row_keys import Key, tokens
from pipeline.snapshot.watermark import High, StreamPosition, is_usable_low


@dataclass(frozen=True, slots=True)
class PassedKeys:
    """The keys that a run of transactions touched in one table: a token and the transaction's index for each.

    `partial`: the rows that the run left under their keys and has only in part. Their keys aren't among the others.
    """

    transactions: Transactions
    transaction: npt.NDArray[np.int32]
    tokens: pa.Array
    partial: PartialRows | None = None

    def __len__(self) -> int:
        return len(self.tokens) + (0 if self.partial is None else len(self.partial))

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the keys and of the kept rows."""
        return int(self.tokens.nbytes) + (0 if self.partial is None else self.partial.nbytes)

    def among(self, keys: pa.Array) -> "PassedKeys":
        """Returns those that are among these keys."""
        met = pc.is_in(self.tokens, keys)
        partial = None if self.partial is None else self.partial.where(pc.is_in(self.partial.tokens, keys))
        here = met.to_numpy(zero_copy_only=False)
        return PassedKeys(self.transactions, self.transaction[here], self.tokens.filter(met), partial)

    def outside(self, low: GtidSet) -> pa.Array:
        """Returns the tokens of the transactions that aren't in the low watermark."""
        not_in_low = self.transactions.not_in(low)
        return self.tokens.filter(pa.array(not_in_low[self.transaction]))

    @staticmethod
    def joined(several: Iterable["PassedKeys"]) -> "PassedKeys":
        """Returns the keys of several runs, in their order."""
        runs = list(several)
        begins = accumulate((len(run.transactions) for run in runs), initial=0)
        partial = [run.partial for run in runs if run.partial is not None]
        return PassedKeys(
            Transactions.joined([run.transactions for run in runs]),
            np.concatenate([run.transaction + begin for run, begin in zip(runs, begins, strict=False)]),
            pa.concat_arrays([run.tokens for run in runs]),
            PartialRows.joined(partial) if partial else None,
        )


@dataclass(frozen=True, slots=True)
class KeyRuns:
    """Runs in order. Adding one copies about log n of n runs, not all.

    They are in pieces, and each piece is longer than the next one.
    """

    pieces: tuple[tuple[PassedKeys, ...], ...] = ()

    def __iter__(self) -> Iterator[PassedKeys]:
        return chain.from_iterable(self.pieces)

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def appended(self, run: PassedKeys) -> "KeyRuns":
        """Returns these runs and one more at the end."""
        earlier = self.pieces
        last: tuple[PassedKeys, ...] = (run,)
        while earlier and len(earlier[-1]) <= len(last):
            earlier, last = earlier[:-1], earlier[-1] + last
        return KeyRuns((*earlier, last))


@dataclass(frozen=True, slots=True)
class Reading:
    """The chunk is ordered. It isn't known yet which of the passing transactions are in the low watermark.

    `kept`: the bytes of the keys that passed, and of the rows kept with them.
    """

    wire: ClassVar[str] = "reading"

    order: ReadChunk | ReadByKeys
    passed: KeyRuns = KeyRuns()
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Reconciling:
    """The chunk has come, and the stream hasn't passed its high watermark yet.

    `passed`: the keys that may have touched it. `keys`: how many. Each window of a lagging stream gets each run of
    them, so it examines them only when it closes. `rows`: the chunk's rows without the `superseded` ones, which changes
    superseded already and whose keys are no longer kept. `laid_over`: whether rows that passed in part were laid over
    some of them already. `gone`: of a repair, the requested keys without a row that no dropped key touched.
    """

    wire: ClassVar[str] = "reconciling"

    order: ReadChunk | ReadByKeys
    low: GtidSet
    high: High
    rows: pa.RecordBatch
    upto: Key | None
    passed: KeyRuns
    keys: int
    superseded: int = 0
    laid_over: bool = False
    gone: pa.RecordBatch | None = None


Window = Reading | Reconciling


def pass_keys(window: Window, keys: PassedKeys) -> Window:
    """Returns the window after transactions have passed that touched `keys` in its table."""
    if isinstance(window.order, ReadByKeys):
        keys = keys.among(window.order.tokens)
    match window:
        case Reading():
            return replace(window, passed=window.passed.appended(keys), kept=window.kept + keys.nbytes)
        case Reconciling():
            passed, number = window.passed.appended(keys), window.keys + len(keys)
            return _drop_touched_rows(replace(window, passed=passed, keys=number))


def take_chunk(window: Reading, read: ChunkRead) -> Reconciling:
    """Returns the window with its chunk. Raises InvariantBroken if the low watermark isn't usable."""
    if not is_usable_low(read.low, window.order.ordered_at):
        raise InvariantBroken(
            f"chunk {read.chunk}: the low watermark {read.low} lacks transactions that had passed when the chunk "
            f"was ordered: {window.order.ordered_at - read.low}"
        )
    keys = sum(len(run) for run in window.passed)
    rows = read.rows
    if isinstance(window.order, ReadByKeys):
        rows = rows.filter(pc.is_in(tokens(rows, window.order.schema.key), window.order.tokens))
    gone = _without_row(window.order, rows) if isinstance(window.order, RepairRows) else None
    return _drop_touched_rows(
        Reconciling(window.order, read.low, read.high, rows, read.upto, window.passed, keys, gone=gone)
    )


def can_close(window: Reconciling, passed: StreamPosition) -> bool:
    """Returns whether the stream, between two transactions there, has passed the high watermark."""
    return passed.has(window.high)


def untouched_rows(window: Reconciling) -> pa.RecordBatch:
    """Returns the chunk's rows that no transaction outside the low watermark touched, with their partial changes
    applied."""
    if not window.passed:
        return window.rows
    passed, key = PassedKeys.joined(window.passed), window.order.schema.key
    gives_way = pc.is_in(tokens(window.rows, key), _touched(window, passed))
    rows = window.rows.filter(pc.invert(gives_way)) if pc.any(gives_way).as_py() else window.rows
    return rows if passed.partial is None else apply_partial_rows(rows, key, passed.partial)


def gone_keys(window: Reconciling) -> pa.RecordBatch:
    """Returns the keys that a repair requested, and of which the source has no row."""
    assert window.gone is not None
    if not window.passed:
        return window.gone
    passed = PassedKeys.joined(window.passed)
    touched = _touched(window, passed)
    if passed.partial is not None:
        touched = pa.concat_arrays([touched, passed.partial.tokens])
    own = tokens(window.gone, range(window.gone.num_columns))
    return window.gone.filter(pc.invert(pc.is_in(own, touched)))


def _touched(window: Reconciling, passed: PassedKeys) -> pa.Array:
    """Returns the tokens of the rows that give way.

    With partial rows these are all that passed, in the low watermark or not (`partial_rows` has the proof).
    """
    low_matters = passed.partial is None and not window.laid_over
    return passed.outside(window.low) if low_matters else passed.tokens


def _without_row(order: RepairRows, rows: pa.RecordBatch) -> pa.RecordBatch:
    return order.keys.filter(pc.invert(pc.is_in(order.tokens, tokens(rows, order.schema.key))))


def _drop_touched_rows(window: Reconciling) -> Reconciling:
    """Returns the window without touched rows and without keys, once the keys are more than the rows.

    A lagging stream, or one large transaction, may touch any number of keys before high has passed.
    """
    if window.keys <= len(window.rows):
        return window
    rows = untouched_rows(window)
    given_up = window.superseded + len(window.rows) - len(rows)
    partial = window.laid_over or any(run.partial is not None for run in window.passed)
    return replace(
        window,
        rows=rows,
        passed=KeyRuns(),
        keys=0,
        superseded=given_up,
        laid_over=partial,
        gone=None if window.gone is None else gone_keys(window),
    )
