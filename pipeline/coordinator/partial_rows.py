"""Rows of which the log has only a part. Each value is known from somewhere, or the row is read again.

With binlog_row_image MINIMAL or NOBLOB an image leaves columns out. A reader takes each column from the last change
that has it. It goes back to the change with which the row began: an insert or a new key. Or it goes back to a complete
row, of a change, a chunk, or the mirror. An absent column never becomes null. The claim: each column is found that way,
or Tidemark is about to read the complete row.

- **A change of a known row** leaves out what it didn't change. MySQL logs each column that a statement writes, also
  generated ones and those that change by themselves. So the row stays known.
- **An insert** leaves out columns without a given value. The log doesn't have their values (a default may be an
  expression). So the row is *unknown*, and is read again.
- **A row that takes another key** has, under the new key, what the statement wrote. All else comes from a row with
  another key. It's unknown too, because the log's account of each key is separate.
- **A chunk** brings each row as it is at the chunk's position in the stream (`pipeline.coordinator.window`). A row that
  wasn't read because it was inserted, or took a key in a finished range, is unknown for that reason, as above. Another
  row can be in no chunk only along another index than the primary key. Then a change of a column of that index moves it
  from an unread range into a finished one, or beyond the last key, which the plan has frozen. So along such an index
  such a change makes its row unknown, from the order of the plan on.

An unknown row is read again by its key, even if something else may bring it. A row of a first snapshot has no position
among the changes in the mirror. So a reader can't know whether it's older or newer than a delete. Until the row has
come, readers don't see it, because no right row exists. `pipeline.coordinator.reselect` makes sure that it comes. A
table without a mirror has no live view and none of this. Its changelog says of each row which columns are absent.

**In a window** a partial change doesn't replace a chunk's row, because then no row would have the other columns.
Reading it again instead could take forever for a row that changes all the time. So the change is *laid over* the row.

**Proof.** Take a row that S returned. Assume that all that passed with its key between A and E (names as in
`pipeline.coordinator.window`) are partial changes that left it under its key. Then no transaction in between removed
the row. Take one of its columns:

1. One of these changes has the column. Then the last one's value is the source's at E, because whatever else S saw of
   it came before E in the log.
2. None has it. Then no transaction between A and E changed it. S saw all up to A and nothing after E, so S has it as it
   is at E.

So the row equals the source's at E, column by column, and it's complete. Here it doesn't matter which of these changes
are in the low watermark. One that is may come after one that isn't, if only with `binlog_order_commits` off. The last
one in the log is right in any case. That needs all of them in their order, also complete ones. But a complete change,
or the row's end, may always replace the chunk's row, in the low watermark or not. Touching too many keys is harmless.
After either the stream has a complete row, or an unknown one, which is read again.

Sources: MySQL 9.7 Reference Manual, "Binary Logging Options and Variables" (`binlog_row_image`); WL#5092.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.messages.row_images import ImageKind, TableChanges, images_with, updates_of_keys
from pipeline.schema.row_keys import key_tokens
from pipeline.types.buffers import Flags, Longs


@dataclass(frozen=True, slots=True)
class PartialRows:
    """Rows as changes left them, in the order of the stream: the tokens of their keys, and which columns are `absent`.

    `absent` is as in `row_images.IMAGE_FIELDS`, and `rows` has null in place of these columns.
    """

    tokens: pa.Array
    absent: pa.Array
    rows: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the rows and of their descriptions."""
        return int(self.tokens.nbytes + self.absent.nbytes + self.rows.nbytes)

    def where(self, mask: pa.Array) -> "PartialRows":
        """Returns those that the mask selects."""
        return PartialRows(self.tokens.filter(mask), self.absent.filter(mask), self.rows.filter(mask))

    def last_changes(self) -> "PartialRows":
        """Returns of each key the last row with the same absent columns: it has what it replaces."""
        last = pa.array(last_places(self.tokens, self.absent))
        return PartialRows(self.tokens.take(last), self.absent.take(last), self.rows.take(last))

    @staticmethod
    def joined(parts: Sequence["PartialRows"]) -> "PartialRows":
        """Returns several, joined in their order."""
        return PartialRows(
            pa.concat_arrays([part.tokens for part in parts]),
            pa.concat_arrays([part.absent for part in parts]),
            pa.concat_batches([part.rows for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class ImageMasks:
    """The effect of images on rows that were read, as masks over the images.

    `decisive`: images that replace rows, because they have them completely or remove them. `partial`: images with a
    part of an existing row. `unknown`: images after which the row isn't known.
    """

    decisive: Flags
    partial: Flags
    unknown: Flags


def has_partial_images(changes: TableChanges) -> bool:
    """Returns whether some images leave columns out."""
    return bool(changes.images.column("absent").null_count < len(changes.images))


def classify_images(changes: TableChanges, keys: pa.Array, moving: Iterable[str] = ()) -> ImageMasks:
    """Divides the images, whose rows have these tokens. A change of one of the columns `moving` makes a row unknown."""
    kind = changes.images.column("kind").to_numpy()
    absent = changes.images.column("absent")
    whole = absent.is_null().to_numpy(zero_copy_only=False)
    moved = updates_of_keys(kind, keys)
    stays = (kind == ImageKind.INSERT) | (kind == ImageKind.UPDATE_AFTER)
    gone, unknown = kind == ImageKind.DELETE, kind == ImageKind.INSERT
    gone[moved] = True
    unknown[moved + 1] = True
    names = changes.rows.schema.names
    for name in moving:
        given = images_with(absent, names.index(name)) if name in names else True
        unknown |= (kind == ImageKind.UPDATE_AFTER) & given
    partial = stays & ~whole
    return ImageMasks(gone | (stays & whole), partial, partial & unknown)


def last_places(tokens: pa.Array, absent: pa.Array | None = None) -> Longs:
    """Returns where each key comes last, in their order; with `absent` each key with the same absent columns."""
    codes = _codes(tokens)
    if absent is not None:
        codes = codes * (len(tokens) + 1) + _codes(absent)
    _, from_end = np.unique(codes[::-1], return_index=True)
    return np.sort(len(codes) - 1 - from_end)


def _codes(values: pa.Array) -> Longs:
    codes = values.dictionary_encode(null_encoding="encode").indices
    return codes.cast(pa.int64()).to_numpy()  # type: ignore[no-any-return]


def apply_partial_rows(rows: pa.RecordBatch, key: Sequence[int], partial: PartialRows) -> pa.RecordBatch:
    """Returns the rows with the columns of the partial ones laid over them: of each column the last one that has it."""
    place = pc.index_in(partial.tokens, value_set=key_tokens(rows, key))
    there = place.is_valid()
    partial, at = partial.where(there), place.filter(there).to_numpy()
    if not len(partial):
        return rows
    columns = []
    for column in range(rows.num_columns):
        given = np.flatnonzero(images_with(partial.absent, column))
        source = np.arange(len(rows))
        source[at[given]] = len(rows) + given  # of several images of one row the last one stays
        both = pa.concat_arrays([rows.column(column), partial.rows.column(column)])
        columns.append(both.take(pa.array(source)))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
