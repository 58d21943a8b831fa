"""The schemas that the server had at one place of its log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Traits


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """The schemas that the server gave both before and behind `at`, its executed set.

    `folds`: whether it compares names of tables without regard to case (lower_case_table_names), which no server
    changes while it runs. `refused`: the tables that it described so that they can't be captured, and why. `traits`:
    what the log doesn't tell of the others.
    """

    schemas: Mapping[TableId, TableSchema]
    at: GtidSet
    folds: bool = True
    refused: Mapping[TableId, str] = field(default_factory=dict)
    traits: Mapping[TableId, Traits] = field(default_factory=dict)
