"""The schemas that the server had at one place of its log."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.gtid.gtid_set import GtidSet
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Traits


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """The schemas that the server reported both before and after `at`, its executed set.

    `folds`: whether it ignores the case of table names (lower_case_table_names), which no server changes while it runs.
    `system_is_utc`: whether its own time zone is UTC, which neither changes.
    `refused`: the tables that can't be captured as the server describes them, and why. `traits`: what the log doesn't
    say of the others.
    """

    schemas: Mapping[TableId, TableSchema]
    at: GtidSet
    folds: bool = True
    system_is_utc: bool = False
    refused: Mapping[TableId, str] = field(default_factory=dict)
    traits: Mapping[TableId, Traits] = field(default_factory=dict)
