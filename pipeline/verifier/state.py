"""What the schema verifier knows: of the server, of each table, and what waits (`pipeline.verifier.step`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipeline.config.column_protection import UNPROTECTED, Protection
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import GtidSet
from pipeline.messages.changes import CreationStatements
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_filter import TableFilter
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Survey
from pipeline.verifier.cascades import OutdatedForeignKeys
from pipeline.verifier.schema_fence import HeldMessage
from pipeline.verifier.table_state import SchemaFetched, SchemaPending, Stopped, TableState, Unproven


@dataclass(frozen=True, slots=True)
class State:
    """Everything that the verifier knows.

    `known`: the server's schemas at the start, and `to_come`: the transactions of `known.at` that haven't passed.
    `reported`: the schemas that it sent last. `emptied`: tables without an image since it reported them empty.
    `doubtful`: tables for which it will query the server, or whose answer doesn't hold yet. `creating`: tables that the
    present transaction creates. `held`: messages that wait, with `held_bytes` of rows, after `passed` others.
    `log_position`: where the stream is after those.

    `foreign_keys`: those whose effects aren't in the log. `cascaded`: tables that these may have changed in the present
    transaction, with the parents. `outdated_keys`: tables that may have other foreign keys by now, None if the server
    logs their effects. `unnamed`: tables whose images in the present transaction were left out, and why. `survey`:
    facts of tables that the log doesn't have. `unknown_engines`: tables whose engine may be one whose rows the log
    doesn't have. `merging`: those that a MERGE table may have had in its UNION since the server was asked. `asking`:
    whether a query is under way. `keeps`: the tables on whose schema the journal keeps statements, None if it keeps
    none. `creation`: the statement with which the present transaction created its table. `protection`: the rules for
    columns, which refuse some tables.
    """

    captured: TableFilter
    known: KnownSchemas
    to_come: GtidSet
    tables: Mapping[TableId, TableState] = field(default_factory=dict)
    reported: Mapping[TableId, TableSchema] = field(default_factory=dict)
    emptied: frozenset[TableId] = frozenset()
    doubtful: frozenset[TableId] = frozenset()
    creating: frozenset[TableId] = frozenset()
    held: tuple[HeldMessage, ...] = ()
    held_bytes: int = 0
    passed: int = 0
    log_position: Coordinates | None = None
    foreign_keys: tuple[ForeignKey, ...] = ()
    cascaded: Mapping[TableId, frozenset[TableId]] = field(default_factory=dict)
    outdated_keys: OutdatedForeignKeys | None = None
    unnamed: Mapping[TableId, str] = field(default_factory=dict)
    survey: Survey = field(default_factory=Survey)
    unknown_engines: frozenset[TableId] = frozenset()
    merging: frozenset[TableId] = frozenset()
    asking: bool = False
    keeps: TableFilter | None = None
    creation: CreationStatements | None = None
    protection: Protection = UNPROTECTED


def with_tables(state: State, changed: Mapping[TableId, TableState]) -> State:
    """Returns the state with these tables changed, except stopped ones: a stop is final here."""
    stopped = {table: s for table in changed if isinstance(s := state.tables.get(table), Stopped)}
    in_doubt = {
        table for table, s in changed.items() if isinstance(s, Unproven | SchemaPending | SchemaFetched)
    }
    return replace(state, tables={**state.tables, **changed, **stopped}, doubtful=state.doubtful | in_doubt)


def stopped_tables(state: State) -> frozenset[TableId]:
    """Returns the tables whose changes can't be given any more."""
    return frozenset(table for table, known in state.tables.items() if isinstance(known, Stopped))


def unproven_tables(state: State) -> frozenset[TableId]:
    """Returns the tables for whose schema the server has to say more."""
    return frozenset(
        table for table in state.doubtful if isinstance(state.tables.get(table), Unproven | SchemaPending)
    )
