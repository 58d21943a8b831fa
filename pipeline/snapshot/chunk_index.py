"""The walk: the index along which a table's chunks are read, and which the server alone orders."""

import hashlib
import json
from dataclasses import dataclass

from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_schema import to_json as schema_to_json
from pipeline.source.rounding import Roundings


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """An index by its name, its columns (indices of the table's) in the index's order, and how each is ordered.

    The order says whether a column is `descending`, and which of `collations` orders its text, else None.

    It's the primary key's, or that of a unique index over columns that can't be null (a *surrogate key*). The keys of
    ranges and chunks are keys of the walk. The primary key tells rows apart, with any walk.

    `roundings`: how each of the table's columns rounds what it's compared with, if the server was asked for it. It's
    true for the statements that come next, and is no part of the version.
    """

    index: str
    columns: tuple[int, ...]
    descending: tuple[bool, ...]
    collations: tuple[str | None, ...]
    roundings: Roundings = ()

    def version(self, schema: TableSchema) -> str:
        """Returns 16 hex digits. If they differ, keys of two walks don't compare, or another key tells rows apart."""
        own = TableSchema(TableId("", ""), tuple(schema.columns[i] for i in self.columns), ())
        said = [
            self.index,
            list(self.descending),
            list(self.collations),
            schema_to_json(own),
            schema.key_version,
        ]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]
