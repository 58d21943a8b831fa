"""Rows of which the log has a part: each value is known from somewhere, or the row is read again.

With binlog_row_image MINIMAL or NOBLOB an image leaves columns out. What a reader knows of a row is then, of each of
its columns, the value that the last change gives which has it, back to the change that the row began with (an insert,
a new key) or a whole row (of a change, a chunk, or the mirror). Nothing is ever null for being absent. What has to be
shown is that each column is found that way, or that something is under way which brings the row whole.

- **A change of a row that is known** leaves out what it didn't change: MySQL logs each column that a statement writes,
  generated ones and those that change by themselves among them. So the row stays known.
- **An insert** leaves out what wasn't given a value. The log doesn't say what became of these columns (a default may be
  an expression), so that the row is *unknown*, and is read again.
- **A row that takes another key** has under the new key what the statement wrote, and all else from a row that has
  another key. It's unknown as well, since each key's story is told by itself.
- **A chunk** brings each row as it is at the chunk's place in the stream (`pipeline.coordinator.window`). Rows that
  weren't read because they were inserted, or took a key in a range that was done, are unknown for that, as above. Only
  along another index than the primary key's may a row be in no chunk without either: when a change of a column of that
  index moves it from a range that's still to be read into one that's done. So there such a change makes its row
  unknown.

An unknown row is read again by its key, whatever else may bring it: a row of a first snapshot stands in the mirror
without a place among the changes, so that a reader can't tell whether it's of the time before or behind a delete. Until
it has come a reader doesn't see the row, since there's nothing right to be seen. `pipeline.coordinator.reselect` sees
to it that it comes. A table without a mirror has no live view and nothing of this; its changelog says of each row
what's absent.

**In a window** a chunk's row doesn't give way to a change that has only a part of it, or nobody would have the rest;
and were it read again, a row that's changed all the time would never come. Instead the change is *laid over* the row.
Take a row that S returned, and say that all that passed with its key between A and E (`pipeline.coordinator.window` for
the names) are changes that are partial and left it under its key. Then no transaction in between took the row away.
Take one of its columns:

- if one of these changes has it, then the last one's value is the source's at E, since whatever else S saw of it came
  before E in the log;
- if none has it, no transaction between A and E changed it, and S, which saw all up to A and nothing behind E, has it
  as it is at E.

So the row equals the source's at E, column by column, and it's whole. It isn't asked here which of these changes are in
the low watermark: one that is may come behind one that isn't, if only with `binlog_order_commits` off, and the last one
in the log is right in any case. That wants all of them in their order, whole ones too; but to a whole one, or to the
row's end, it can as well give way, in the low watermark or not, since touching too much does no harm: behind either
there's a whole row in the stream, or an unknown one, which is read again.

Sources: MySQL 9.7 Reference Manual, "Binary Logging Options and Variables" (`binlog_row_image`); WL#5092.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.messages.row_images import ImageKind, TableChanges
from pipeline.schema.row_keys import tokens

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Partial:
    """Rows as changes left them, in the order of the stream: the tokens of their keys, and which columns are `absent`.

    `absent` has the columns' names, `rows` null in their place.
    """

    tokens: pa.Array
    absent: pa.Array
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """The bytes of the rows and of what's said of them."""
        return int(self.tokens.nbytes + self.absent.nbytes + self.rows.nbytes)

    def where(self, mask: pa.Array) -> "Partial":
        """Those that the mask names."""
        return Partial(self.tokens.filter(mask), self.absent.filter(mask), self.rows.filter(mask))

    @staticmethod
    def joined(parts: Sequence["Partial"]) -> "Partial":
        """Several, one behind the other."""
        return Partial(
            pa.concat_arrays([part.tokens for part in parts]),
            pa.concat_arrays([part.absent for part in parts]),
            pa.concat_batches([part.rows for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Divided:
    """What images are to rows that were read, as masks over them.

    `decisive`: rows give way to these, which have them whole or take them away. `partial`: those that have a part of a
    row that's there. `unknown`: those of them behind which the row isn't known.
    """

    decisive: Mask
    partial: Mask
    unknown: Mask


def any_partial(changes: TableChanges) -> bool:
    """Whether there are images that leave columns out."""
    return bool(changes.images.column("absent").null_count < len(changes.images))


def split_images(changes: TableChanges, keys: pa.Array, moving: Iterable[str] = ()) -> Divided:
    """The images, whose rows have these tokens. A change of one of the columns `moving` makes a row unknown."""
    kind = changes.images.column("kind").to_numpy()
    absent = changes.images.column("absent")
    whole = absent.is_null().to_numpy(zero_copy_only=False)
    before = np.flatnonzero(kind == ImageKind.UPDATE_BEFORE)
    same = pc.equal(keys.take(pa.array(before)), keys.take(pa.array(before + 1))).fill_null(False)
    moved = before[~same.to_numpy(zero_copy_only=False)]
    stays = (kind == ImageKind.INSERT) | (kind == ImageKind.UPDATE_AFTER)
    gone, unknown = kind == ImageKind.DELETE, kind == ImageKind.INSERT
    gone[moved] = True
    unknown[moved + 1] = True
    for name in moving:
        unknown |= (kind == ImageKind.UPDATE_AFTER) & _given(absent, name)
    partial = stays & ~whole
    return Divided(gone | (stays & whole), partial, partial & unknown)


def laid_over(rows: pa.RecordBatch, key: Sequence[int], partial: Partial) -> pa.RecordBatch:
    """The rows with what the partial ones have of them: of each column the last one that has it."""
    place = pc.index_in(partial.tokens, value_set=tokens(rows, key))
    there = place.is_valid()
    partial, at = partial.where(there), place.filter(there).to_numpy()
    if not len(partial):
        return rows
    columns = []
    for column, field in enumerate(rows.schema):
        given = np.flatnonzero(_given(partial.absent, field.name))
        source = np.arange(len(rows))
        source[at[given]] = len(rows) + given  # of several that are of one row the last one stays
        both = pa.concat_arrays([rows.column(column), partial.rows.column(column)])
        columns.append(both.take(pa.array(source)))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _given(absent: pa.Array, name: str) -> Mask:
    """Which of the rows have the column."""
    given = np.ones(len(absent), dtype=np.bool_)
    lists = pc.list_parent_indices(absent).filter(pc.equal(pc.list_flatten(absent), name))
    given[lists.to_numpy()] = False
    return given
