"""What must be known of the source before capture can start: whether it is suitable, and its tables' schemas.

The schemas come with the set K that they are known at, and with the end of the log after that.
`pipeline.verifier.step` proves with both where they hold. So the schemas are read, then K, the schemas and the end, and
these again until nothing has changed in between. Statements on some of many tables may never leave such a moment. After
a few looks those tables are `unsettled` that weren't the same in the last two.

A look may see the work of a statement that isn't in K and not even in the log (`Source.unlogged`). The table isn't
settled then, and the others don't wait for it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from actors.source import gtid_history, server_facts
from actors.source.connection import Source
from actors.source.unmatched_tables import (
    idle_pattern_finding,
    idle_patterns,
    key_findings,
    pattern_hints,
    protection_findings,
    type_findings,
)
from actors.source.watermark_table import SignalTable
from pipeline.config.settings import ForeignKeys, Settings, SourceSettings, Watermark
from pipeline.errors import Definite
from pipeline.gtid import file_positions
from pipeline.gtid.coordinates import Coordinates
from pipeline.gtid.gtid_set import NO_GTIDS, GtidSet
from pipeline.schema.foreign_key import ForeignKey
from pipeline.schema.known_schemas import KnownSchemas
from pipeline.schema.table_schema import TableId, TableSchema
from pipeline.schema.table_traits import Traits
from pipeline.source.finding import Finding, Severity
from pipeline.source.information_schema import Descriptions, differing_tables
from pipeline.source.prerequisites import (
    ServerFacts,
    findings,
    logs_cascades,
    position_findings,
    unlogged_foreign_keys,
    watermark_findings,
)
from pipeline.verifier import signal_table as signal_rows
from pipeline.verifier.cascades import OutdatedForeignKeys
from pipeline.verifier.schema_fence import ServerAnswer

# A run waits for such a table to be created. Who checks a configuration hardly means that.
NOTHING_MATCHES: Final = "correct `tables`, or grant SELECT"

# How often all tables are looked at for a moment at which no statement altered one.
_MOST_LOOKS: Final = 3


class UnfitSource(Definite):
    """The source can't be captured from; the message lists all that's wrong."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The findings about the source: problems, the schemas, and which transactions its log no longer has.

    `source`: how it's reached. `server`: its UUID; these findings don't hold for a connection to another one.
    `markers`: the signal table, if positions are files and offsets and not GTIDs (`actors.source.gtid_history`).
    `foreign_keys`: those whose effects aren't in the log; `outdated_keys`: what to do about further ones, None if the
    server logs their effects. `log_end`: the end of its log before `known`. `unnamed`: what the server says of a change
    without a GTID that its log won't bring.
    """

    findings: tuple[Finding, ...]
    known: KnownSchemas
    purged: GtidSet
    source: SourceSettings
    server: str
    markers: SignalTable | None
    foreign_keys: tuple[ForeignKey, ...] = ()
    outdated_keys: OutdatedForeignKeys | None = None
    log_end: Coordinates | None = None
    unnamed: str | None = None

    def raise_errors(self) -> None:
        """Raises UnfitSource if capture can't run."""
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        if errors:
            lines = (f"  {finding.wrong}; {finding.remedy}" for finding in errors)
            raise UnfitSource("\n".join(["the source isn't as capture needs it:", *lines]))


async def preflight(settings: Settings) -> Preflight:
    """Look at the source, to begin there. Raises Transient or Definite where it can't be reached."""
    source = await Source.connect(settings.source)
    try:
        return await inspect_source(source, settings, NO_GTIDS)
    finally:
        source.close()


async def inspect_source(source: Source, settings: Settings, position: GtidSet) -> Preflight:
    """Examines a source, to continue from this position. Raises Transient or Definite if that fails."""
    tables = await _tables(source, settings)
    told = await source.descriptions(tables, brief=True)
    facts = await server_facts.collect_facts(source, tables, told.described, settings.snapshot.allow_lock)
    reread = settings.snapshot.foreign_keys is ForeignKeys.REREAD
    by_coordinates = signal_table(settings) if _has_coordinates(facts, position) else None
    judged = findings(facts, reread, by_coordinates is not None, begun=bool(position))
    found = [*judged, *await _markers(source, facts, settings)]
    found += position_findings(
        source.server, file_positions.server_of(position), by_coordinates is not None, settings.snapshot
    )
    found += await _signal_table(source, settings)
    if facts.variables.get("server_id") == str(settings.source.server_id):
        wrong = f"source.server_id: {settings.source.server_id} is the source's own server_id"
        found.append(Finding(Severity.ERROR, wrong, "give a number that no server of this replication has"))
    if not any(map(settings.tables.match, tables)):
        found.append(await _nothing_matches(source, settings))
    elif idle := idle_patterns(settings.tables.patterns, tables):
        found.append(idle_pattern_finding(idle, await source.tables()))
    found += protection_findings(settings.protection, tables)
    found += key_findings(settings, tables)
    found += type_findings(settings.lake_types, stored_schemas(settings, _schemas(told).values()))
    errors = any(finding.severity is Severity.ERROR for finding in found)
    if errors:
        return Preflight(
            tuple(found), KnownSchemas({}, NO_GTIDS), NO_GTIDS, settings.source, source.server, by_coordinates
        )
    # First, so that the others have it.
    end, _ = await source.end_of_log()
    purged = await gtid_history.purged_transactions(source, by_coordinates is not None)
    known = await _known_schemas(source, settings, told, by_coordinates, end)
    keys = unlogged_foreign_keys(facts)
    logged = logs_cascades(source.version, facts.variables)
    outdated_keys = None if logged else OutdatedForeignKeys(reread)
    return Preflight(
        tuple(found), known, purged, settings.source, source.server, by_coordinates, keys, outdated_keys, end
    )


def stored_schemas(settings: Settings, schemas: Iterable[TableSchema]) -> Iterator[TableSchema]:
    """Yields the schemas of captured tables as the journal has them."""
    for schema in schemas:
        if settings.tables.match(schema.table):
            yield settings.protection.stored(schema)


async def _nothing_matches(source: Source, settings: Settings) -> Finding:
    patterns = settings.tables.patterns
    hints = "; ".join(pattern_hints(patterns, await source.tables()))
    return Finding(
        Severity.WARNING,
        f"no table that the user may see matches {', '.join(patterns)} ({hints})",
        NOTHING_MATCHES,
    )


def _has_coordinates(facts: ServerFacts, position: GtidSet) -> bool:
    """Whether positions are coordinates: as the position is, or, for a first one, where there are no GTIDs."""
    return file_positions.server_of(position) is not None if position else not facts.has_gtids


def signal_table(settings: Settings) -> SignalTable | None:
    """The table that watermarks are written into, if they are."""
    table = settings.signals.table
    return SignalTable(table) if settings.snapshot.watermark is Watermark.SIGNAL_TABLE and table else None


async def _markers(source: Source, facts: ServerFacts, settings: Settings) -> Iterable[Finding]:
    table = signal_table(settings)
    return () if table is None else watermark_findings(facts, table.id, await table.refusal(source))


async def _signal_table(source: Source, settings: Settings) -> Iterable[Finding]:
    if (table := settings.signals.table) is None:
        return ()
    described = (await source.describe([table])).get(table)
    wrong = (
        f"there's no {table} that the user may see"
        if described is None
        else signal_rows.why_unreadable(described.schema)
    )
    remedy = f"{signal_rows.CREATE_SIGNAL_TABLE.format(table=table)}, grant SELECT on it, or leave out signals.table"
    return () if wrong is None else (Finding(Severity.ERROR, f"signals.table: {wrong}", remedy),)


async def _known_schemas(
    source: Source, settings: Settings, told: Descriptions, markers: SignalTable | None, before: Coordinates
) -> KnownSchemas:
    """Returns the schemas of the tables that are read from the log, with the set and the end that prove them.

    `told`: the source's earlier answer; `markers`: see `query_tables`; `before`: where the log ended already. If it
    still ends there, no statement can have come in between, and the set alone proves settled tables.
    """
    case, utc_since = await source.lower_case_table_names(), await source.utc_since()
    looks = 0
    while True:
        looks += 1
        later = await gtid_history.visible_transactions(source, markers)
        tables = await _tables(source, settings)
        again = await source.descriptions(tables, told, brief=True)
        unlogged = await source.unlogged(again.described.keys())
        if (again == told and not unlogged) or looks == _MOST_LOOKS:
            end, _ = await source.end_of_log()
            doubtful = (unlogged | again.locked) & again.described.keys()
            unsettled = differing_tables(told, again) | doubtful
            refused = {table: why for table, why in again.refused.items() if table not in unsettled}
            quiet = end == before and not unsettled
            return KnownSchemas(
                _schemas(again),
                later,
                case != 0,
                utc_since,
                refused,
                _traits(again),
                unsettled,
                lowers=case == 1,
                end=None if quiet else end,
            )
        told = again


async def query_tables(
    settings: SourceSettings,
    server: str,
    tables: frozenset[TableId],
    markers: SignalTable | None = None,
    *,
    cascades: bool = False,
) -> ServerAnswer:
    """What this server says now of those of these tables that no statement is altering. Raises Transient or Definite
    where it can't be reached.

    `markers`: where positions are coordinates in its log. `cascades`: whether it doesn't log what foreign keys do.
    """
    source = await Source.connect(settings, server)
    try:
        ordered = sorted(tables)
        at = await gtid_history.visible_transactions(source, markers)
        first = await source.descriptions(ordered, brief=True)
        # Before MySQL 8.0 a table's columns and its key are looked at one after the other.
        told = await source.descriptions(ordered, first, brief=True)
        missing = tables - told.described.keys() - told.refused.keys()
        unlogged = await source.unlogged(told.described.keys(), missing)
        settled = tables - differing_tables(first, told) - told.locked - unlogged
        keys = await source.cascading() if cascades else ()
        end, _ = await source.end_of_log()
        schemas = {table: schema for table, schema in _schemas(told).items() if table in settled}
        refused = {table: why for table, why in told.refused.items() if table in settled}
        return ServerAnswer(settled, schemas, at, end, keys, refused, _traits(told))
    finally:
        source.close()


async def _tables(source: Source, settings: Settings) -> list[TableId]:
    """Those of the source's tables that are read out of the log."""
    return [table for table in await source.tables() if settings.read.match(table)]


def _schemas(told: Descriptions) -> dict[TableId, TableSchema]:
    return {table: found.schema for table, found in told.described.items()}


def _traits(told: Descriptions) -> dict[TableId, Traits]:
    return {table: found.traits for table, found in told.described.items()}
