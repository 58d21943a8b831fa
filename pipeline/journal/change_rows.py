"""The rows of a changes file: what a segment stores for changes of the log and for chunks.

The rows of an update depend on the key. If old and new row have the same key, the update is one row, the new one, with
`u`. A consumer that takes the last row of each key needs no more. If the key changed, the old key ends with `d` and the
new one follows with `u`. If a rule of the lake requests it (`pipeline.config.table_rules`), the row before an update is
stored too, as `b`, directly before its `u`. An update that changed the key has that row in its `d`. Without a primary
key nothing says which row is replaced. So an update is the old row less (`d`) and the new row more (`c`): the table is
a bag, and its changes a sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.column_protection import Protection
from pipeline.config.table_rules import LakeRule, Tiers, rule_of
from pipeline.errors import InvariantBroken
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.transactions import Transactions
from pipeline.messages.journal import Append, ChangePart, ChunkPart
from pipeline.messages.row_images import SOURCE_TYPE, ImageKind
from pipeline.schema.row_keys import key_tokens
from pipeline.schema.spelling import fold_name
from pipeline.schema.table_schema import TableSchema
from pipeline.snapshot.snapshot import REPAIRED, ChunkId
from pipeline.types.buffers import Flags, Longs

# `__op`: c, u, d (also a key that a repair found no row of), r (a snapshot's row), b (what an update found) or t (a
# statement took all rows away, or all rows of a table without a key come next; the table's own columns are null).
# `__ordinal`: order inside the transaction or chunk. `__gtid` and `__commit_time` (of the source's commit) are null
# for rows of a chunk, `__chunk` for all others. `__absent`: the columns of which the log doesn't give the row's
# value, which is null in the table's own column and means nothing; null where it's all. `__segment`: the number of
# the segment, so that a file alone shows where its rows belong.
META = pa.schema(
    [
        pa.field("__op", pa.string(), nullable=False),
        pa.field("__scn", pa.int64(), nullable=False),
        pa.field("__ordinal", pa.int32(), nullable=False),
        pa.field("__gtid", pa.string()),
        pa.field("__commit_time", pa.timestamp("us", tz="UTC")),
        pa.field("__chunk", pa.string()),
        pa.field("__absent", pa.list_(pa.string())),
        pa.field("__segment", pa.int64(), nullable=False),
    ]
)

# Where the row comes from; the lake has no use for it. `time`: when it was committed first, where that was,
# in µs since the epoch, null where that's `__commit_time`. `update`: true for `d` and `c` that are an update of a row
# without a key; null for all others. The rest is `row_images.SOURCE_TYPE`; of a snapshot's row it
# is where the log was. Null in files of earlier versions, which lack the column, and where nothing is known.
SOURCE = pa.field(
    "__source", pa.struct([pa.field("time", pa.int64()), pa.field("update", pa.bool_()), *SOURCE_TYPE])
)

# What a changes file says of each row, beside the table's own columns.
_DESCRIBED = pa.schema([*META, SOURCE])

# The letter of each ImageKind, by its number: of a table with a key, then of one without, then what an update found.
_LETTERS = pa.array([*"cdudt", *"cdcdt", "b"])
_KEYED, _KEYLESS, _BEFORE = map(np.int8, (0, len(ImageKind), len(_LETTERS) - 1))
_UPDATES = (ImageKind.UPDATE_BEFORE, ImageKind.UPDATE_AFTER)


def uncapturable(schema: TableSchema, protection: Protection) -> str | None:
    """Why a changes file can't have the table's rows, and what to do about it; None if it can."""
    # Engines that read the file, such as Spark, ignore the case of names.
    names = (*META.names, SOURCE.name)
    taken = (column.name for column in schema.columns if fold_name(column.name) in names)
    if (name := next(taken, None)) is None:
        return protection.refusal(schema)
    return (
        f"its column {name!r} has the name of a column that Tidemark adds; rename it, or leave the table out"
    )


@lru_cache(maxsize=4096)
def changes_schema(schema: TableSchema) -> pa.Schema:
    """The schema of a changes file without SOURCE, of a table that isn't `uncapturable`."""
    return pa.schema([*META, *schema.arrow])


@lru_cache(maxsize=4096)
def file_schema(schema: TableSchema) -> pa.Schema:
    """The schema of a changes file."""
    return changes_schema(schema).append(SOURCE)


def turn_chunks_into_changes(append: Append, rules: tuple[LakeRule, ...]) -> Append:
    """The append with the chunks of tables that have no mirror as changes, since that's where their rows go."""
    parts = tuple(
        replace(part, first=False)
        if isinstance(part, ChunkPart)
        and part.first
        and rule_of(rules, part.schema.table).tiers is Tiers.CHANGELOG
        else part
        for part in append.parts
    )
    return replace(append, parts=parts)


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """Changes of one schema, in their order. `before_images`: also the row before each update of a row with a key is
    wanted (`b`)."""

    parts: Sequence[ChangePart]
    before_images: bool = False

    @property
    def schema(self) -> TableSchema:
        """Returns the schema of all of them."""
        return self.parts[0].changes.schema


def change_tables(segment: int, runs: Sequence[ChangeRun]) -> list[pa.Table]:
    """Returns the rows of each run in the form of a changes file (`file_schema`), in their order.

    What describes the rows is made for all runs at once: with many tables of few rows, a call costs more than its rows.
    Raises InvariantBroken if an update's two images aren't adjacent.
    """
    parts = [part for run in runs for part in run.parts]
    images = _one([part.changes.images for part in parts])
    rows = [_one([part.changes.rows for part in run.parts]) for run in runs]
    counts = list(map(len, rows))
    begins = np.cumsum([0, *counts])
    keyless = np.repeat([not run.schema.key for run in runs], counts)
    kind = images.column("kind").to_numpy()
    overwritten = _overwritten(kind, rows, runs, begins)
    wanted = overwritten & np.repeat([run.before_images for run in runs], counts)
    letter = np.where(wanted, _BEFORE, kind + np.where(keyless, _KEYLESS, _KEYED))
    kept = np.flatnonzero(wanted | ~overwritten)
    bounds = np.searchsorted(kept, begins)
    passed, scn = _transactions(parts, images.column("transaction").to_numpy(), kept)
    if len(kept) < len(images):
        images = images.take(pa.array(kept))
    origin = _origin(passed, updates=keyless[kept] & np.isin(kind[kept], _UPDATES))
    described = pa.RecordBatch.from_arrays(
        [
            _LETTERS.take(pa.array(letter[kept])),
            pa.array(scn),
            images.column("ordinal"),
            passed.gtid_texts(),
            pa.array(passed.commit_time).cast(META.field("__commit_time").type),
            pa.nulls(len(kept), META.field("__chunk").type),
            _absent_names(images.column("absent"), runs, bounds),
            pa.repeat(pa.scalar(segment, pa.int64()), len(kept)),
            _source(images.column("source"), origin),
        ],
        schema=_DESCRIBED,
    )
    tables = []
    for place, run in enumerate(runs):
        first, count = bounds[place], bounds[place + 1] - bounds[place]
        own = rows[place]
        if count < counts[place]:
            own = own.take(pa.array(kept[first : first + count] - begins[place]))
        *meta, source = described.slice(first, count).columns
        tables.append(pa.Table.from_arrays([*meta, *own.columns, source], schema=file_schema(run.schema)))
    return tables


def _transactions(
    parts: Sequence[ChangePart], transaction: npt.NDArray[np.int32], kept: Longs
) -> tuple[Transactions, Longs]:
    """Returns the transaction and the SCN of each kept image; `transaction` is each image's place in its part's."""
    found = {id(part.transactions): part.transactions for part in parts}
    begins = dict(zip(found, accumulate(map(len, found.values()), initial=0), strict=False))
    counts = [len(part.changes.images) for part in parts]
    index = transaction.astype(np.int64)[kept]
    scn = index + np.repeat([part.first_scn for part in parts], counts)[kept]
    index = index + np.repeat([begins[id(part.transactions)] for part in parts], counts)[kept]
    return Transactions.joined(list(found.values())).taken(index), scn


def _origin(passed: Transactions, updates: Flags) -> list[pa.Array]:
    """Returns SOURCE's `time` and `update` of each row."""
    original = passed.original_time
    as_committed = (original == 0) | (original == passed.commit_time)
    return [pa.array(original, mask=as_committed), pa.array(updates, mask=~updates)]


def _absent_names(absent: pa.Array, runs: Sequence[ChangeRun], bounds: npt.NDArray[np.intp]) -> pa.Array:
    """Returns `__absent` of each row; `bounds`: where the rows of each run begin, and the end."""
    kind = META.field("__absent").type
    if absent.null_count == len(absent):
        return pa.nulls(len(absent), kind)
    named = []
    for place, run in enumerate(runs):
        encoded = absent.slice(bounds[place], bounds[place + 1] - bounds[place]).dictionary_encode()
        names = [_names_of(bitmap, run.schema) for bitmap in encoded.dictionary.to_pylist()]
        named.append(pa.array(names, kind).take(encoded.indices))
    return pa.concat_arrays(named)


def _names_of(bitmap: bytes, schema: TableSchema) -> list[str]:
    return [column.name for i, column in enumerate(schema.columns) if bitmap[i // 8] >> i % 8 & 1]


def _source(source: pa.Array, origin: Sequence[pa.Array]) -> pa.Array:
    """Returns SOURCE of each row, of its two parts."""
    unknown = source.is_null() if source.null_count else None
    return pa.StructArray.from_arrays([*origin, *source.flatten()], fields=list(SOURCE.type), mask=unknown)


def chunk_table(segment: int, part: ChunkPart) -> pa.Table:
    """The rows of a chunk as a rows file has them, or, if it isn't of a first snapshot, as a changes file has.

    Of a verification they name the verification in place of the chunk, and whether it compares what it has repaired.
    """
    named = part.chunk.snapshot if part.verifies else part.chunk
    if part.gone is not None and part.verifies:
        named = f"{named}{REPAIRED}"
    if part.first:
        return pa.Table.from_batches([part.rows])
    if part.begins_scan:
        none = pa.RecordBatch.from_pylist([{}], part.schema.arrow)
        return pa.Table.from_batches([chunk_changes(none, named, part.scn, segment, part.at, op="t")])
    gone = (
        [_gone_changes(part, part.gone, named, segment)] if part.gone is not None and len(part.gone) else []
    )
    first = sum(map(len, gone))
    rows = chunk_changes(part.rows, named, part.scn, segment, part.at, first=first)
    return pa.Table.from_batches([*gone, rows])


def _gone_changes(
    part: ChunkPart, keys: pa.RecordBatch, chunk: ChunkId | str, segment: int
) -> pa.RecordBatch:
    """Returns rows that remove these keys. Of the other columns nothing is known."""
    schema = part.schema
    columns = {schema.key[place]: column for place, column in enumerate(keys.columns)}
    rows = pa.RecordBatch.from_arrays(
        [columns.get(place, pa.nulls(len(keys), each.type)) for place, each in enumerate(schema.arrow)],
        schema=schema.arrow,
    )
    unknown = [each.name for place, each in enumerate(schema.columns) if place not in schema.key]
    return chunk_changes(rows, chunk, part.scn, segment, part.at, op="d", absent=unknown)


def chunk_changes(
    rows: pa.RecordBatch,
    chunk: ChunkId | str,
    scn: int,
    segment: int,
    at: Coordinates | None,
    *,
    op: str = "r",
    first: int = 0,
    absent: Sequence[str] = (),
) -> pa.RecordBatch:
    """Returns rows of a chunk as a changes file has them; `at`: where the log was. They lack the `absent` columns."""
    count = rows.num_rows
    meta = [
        pa.repeat(pa.scalar(op), count),
        pa.repeat(pa.scalar(scn, pa.int64()), count),
        pa.array(np.arange(first, first + count, dtype=np.int32)),
        pa.nulls(count, META.field("__gtid").type),
        pa.nulls(count, META.field("__commit_time").type),
        pa.repeat(pa.scalar(str(chunk)), count),
        pa.repeat(pa.scalar(list(absent) or None, META.field("__absent").type), count),
        pa.repeat(pa.scalar(segment, pa.int64()), count),
    ]
    source = at and {"file": at.file, "pos": at.offset, "row": 0}
    return pa.RecordBatch.from_arrays(
        [*meta, *rows.columns, pa.repeat(pa.scalar(source, SOURCE.type), count)],
        schema=pa.schema([*META, *rows.schema.remove_metadata(), SOURCE]),
    )


def _overwritten(
    kind: npt.NDArray[np.int8],
    rows: Sequence[pa.RecordBatch],
    runs: Sequence[ChangeRun],
    begins: Longs,
) -> Flags:
    """Returns which images are what an update found that kept its key. A table without a key has none.

    `kind` is of all runs. Each run begins at its place in `begins`, and `rows` has the rows of each.
    """
    before = np.flatnonzero(kind == ImageKind.UPDATE_BEFORE)
    bounds = np.searchsorted(before, begins)
    afters = np.searchsorted(after := np.flatnonzero(kind == ImageKind.UPDATE_AFTER), begins)
    overwritten = np.zeros(len(kind), dtype=np.bool_)
    for place, run in enumerate(runs):
        here = before[bounds[place] : bounds[place + 1]]
        if not np.array_equal(here + 1, after[afters[place] : afters[place + 1]]):
            raise InvariantBroken(
                f"an update of {run.schema.table} came without its image before or its image after"
            )
        if here.size and run.schema.key:
            own = rows[place].select(list(run.schema.key))
            overwritten[here[_keeps_key(own, here - begins[place])]] = True
    return overwritten


def _keeps_key(keys: pa.RecordBatch, before: Longs) -> Flags:
    """Returns of each place whether the next row has the same key.

    A key without a token (a zero date, which is null here) counts as changed: the d before the u is harmless.
    """
    if all(pa.types.is_integer(each.type) and not each.null_count for each in keys.columns):
        values = [each.to_numpy() for each in keys.columns]
        return np.asarray(
            np.logical_and.reduce([each[before] == each[before + 1] for each in values]), np.bool_
        )
    whole = range(keys.num_columns)
    same = pc.equal(
        key_tokens(keys.take(pa.array(before)), whole), key_tokens(keys.take(pa.array(before + 1)), whole)
    )
    return np.asarray(same.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)


def _one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
