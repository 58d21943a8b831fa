"""The schemas that the server had at one place of its log."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Traits


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """The schemas that the server reported both before and after `at`, its executed set.

    `folds`: whether it ignores the case of table names (lower_case_table_names), which no server changes while it runs.
    `lowers`: whether it also stores them in small letters alone (lower_case_table_names = 1).
    `utc_since`: since when (µs since the epoch) its own time zone has been UTC, which it takes when it's started; None
    if it's another one.
    `refused`: the tables that can't be captured as the server describes them, and why. `traits`: what the log doesn't
    say of the others. `unsettled`: those that statements altered just then. Their schemas and traits are the
    last that were seen, and need not hold at `at`. `end`: the end of the log after the last report, None if nothing was
    logged since `at`. Statements before it may have altered a table and undone that between the two reports.
    """

    schemas: Mapping[TableId, TableSchema]
    at: GtidSet
    folds: bool = True
    utc_since: int | None = None
    refused: Mapping[TableId, str] = field(default_factory=dict)
    traits: Mapping[TableId, Traits] = field(default_factory=dict)
    unsettled: frozenset[TableId] = frozenset()
    lowers: bool = False
    end: Coordinates | None = None

    @property
    def settled(self) -> "KnownSchemas":
        """The same without the unsettled tables."""
        if not self.unsettled:
            return self
        schemas = {table: schema for table, schema in self.schemas.items() if table not in self.unsettled}
        traits = {table: each for table, each in self.traits.items() if table not in self.unsettled}
        return replace(self, schemas=schemas, traits=traits, unsettled=frozenset())
