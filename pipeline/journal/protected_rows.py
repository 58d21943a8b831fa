"""Rows as the journal keeps them, if columns of their table are protected (`pipeline.config.column_protection`).

This is the one place where that happens. All rows become tables of a segment
(`pipeline.journal.segment.segment_tables`). These are changes, rows before an update, chunks of a snapshot, rows that
are read again and rows of a verification. They come here before anything is written. What reads the journal has no
other rows: the lake, Kafka, `/changes` and Spark's streams.

Values stay Arrow columns. Each distinct value is hashed once. Text is hashed as UTF-8, bytes as they are, and all else
as its text. That is the same for numbers and moments that are equal, so it survives that a column gets a wider type.
"""

import hmac

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config.column_protection import Protection, ProtectionRule, Treatment
from pipeline.errors import InvariantBroken
from pipeline.schema.table_schema import TableSchema

_ABSENT = "__absent"

# Arrow shows a decimal with all digits of its scale, and a small one with an exponent. Equal ones have one form here.
_DECIMAL_FORMS = ((r"(\.\d*?)0+(E|$)", r"\1\2"), (r"\.(E|$)", r"\1"), (r"^0E.*$", "0"))


def protect_rows(rows: pa.Table, schema: TableSchema, protection: Protection) -> pa.Table:
    """Returns a file's rows of a table with this schema as the rules want them: the columns of `protection.stored`.

    The file's other columns stay. Raises InvariantBroken if the rules refuse the table: none of its rows may come here.
    """
    if why := protection.refusal(schema):
        raise InvariantBroken(f"rows of {schema.table} came to the journal, although {why}")
    rules = protection.rules_of_columns(schema)
    excluded = []
    for index, rule in rules.items():
        name = schema.columns[index].name
        if rule.treatment is Treatment.EXCLUDE:
            excluded.append(name)
        else:
            values = protect_values(rows[name].combine_chunks(), rule, protection.salt.value)
            rows = rows.set_column(rows.schema.get_field_index(name), pa.field(name, values.type), values)
    return _without_absent(rows.drop_columns(excluded), excluded) if excluded else rows


def protect_values(values: pa.Array, rule: ProtectionRule, salt: str) -> pa.Array:
    """Returns a column's values after a rule that doesn't exclude them."""
    match rule.treatment:
        case Treatment.MASK:
            mask = rule.text if rule.text is not None else "*" * (rule.length or 0)
            return pc.if_else(values.is_valid(), pa.scalar(mask), pa.scalar(None, pa.string()))
        case Treatment.HASH:
            return _hashed(values, salt.encode())
        case Treatment.TRUNCATE if pa.types.is_binary(values.type):
            return pc.binary_slice(values, 0, rule.length)
        case Treatment.TRUNCATE:
            return pc.utf8_slice_codeunits(values, 0, rule.length)
        case Treatment.EXCLUDE:
            raise InvariantBroken("an excluded column has no values")


def _hashed(values: pa.Array, salt: bytes) -> pa.Array:
    distinct = _hashed_form(values).dictionary_encode()
    digests = [hmac.digest(salt, value, "sha256").hex() for value in distinct.dictionary.to_pylist()]
    return pa.array(digests, pa.string()).take(distinct.indices)


def _hashed_form(values: pa.Array) -> pa.Array:
    if pa.types.is_binary(values.type):
        return values
    if pa.types.is_date(values.type):
        values = values.cast(pa.timestamp("us"))
    texts = values.cast(pa.string())
    if pa.types.is_decimal(values.type):
        for shown, alike in _DECIMAL_FORMS:
            texts = pc.replace_substring_regex(texts, shown, alike)
    return texts.cast(pa.binary())


def _without_absent(rows: pa.Table, excluded: list[str]) -> pa.Table:
    """Returns the rows that don't name these columns among those that the log left out."""
    place = rows.schema.get_field_index(_ABSENT)
    if place < 0 or rows[_ABSENT].null_count == len(rows):
        return rows
    lists = rows[_ABSENT].combine_chunks()
    names, of = lists.flatten(), pc.list_parent_indices(lists)
    kept = pc.invert(pc.is_in(names, pa.array(excluded, names.type)))
    names, counts = names.filter(kept), np.bincount(np.asarray(of.filter(kept)), minlength=len(lists))
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    left = pa.ListArray.from_arrays(pa.array(ends), names, type=lists.type, mask=pa.array(counts == 0))
    return rows.set_column(place, rows.schema.field(place), left)
