"""What the verifier reports of tables: a schema that is proven, a mirror that begins again, and a table that stops."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from pipeline.config.column_protection import Protection
from pipeline.journal.change_rows import uncapturable
from pipeline.messages.binlog import LogAdvanced, ReadingPaused
from pipeline.messages.changes import (
    ChangesVerified,
    EnginesSurveyed,
    MirrorInvalidated,
    SchemaChanged,
    SchemaVerified,
    TableStopped,
    TransactionPartVerified,
)
from pipeline.schema.compatibility import incompatibility
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.verifier.cascades import stop_orphans
from pipeline.verifier.state import State, stopped_tables, with_tables
from pipeline.verifier.table_state import Stopped

News = SchemaVerified | EnginesSurveyed | MirrorInvalidated | TableStopped
FromVerifier = ChangesVerified | TransactionPartVerified | SchemaChanged | LogAdvanced | ReadingPaused | News


def report_schemas(state: State, schemas: Iterable[TableSchema]) -> tuple[State, tuple[News, ...]]:
    """Reports these schemas. A table restarts if its rows can't stay unchanged, and stops if it can't be captured."""
    schemas = list(schemas)
    stops = report_stops(stopped_tables(state), uncapturable_tables(schemas, state.protection))
    state = with_tables(state, {stop.table: Stopped() for stop in stops})
    news: list[News] = [*stops]
    reported = dict(state.reported)
    for schema in schemas:
        table = schema.table
        if isinstance(state.tables.get(table), Stopped):
            continue
        before = reported.get(table)
        why = None if before is None else incompatibility(before, schema)
        # Without a key there's no mirror. The one that there is stays as it was with a key.
        emptied = table in state.emptied and bool(schema.key)
        restarted = () if why is None else (MirrorInvalidated(table, emptied, why),)
        news.append(SchemaVerified(schema, restarted))
        reported[table] = schema
    return replace(state, reported=reported), tuple(news)


def report_stops(ended: Collection[TableId], reasons: Mapping[TableId, str]) -> tuple[TableStopped, ...]:
    """The stops for these reasons, of tables that haven't stopped yet."""
    return tuple(TableStopped(table, reasons[table]) for table in sorted(reasons.keys() - set(ended)))


def uncapturable_tables(schemas: Iterable[TableSchema], protection: Protection) -> dict[TableId, str]:
    """Those of these tables that can't be captured, and why."""
    return {schema.table: why for schema in schemas if (why := uncapturable(schema, protection)) is not None}


def stop_orphaned_tables(state: State) -> tuple[State, tuple[TableStopped, ...]]:
    """The state in which tables stop along with those that foreign keys change them by."""
    stops = stop_orphans(state.foreign_keys, stopped_tables(state)) if state.foreign_keys else ()
    return with_tables(state, {stop.table: Stopped() for stop in stops}), stops
